//! `topology-affinity-scorer`: the nearer to the peer, the better (scheduling spec 5.16).

use serde::{Deserialize, Serialize};

use crate::attributes::Topology;
use crate::candidates::Candidate;
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::scheduling::topology::{Level, compare, peer_topology};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "topology-affinity-scorer";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct TopologyParameters {
    /// Whose topology to read; empty = the default producer's.
    topology_producer_name: String,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let TopologyParameters { topology_producer_name } = parameters.decode()?;
    let key = resolve(well_known::TOPOLOGY, &topology_producer_name);
    let optional = vec![TypedKey::of::<Topology>(&key)];
    let data = DataFlow { optional, declares: true, ..DataFlow::default() };
    Ok(Instance::new(TYPE, name, Roles::scorer(TopologyAffinityScorer { key })).with_data(data))
}

struct TopologyAffinityScorer {
    key: DataKey,
}

impl Scorer for TopologyAffinityScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Affinity
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let peer = peer_topology(cx.request, &self.key);
        let places = cx.candidates.read(&self.key);
        for (&candidate, score) in survivors.iter().zip(scores) {
            *score = Some(score_of(compare(peer, places.get(candidate))));
        }
    }
}

/// Inside a host is much faster than over one switch, and so on outwards.
fn score_of(level: Level) -> f64 {
    match level {
        Level::Host => 1.0,
        Level::Rack => 0.20,
        Level::Zone => 0.05,
        Level::Region => 0.02,
        Level::None => 0.0,
    }
}
