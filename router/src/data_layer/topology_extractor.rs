//! `topology-extractor`: where an endpoint stands (configuration spec 6.6).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::endpoints::Endpoints;
use super::{EndpointEvent, EndpointListener, PodEvent, PodListener};
use crate::attributes::Topology;
use crate::data_key::{DataKey, well_known};
use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};

/// The plugin type.
pub const TYPE: &str = "topology-extractor";

/// Parameters of [`TYPE`]: names of labels, empty = the usual one.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct TopologyParameters {
    /// Default `kubernetes.io/hostname`.
    pub hostname: String,
    /// Default `topology.kubernetes.io/rack`.
    pub rack: String,
    /// Default `topology.kubernetes.io/zone`.
    pub zone: String,
    /// Default `topology.kubernetes.io/region`.
    pub region: String,
}

/// Keeps an endpoint's place as an attribute: from its labels, the host name failing that from its pod.
#[derive(Debug)]
pub struct TopologyExtractor {
    key: DataKey,
    labels: TopologyParameters,
    pods: RefCell<BTreeMap<PodName, Pod>>,
}

/// Namespace and name of a pod.
type PodName = (String, String);

/// What is known of a pod.
#[derive(Clone, Debug, Default)]
struct Pod {
    /// Its host name, empty while it is not ready.
    hostname: String,
    /// Endpoints of the pod that say no host name themselves.
    endpoints: BTreeSet<EndpointId>,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let given: TopologyParameters = parameters.decode()?;
    let or = |label: String, default: &str| if label.is_empty() { default.to_owned() } else { label };
    let key = DataKey::new(well_known::TOPOLOGY.0, name);
    let extractor = Rc::new(TopologyExtractor {
        key,
        labels: TopologyParameters {
            hostname: or(given.hostname, "kubernetes.io/hostname"),
            rack: or(given.rack, "topology.kubernetes.io/rack"),
            zone: or(given.zone, "topology.kubernetes.io/zone"),
            region: or(given.region, "topology.kubernetes.io/region"),
        },
        pods: RefCell::default(),
    });
    let roles = Roles {
        endpoint_listener: Some(Rc::clone(&extractor) as _),
        pod_listener: Some(extractor),
        ..Roles::default()
    };
    // It declares no key that it produces, as in the llm-d Router; who reads its attribute does so optionally.
    Ok(Instance::new(TYPE, name, roles))
}

impl TopologyExtractor {
    fn place(&self, endpoint: &EndpointMetadata) -> Topology {
        let label = |key: &str| endpoint.labels.get(key).cloned().unwrap_or_default();
        let mut place = Topology {
            hostname: label(&self.labels.hostname),
            rack: label(&self.labels.rack),
            zone: label(&self.labels.zone),
            region: label(&self.labels.region),
        };
        if place.hostname.is_empty() {
            let mut pods = self.pods.borrow_mut();
            let pod = pods.entry(pod_of(endpoint)).or_default();
            pod.endpoints.insert(endpoint.id.clone());
            place.hostname.clone_from(&pod.hostname);
        } else {
            self.untrack(endpoint);
        }
        place
    }

    fn untrack(&self, endpoint: &EndpointMetadata) {
        let mut pods = self.pods.borrow_mut();
        let name = pod_of(endpoint);
        if let Some(pod) = pods.get_mut(&name) {
            pod.endpoints.remove(&endpoint.id);
            if pod.is_forgotten() {
                pods.remove(&name);
            }
        }
    }
}

impl Pod {
    fn is_forgotten(&self) -> bool {
        self.hostname.is_empty() && self.endpoints.is_empty()
    }
}

fn pod_of(endpoint: &EndpointMetadata) -> PodName {
    (endpoint.id.namespace.clone(), endpoint.name.clone())
}

impl EndpointListener for TopologyExtractor {
    fn on_event(&self, event: &EndpointEvent, endpoint: Option<&mut Endpoint>) {
        match event {
            EndpointEvent::AddOrUpdate(metadata) => {
                let place = self.place(metadata);
                if let Some(endpoint) = endpoint
                    && place != Topology::default()
                {
                    endpoint.attributes.put(self.key.clone(), Rc::new(place));
                }
            }
            EndpointEvent::Delete(metadata) => self.untrack(metadata),
        }
    }
}

impl PodListener for TopologyExtractor {
    fn on_pod(&self, event: &PodEvent, endpoints: &Endpoints) {
        let name = (event.namespace.clone(), event.name.clone());
        let mut pods = self.pods.borrow_mut();
        if event.deleted || !event.ready {
            if let Some(pod) = pods.get_mut(&name) {
                pod.hostname.clear();
                if pod.is_forgotten() {
                    pods.remove(&name);
                }
            }
            return;
        }
        if event.hostname.is_empty() {
            return;
        }
        let pod = pods.entry(name).or_default();
        pod.hostname.clone_from(&event.hostname);
        for id in &pod.endpoints {
            endpoints.update(id, |endpoint| {
                let mut place: Topology = endpoint.attributes.get(&self.key).cloned().unwrap_or_default();
                place.hostname.clone_from(&event.hostname);
                endpoint.attributes.put(self.key.clone(), Rc::new(place));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use executor::Real;

    use super::*;
    use crate::data_layer::EndpointNotifier;
    use crate::data_layer::datastore::{Datastore, Plan};
    use crate::metrics::Registry;

    #[test]
    fn the_pods_host_name_fills_in_for_a_missing_label() {
        let real = Real::builder().current_thread().build().expect("a runtime");
        real.run(async |rt| {
            let handle = Handle::new(rt.clone());
            let roles = factory("t", &Parameters::absent(), &handle).expect("defaults").roles;
            let pods = roles.pod_listener.expect("takes pods");
            let plan = Plan { listeners: roles.endpoint_listener.into_iter().collect(), ..Plan::default() };
            let store = Datastore::new(&rt, plan, &Registry::default());
            let id = EndpointId::new("ns", "pod-rank-0");
            let upsert = |labels: &[(&str, &str)]| {
                let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
                store.upsert(EndpointMetadata {
                    id: id.clone(),
                    name: "pod".into(),
                    labels,
                    ..Default::default()
                });
            };
            let place = || {
                let endpoint = store.endpoints().get(&id).expect("it was added");
                let place: Option<&Topology> = endpoint.attributes.get(&DataKey::plain("Topology/t"));
                place.map(|place| format!("{} {}", place.hostname, place.zone))
            };
            let pod = |ready, hostname: &str| {
                let (namespace, name) = ("ns".to_owned(), "pod".to_owned());
                let event = PodEvent {
                    namespace,
                    name,
                    deleted: false,
                    ready,
                    hostname: hostname.into(),
                    ..PodEvent::default()
                };
                pods.on_pod(&event, store.endpoints());
            };
            upsert(&[]);
            assert_eq!(place(), None, "nothing known, nothing written");
            pod(true, "h1");
            assert_eq!(place().as_deref(), Some("h1 "));
            upsert(&[("topology.kubernetes.io/zone", "z")]);
            assert_eq!(place().as_deref(), Some("h1 z"));
            pod(false, "");
            assert_eq!(place().as_deref(), Some("h1 z"), "what was written stays");
            upsert(&[("topology.kubernetes.io/zone", "z"), ("kubernetes.io/hostname", "label")]);
            pod(true, "h2");
            assert_eq!(place().as_deref(), Some("label z"), "the label goes first");
        });
    }
}
