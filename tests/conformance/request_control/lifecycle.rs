//! `lifecycle.jsonl`: what plugins produce and consume, which producers are created for it, and their order.

use std::collections::BTreeSet;

use router::config::fault::Fault;
use router::config::graph::{Layer, Node, order};
use router::config::loader::{Options, load};
use router::data_key::DataKey;
use router::plugin::{DataFlow, Handle, Instance, TypedKey, TypedName};
use router::support::{Registry, Support};
use serde_json::{Value, json};
use tests::compare::Rules;

use super::{parameters, rt, vec_plugins};
use crate::outcome::Outcome;

/// The file holds four subjects, told apart by what is given.
pub(super) fn run(case: &Value) -> Outcome {
    let (given, then) = (&case["given"], &case["then"]);
    if given.get("steps").is_some() {
        super::plugin_state::run(case)
    } else if given.get("config").is_some() {
        auto_create(given, then)
    } else if given.get("type").is_some() {
        data_keys(given, then)
    } else {
        dag(given, then)
    }
}

/// Puts synthetic plugins in order.
fn dag(given: &Value, then: &Value) -> Outcome {
    let nodes: Vec<Node> = given["plugins"].as_array().into_iter().flatten().map(node).collect();
    match order(&nodes) {
        Ok(ordered) => in_order(&nodes, &ordered, then),
        // All faults are found at once; the recorded router stops at one.
        Err(faults) => refused(faults.iter().map(|fault| fault.fault()), then),
    }
}

fn node(plugin: &Value) -> Node {
    let text = |member: &str| plugin[member].as_str().expect("a plugin has a kind and a name");
    let keys = |member: &str| {
        let list = plugin[member].as_array().into_iter().flatten().filter_map(Value::as_str);
        // A key may say of what type its value is.
        let key = |text: &str| match text.strip_suffix(":int") {
            Some(text) => TypedKey { key: DataKey::plain(text), value_type: "int" },
            None => TypedKey { key: DataKey::plain(text), value_type: "string" },
        };
        list.map(key).collect()
    };
    let kind = text("kind");
    Node {
        id: TypedName { name: text("name").into(), plugin_type: kind.into() },
        layer: match kind {
            "producer" | "admitter" => Layer::RequestControl,
            "filter" => Layer::Scheduling,
            _ => Layer::Other,
        },
        data_producer: kind == "producer",
        data: DataFlow {
            produces: keys("produces"),
            requires: keys("requires"),
            optional: keys("optional"),
            declares: true,
        },
    }
}

/// Loads a whole configuration.
fn auto_create(given: &Value, then: &Value) -> Outcome {
    let handle = Handle::new(rt());
    let options = Options { allow_experimental: true, ..Options::default() };
    let config = super::without_data_layer(&given["config"]).to_string();
    let assembly = match load("case.json", &config, &vec_plugins::registry(), &handle, &options) {
        Ok(assembly) => assembly,
        Err(problems) => {
            if let Some(missing) = problems.list().iter().find(|p| p.kind == Fault::NotBuilt) {
                return Outcome::NotBuilt(missing.message.clone());
            }
            return refused(problems.list().iter().map(|problem| problem.kind), then);
        }
    };
    let instances = assembly.plugins.iter().map(|p| (&*p.name, &p.instance));
    let nodes: Vec<Node> = instances.map(|(name, instance)| Node::of(name, instance)).collect();
    let place = |id: &TypedName| nodes.iter().position(|node| node.id.name == id.name);
    let ordered: Vec<usize> = assembly.hooks.producers.iter().filter_map(|hook| place(&hook.id)).collect();
    in_order(&nodes, &ordered, then)
}

/// Compares who takes part in the flow of data, and checks that every wanted pair is in order.
fn in_order(nodes: &[Node], ordered: &[usize], then: &Value) -> Outcome {
    let takes_part = |node: &&Node| {
        let DataFlow { produces, requires, optional, .. } = &node.data;
        !produces.is_empty() || !requires.is_empty() || !optional.is_empty()
    };
    let members: BTreeSet<String> = nodes.iter().filter(takes_part).map(|node| node.id.to_string()).collect();
    // What acts in an earlier layer comes before all producers, what is no producer behind them.
    let place = |name: &Value| {
        let node = nodes.iter().position(|node| node.id.to_string() == name.as_str().unwrap_or(""))?;
        let placed = ordered.iter().position(|other| *other == node).map(|place| place + 1);
        Some(placed.unwrap_or(if nodes[node].layer < Layer::RequestControl { 0 } else { usize::MAX }))
    };
    let holds = |pair: &&Value| matches!((place(&pair[0]), place(&pair[1])), (Some(a), Some(b)) if a < b);
    let pairs: Vec<&Value> = then["must_precede"].as_array().into_iter().flatten().filter(holds).collect();
    Rules::exact().set("members").outcome(then, &json!({"members": members, "must_precede": pairs}))
}

fn refused(mut faults: impl Iterator<Item = Fault>, then: &Value) -> Outcome {
    let want = &then["error"]["kind"];
    let mut found = Vec::new();
    let fits = faults.any(|fault| {
        let name = match fault {
            Fault::DefaultProducerFailed => "auto-created-producer-failed",
            fault => fault.name(),
        };
        found.push(name);
        *want == name
    });
    if fits { Outcome::Passed } else { Outcome::Failed(format!("want {want}, got {found:?}")) }
}

/// Asks a real plugin what it produces, consumes and takes part in.
fn data_keys(given: &Value, then: &Value) -> Outcome {
    let text = |member: &str| given[member].as_str().unwrap_or_default();
    let registry = Registry::default();
    let Some(Support::Supported(factory)) = registry.get(text("type")).map(|registered| registered.support)
    else {
        return Outcome::NotBuilt(format!("plugin type {}", text("type")));
    };
    let instance = match factory(text("plugin_name"), &parameters(&given["parameters"]), &Handle::new(rt())) {
        Ok(instance) => instance,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let keys = |list: &[TypedKey]| list.iter().map(|key| key.key.to_string()).collect::<Vec<_>>();
    let answer = json!({
        "typed_name": instance.id.to_string(),
        "hooks": hooks(&instance),
        "produces": keys(&instance.data.produces),
        "requires": keys(&instance.data.requires),
        "optional": keys(&instance.data.optional),
    });
    let sets = ["hooks", "produces", "requires", "optional"];
    sets.into_iter().fold(Rules::exact(), Rules::set).outcome(then, &answer)
}

fn hooks(instance: &Instance) -> Vec<&'static str> {
    let roles = &instance.roles;
    let table = [
        (roles.request_header.is_some(), "request_header"),
        (roles.screener.is_some(), "screener"),
        (roles.producer.is_some(), "producer"),
        (roles.admitter.is_some(), "admitter"),
        (roles.pre_request.is_some(), "pre_request"),
        (roles.response_header.is_some(), "response_header"),
        (roles.response_body.is_some(), "response_body"),
    ];
    table.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}
