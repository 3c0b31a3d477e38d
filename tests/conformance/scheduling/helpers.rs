//! `helpers.jsonl`: session tokens, topology, small pure functions, the table of types.

use std::rc::Rc;

use executor::Rt;
use router::attributes::Topology;
use router::data_key::DataKey;
use router::data_layer::EndpointEvent;
use router::endpoint::EndpointMetadata;
use router::plugin::{Instance, TypedKey};
use router::scheduling::profile_handlers::disagg_profile_handler::{Decision, StageOrder};
use router::scheduling::session_affinity::{header_or_default, token};
use router::scheduling::topology::{Level, compare as tightest};
use router::support::{Registry, Stability};
use serde_json::{Map, Value, json};

use super::{compare, given, hooks, plugins, refused};
use crate::outcome::Outcome;

pub(super) fn run(group: &str, given: &Value, then: &Value) -> Outcome {
    hooks::host(1, async |rt| compare(then, &answer(group, given, &rt)))
}

fn answer(group: &str, value: &Value, rt: &Rt) -> Value {
    let text = |member| given::text(value, member);
    match group {
        "session-token-encode" => {
            let endpoint = given::endpoint(&json!({ "name": value["endpoint"] }));
            json!({ "token": token::encode(&endpoint.metadata.id) })
        }
        "session-token-decode" => {
            let decoded = token::decode(text("token"));
            let hex: String = decoded.iter().map(|byte| format!("{byte:02x}")).collect();
            match String::from_utf8(decoded) {
                Ok(text) => json!({ "text": text, "hex": hex }),
                Err(_) => json!({ "hex": hex }),
            }
        }
        "session-header-name" => json!({ "header": header_or_default(text("configured")) }),
        "topology-compare" => {
            let place = |member: &str| value[member].is_object().then(|| given::topology(&value[member]));
            let level = tightest(place("peer").as_ref(), place("candidate").as_ref());
            json!({ "level": level.name() })
        }
        "topology-level" => Level::parse(text("text"))
            .map_or_else(refused, |level| json!({ "level": level.name(), "order": level as u8 })),
        "topology-labels" => topology_labels(value, rt),
        "stage-order" => StageOrder::parse(text("text"))
            .map_or_else(refused, |order| json!({ "stage_order": order.name() })),
        "disagg-decision" => {
            let used = |member: &str| value[member] == Value::Bool(true);
            json!({ "decision": Decision::of(used("encode_used"), used("prefill_used")).name() })
        }
        "host-port" => {
            let (address, port) = (text("address").to_owned(), text("port").to_owned());
            let metadata = EndpointMetadata { address, port, ..EndpointMetadata::default() };
            json!({ "text": metadata.host_port() })
        }
        "endpoint-id" => {
            let id = router::endpoint::EndpointId::new(text("namespace"), text("name"));
            json!({ "id": id.to_string() })
        }
        "registry" => registry(value, rt),
        other => panic!("no adapter for the group {other}"),
    }
}

fn topology_labels(value: &Value, rt: &Rt) -> Value {
    let Ok(instance) = plugins::build(&value["plugin"], &plugins::handle(rt)) else { return refused() };
    let listener = instance.roles.endpoint_listener.as_ref().expect("the extractor listens to endpoints");
    let mut endpoint = given::endpoint(&value["endpoint"]);
    let event = EndpointEvent::AddOrUpdate(Rc::clone(&endpoint.metadata));
    listener.on_event(&event, Some(&mut endpoint));
    let keys: Vec<DataKey> = endpoint.attributes.keys().cloned().collect();
    let place = |key: &DataKey| {
        let t = endpoint.attributes.get::<Topology>(key).expect("the extractor writes topologies");
        json!({ "hostname": t.hostname, "rack": t.rack, "zone": t.zone, "region": t.region })
    };
    let attributes: Map<String, Value> = keys.iter().map(|key| (key.to_string(), place(key))).collect();
    json!({ "attributes": attributes })
}

/// What an instance says of itself, and the release's table of its type.
fn registry(value: &Value, rt: &Rt) -> Value {
    let handle = plugins::handle(rt);
    // A handler may refer to a decider that the case does not list.
    if let Some(name) = value["plugin"]["parameters"]["deciderPluginName"].as_str() {
        let decider = json!({ "type": "always-disagg-pd-decider", "name": name });
        plugins::build(&decider, &handle).expect("a decider without parameters");
    }
    let Ok(instance) = plugins::build(&value["plugin"], &handle) else { return refused() };
    let registry = Registry::default();
    let info = registry.get(given::text(&value["plugin"], "type")).expect("the type is in the table").info;
    let mut answer = json!({
        "reported_type": &*instance.id.plugin_type,
        "reported_name": &*instance.id.name,
        "interfaces": interfaces(&instance),
        "stability": match info.stability {
            Stability::Alpha => "Alpha",
            Stability::Beta => "Beta",
            Stability::Stable => "Stable",
        },
        "deprecated": info.deprecation.is_some(),
        "declares_dependencies": instance.data.declares,
        "required_keys": keys(&instance.data.requires),
        "optional_keys": keys(&instance.data.optional),
    });
    if let Some(deprecation) = info.deprecation {
        answer["deprecated_in"] = json!(format!("v{}", deprecation.since));
        answer["removal_in"] = json!(format!("v{}", deprecation.removal));
        answer["replacement"] = json!(deprecation.replacement);
    }
    if let Some(scorer) = &instance.roles.scorer {
        answer["category"] = json!(format!("{:?}", scorer.category()));
    }
    answer
}

fn interfaces(instance: &Instance) -> Vec<&'static str> {
    let roles = &instance.roles;
    let all = [
        ("filter", roles.filter.is_some()),
        ("scorer", roles.scorer.is_some()),
        ("picker", roles.picker.is_some()),
        ("profile-handler", roles.profile_handler.is_some()),
        ("pre-request", roles.pre_request.is_some()),
        ("response-header", roles.response_header.is_some()),
        ("data-producer", roles.producer.is_some()),
        ("state-dumper", roles.state_dumper.is_some()),
    ];
    all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

fn keys(keys: &[TypedKey]) -> Vec<String> {
    let mut keys: Vec<String> = keys.iter().map(|key| key.key.to_string()).collect();
    keys.sort_unstable();
    keys
}
