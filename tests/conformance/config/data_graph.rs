//! Synthetic plugins through the completion, the checks and the order of the data graph.

use router::config::graph::{
    DefaultProducers, GraphFault, Layer, Node, NotCreated, complete, order, unproduced_optional,
};
use router::data_key::DataKey;
use router::plugin::{DataFlow, TypedKey, TypedName};
use serde_json::{Value, json};
use tests::compare::Rules;

use crate::outcome::Outcome;

/// Runs one case.
pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let list = |name: &str| given[name].as_array().cloned().unwrap_or_default();
    let mut nodes: Vec<Node> = list("plugins").iter().map(node).collect();
    let given_count = nodes.len();
    let mut faults = complete(&mut nodes, &mut Defaults(list("defaults")));
    let mut producers = Vec::new();
    if faults.is_empty() {
        match order(&nodes) {
            Ok(ordered) => producers = ordered,
            Err(found) => faults = found,
        }
    }
    let answer = match faults.first() {
        Some(_) => return refused(then, &faults),
        None => {
            let name = |n: &usize| nodes[*n].id.name.to_string();
            let place = |name: &Value| {
                producers.iter().position(|n| *nodes[*n].id.name == *name.as_str().unwrap_or(""))
            };
            let holds =
                |pair: &&Value| matches!((place(&pair[0]), place(&pair[1])), (Some(a), Some(b)) if a < b);
            let pairs = |key: &str| -> Vec<Value> {
                then[key].as_array().into_iter().flatten().filter(holds).cloned().collect()
            };
            json!({
                "created": nodes[given_count..].iter().map(|n| n.id.name.to_string()).collect::<Vec<_>>(),
                "data_producers": producers.iter().map(name).collect::<Vec<_>>(),
                "must": pairs("must"),
                "before": pairs("before"),
                "unproduced_optional": unproduced_optional(&nodes)
                    .iter()
                    .map(|(id, key)| format!("{}:{key}", id.name))
                    .collect::<Vec<_>>(),
            })
        }
    };
    // Which plugins are nodes shows in what is checked and ordered.
    let rules =
        Rules::exact().set("created").set("data_producers").set("unproduced_optional").ignore("graph_nodes");
    rules.outcome(then, &answer)
}

/// Compares a refusal. All faults of a step are found at once; the real router reports one, at random where
/// several apply, so the recorded one must be among ours.
fn refused(then: &Value, faults: &[GraphFault]) -> Outcome {
    let answers: Vec<Value> = faults.iter().map(describe).collect();
    let fits = answers.iter().any(|answer| {
        let mut answer = answer.clone();
        let wants_no_place = then["error"].get("kind").is_some() && then["error"].get("at").is_none();
        if wants_no_place {
            answer.as_object_mut().expect("an object").remove("at");
        }
        Rules::exact().difference(&then["error"], &answer).is_none()
    });
    if fits { Outcome::Passed } else { Outcome::Failed(format!("want {}, got {answers:?}", then["error"])) }
}

fn describe(fault: &GraphFault) -> Value {
    match fault {
        GraphFault::NoDefaultProducer { key, .. } => json!({"kind": "no-default-producer", "at": key}),
        GraphFault::NoFactory { plugin_type, .. } => json!({"kind": "no-factory", "at": plugin_type}),
        GraphFault::NotBuilt { plugin_type, .. } => json!({"kind": "not-built", "at": plugin_type}),
        GraphFault::CreationFailed { plugin_type, .. } => {
            json!({"kind": "default-producer-failed", "at": plugin_type})
        }
        GraphFault::NotAProducer { plugin_type } => {
            json!({"kind": "default-not-a-producer", "at": plugin_type})
        }
        GraphFault::DataTypeMismatch { key, .. } => json!({"kind": "data-type-mismatch", "at": key}),
        GraphFault::LayerOrder { producer, consumer } => {
            json!({"kind": "layer-order", "at": format!("{producer} before {consumer}")})
        }
        GraphFault::Cycle { .. } => json!({"kind": "cycle"}),
    }
}

/// Builds a plugin; a role that does not produce or consume ignores what is given for it.
fn node(plugin: &Value) -> Node {
    let text = |key: &str| plugin[key].as_str().expect("a plugin has a name and a type");
    let role = plugin["roles"][0].as_str().expect("a plugin has a role");
    let data_producer = matches!(role, "data-producer" | "data-producer-no-consumer");
    let produces = role.contains("producer");
    let consumes = !matches!(role, "data-producer-no-consumer" | "plain-producer" | "plain");
    let layer = match role.split('-').next().unwrap_or_default() {
        "data" | "admitter" => Layer::RequestControl,
        "scorer" | "filter" | "picker" => Layer::Scheduling,
        "fairness" | "ordering" => Layer::FlowControl,
        _ => Layer::Other,
    };
    let keys = |name: &str, counts: bool| {
        let list = plugin[name].as_array().into_iter().flatten().filter_map(Value::as_str).filter(|_| counts);
        list.map(key).collect()
    };
    Node {
        id: TypedName { name: text("name").into(), plugin_type: text("type").into() },
        layer,
        data_producer,
        data: DataFlow {
            produces: keys("produces", produces),
            requires: keys("requires", consumes),
            optional: keys("optional", consumes),
            declares: consumes,
        },
    }
}

/// `dataType/producer`, with the suffix `#other` a value of another type under the same key.
fn key(text: &str) -> TypedKey {
    match text.strip_suffix("#other") {
        Some(text) => TypedKey { key: DataKey::plain(text), value_type: "other" },
        None => TypedKey { key: DataKey::plain(text), value_type: "usual" },
    }
}

struct Defaults(Vec<Value>);

impl DefaultProducers for Defaults {
    fn type_for(&self, key: &DataKey) -> Option<String> {
        let default = self.0.iter().find(|d| d["key"] == key.as_str())?;
        default["type"].as_str().map(str::to_owned)
    }

    fn create(&mut self, plugin_type: &str) -> Result<Node, NotCreated> {
        let default = self.0.iter().find(|d| d["type"] == plugin_type).ok_or(NotCreated::NoFactory)?;
        if default["factory_fails"] == true {
            return Err(NotCreated::Failed("as the case says".into()));
        }
        match &default["factory"] {
            Value::Null => Err(NotCreated::NoFactory),
            factory => Ok(node(factory)),
        }
    }
}
