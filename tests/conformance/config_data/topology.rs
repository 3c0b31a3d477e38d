//! Places of endpoints, from labels and pods.

use std::rc::Rc;

use router::attributes::Topology;
use router::data_key::DataKey;
use router::data_layer::datastore::{Datastore, Plan};
use router::data_layer::{EndpointNotifier, PodEvent};
use router::endpoint::{EndpointId, EndpointMetadata};
use router::metrics::Registry;
use router::plugin::Handle;
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::{Fault, instance, real, text};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    match steps(&case["given"]) {
        Ok(answer) => Rules::exact().outcome(&case["then"], &answer),
        Err(fault) => fault.into(),
    }
}

fn steps(given: &Value) -> Result<Value, Fault> {
    real().run(async |rt| {
        let (name, parameters) = (text(given, "name"), given.get("parameters"));
        let roles = instance("topology-extractor", name, parameters, &Handle::new(rt.clone()))?
            .map_err(Fault::Failed)?
            .roles;
        let (Some(listener), Some(pods)) = (roles.endpoint_listener, roles.pod_listener) else {
            return Err(Fault::Failed("the extractor takes no events".into()));
        };
        let plan = Plan { listeners: vec![Rc::clone(&listener)], ..Plan::default() };
        let store = Datastore::new(&rt, plan, &Registry::default());
        let mut steps = Vec::new();
        for step in given["steps"].as_array().into_iter().flatten() {
            match text(step, "op") {
                "endpoint-upsert" => store.upsert(EndpointMetadata {
                    id: id(step),
                    name: text(step, "pod").into(),
                    labels: serde_json::from_value(step["labels"].clone()).unwrap_or_default(),
                    ..EndpointMetadata::default()
                }),
                "endpoint-delete" => store.delete(&id(step)),
                "pod-event" => {
                    let event = PodEvent {
                        namespace: text(step, "namespace").into(),
                        name: text(step, "pod").into(),
                        deleted: step["deleted"] == true,
                        ready: text(step, "ready") == "True",
                        hostname: text(step, "spec_hostname").into(),
                        ..PodEvent::default()
                    };
                    pods.on_pod(&event, store.endpoints());
                }
                other => return Err(Fault::Failed(format!("unknown operation {other}"))),
            }
            steps.push(json!({ "attributes": attributes(&store, name) }));
        }
        Ok(json!({ "steps": steps }))
    })
}

fn id(step: &Value) -> EndpointId {
    let (namespace, name) = text(step, "id").split_once('/').unwrap_or_default();
    EndpointId::new(namespace, name)
}

fn attributes(store: &Datastore, extractor: &str) -> Value {
    let key = DataKey::new("Topology", extractor);
    let mut all = Map::new();
    for endpoint in store.endpoints().snapshot().iter() {
        let mut own = Map::new();
        if let Some(Topology { hostname, rack, zone, region }) = endpoint.attributes.get(&key) {
            let place = json!({ "hostname": hostname, "rack": rack, "zone": zone, "region": region });
            own.insert(key.to_string(), place);
        }
        all.insert(endpoint.metadata.id.to_string(), own.into());
    }
    all.into()
}
