//! `topology-affinity-filter`: candidates near the peer (scheduling spec 4.5).

use serde::{Deserialize, Serialize};

use super::retain_unless_all_go;
use crate::attributes::Topology;
use crate::candidates::Candidate;
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::scheduling::topology::{Level, compare, peer_topology};
use crate::scheduling::{Filter, SchedulingContext, invalid, name_or};

/// Name of the type.
pub const TYPE: &str = "topology-affinity-filter";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct TopologyFilterParameters {
    /// The loosest level that is near enough; empty = host.
    min_affinity: String,
    /// Whose topology to read; empty = the default producer's.
    topology_producer_name: String,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let TopologyFilterParameters { min_affinity, topology_producer_name } = parameters.decode()?;
    let loosest = if min_affinity.is_empty() { Some(Level::Host) } else { Level::parse(&min_affinity) };
    let Some(loosest) = loosest else {
        return Err(invalid(format!(
            "minAffinity {min_affinity:?} is unknown; accepted: host, rack, zone, region"
        )));
    };
    let key = resolve(well_known::TOPOLOGY, &topology_producer_name);
    let optional = vec![TypedKey::of::<Topology>(&key)];
    let data = DataFlow { optional, declares: true, ..DataFlow::default() };
    let filter = TopologyAffinityFilter { key, loosest };
    Ok(Instance::new(TYPE, name_or(name, TYPE), Roles::filter(filter)).with_data(data))
}

struct TopologyAffinityFilter {
    key: DataKey,
    loosest: Level,
}

impl Filter for TopologyAffinityFilter {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        let Some(peer) = peer_topology(cx.request, &self.key) else { return };
        let places = cx.candidates.read(&self.key);
        retain_unless_all_go(survivors, |candidate| {
            places.get(candidate).is_some_and(|place| compare(Some(peer), Some(place)) <= self.loosest)
        });
    }
}
