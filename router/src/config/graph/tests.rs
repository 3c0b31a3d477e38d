use super::*;
use crate::plugin::TypedKey;

fn key(text: &str) -> TypedKey {
    TypedKey { key: DataKey::plain(text), value_type: "t" }
}

fn keys(list: &[&str]) -> Vec<TypedKey> {
    list.iter().map(|k| key(k)).collect()
}

fn node(name: &str, layer: Layer, produces: &[&str], requires: &[&str], optional: &[&str]) -> Node {
    Node {
        id: TypedName { name: name.into(), plugin_type: "t".into() },
        layer,
        data_producer: layer == Layer::RequestControl,
        data: DataFlow {
            produces: keys(produces),
            requires: keys(requires),
            optional: keys(optional),
            declares: true,
        },
    }
}

fn producer(name: &str, produces: &[&str], requires: &[&str], optional: &[&str]) -> Node {
    node(name, Layer::RequestControl, produces, requires, optional)
}

fn names(nodes: &[Node]) -> Vec<&str> {
    order(nodes).expect("valid").into_iter().map(|n| &*nodes[n].id.name).collect()
}

struct Defaults(Vec<(&'static str, Node)>);

impl DefaultProducers for Defaults {
    fn type_for(&self, key: &DataKey) -> Option<String> {
        self.0.iter().find(|(k, _)| *k == key.as_str()).map(|(_, n)| n.id.name.to_string())
    }

    fn create(&mut self, plugin_type: &str) -> Result<Node, NotCreated> {
        self.0
            .iter()
            .find(|(_, n)| *n.id.name == *plugin_type)
            .map(|(_, n)| n.clone())
            .ok_or(NotCreated::NoFactory)
    }
}

#[test]
fn producers_run_before_those_who_need_them() {
    let nodes = [
        producer("c", &["kc"], &["kb"], &[]),
        producer("b", &["kb"], &["ka"], &[]),
        producer("a", &["ka"], &[], &[]),
        producer("d", &[], &["ka"], &[]),
        producer("alone", &[], &[], &[]),
    ];
    assert_eq!(names(&nodes), ["a", "b", "c", "d", "alone"]);
}

#[test]
fn inside_a_level_one_that_may_use_another_runs_after_it() {
    let load = producer("load", &["load"], &[], &["match"]);
    let prefix = producer("prefix", &["match"], &[], &[]);
    assert_eq!(names(&[load.clone(), prefix.clone()]), ["prefix", "load"]);
    // A higher level runs first all the same, as in the llm-d Router.
    let scorer = node("s", Layer::Scheduling, &[], &["load"], &[]);
    assert_eq!(names(&[load, prefix, scorer]), ["load", "prefix"]);
    let circle = [producer("x", &["x"], &[], &["y"]), producer("y", &["y"], &[], &["x"])];
    assert_eq!(names(&circle), ["x", "y"]);
}

#[test]
fn a_circle_of_required_data_is_refused_and_one_with_oneself_is_fine() {
    let circle = [producer("x", &["x"], &["y"], &[]), producer("y", &["y"], &["x"], &[])];
    assert_eq!(order(&circle), Err(vec![GraphFault::Cycle { plugins: vec!["x/t".into(), "y/t".into()] }]));
    assert_eq!(names(&[producer("x", &["x"], &["x"], &[])]), ["x"]);
}

#[test]
fn data_flows_forward_only() {
    let policy = node("f", Layer::FlowControl, &[], &["k"], &[]);
    let fault = GraphFault::LayerOrder { producer: "p/t".into(), consumer: "f/t".into() };
    assert_eq!(order(&[producer("p", &["k"], &[], &[]), policy]), Err(vec![fault]));
    let scorer = node("s", Layer::Scheduling, &[], &["k"], &[]);
    assert!(order(&[producer("p", &["k"], &[], &[]), scorer]).is_ok());
}

#[test]
fn missing_producers_are_created_with_what_they_need_in_turn() {
    let mut defaults = Defaults(vec![
        ("match", producer("approx", &["match"], &["tokens"], &[])),
        ("tokens", producer("tok", &["tokens"], &[], &[])),
    ]);
    let mut nodes = vec![node("s", Layer::Scheduling, &[], &["match"], &[])];
    assert_eq!(complete(&mut nodes, &mut defaults), []);
    assert_eq!(names(&nodes), ["tok", "approx"]);
}

#[test]
fn a_plugin_of_the_default_name_stands_in_even_when_it_produces_something_else() {
    let mut defaults = Defaults(vec![("match", producer("approx", &["match"], &[], &[]))]);
    let mut nodes =
        vec![node("s", Layer::Scheduling, &[], &["match"], &[]), producer("approx", &["other"], &[], &[])];
    assert_eq!(complete(&mut nodes, &mut defaults), []);
    assert_eq!(nodes.len(), 2);
}

#[test]
fn a_key_without_a_default_is_refused() {
    let mut nodes = vec![node("s", Layer::Scheduling, &[], &["k"], &[])];
    let faults = complete(&mut nodes, &mut Defaults(Vec::new()));
    assert_eq!(faults, [GraphFault::NoDefaultProducer { key: "k".into(), consumer: "s/t".into() }]);
}
