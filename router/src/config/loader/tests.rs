mod rules;

use executor::Real;

use super::*;
use crate::config::assembly::NotificationSourcePlan;
use crate::config::fault::Phase;
use crate::data_key::DataKey;
use crate::plugin::{DataFlow, FactoryError, ParameterError, Roles, TypedKey};
use crate::request::InferenceRequest;
use crate::request_control::{DataProducer, Produced};
use crate::support::{Area, PluginType, Stability};

/// A producer that produces the key of its own name.
struct Echo;

impl DataProducer for Echo {
    fn produce<'a>(
        &'a self,
        _request: &'a mut InferenceRequest,
        _candidates: &'a mut crate::candidates::Candidates,
    ) -> Produced<'a> {
        Produced::Ready(Ok(()))
    }
}

fn echo(name: &str) -> Instance {
    let roles = Roles { producer: Some(Rc::new(Echo)), ..Roles::default() };
    let produces = vec![TypedKey::of::<()>(&DataKey::new("Echo", name))];
    Instance {
        data: DataFlow { produces, ..DataFlow::default() },
        ..Instance::new("acme-producer", name, roles)
    }
}

fn load_with(registry: &Registry, text: &str, options: &Options) -> Result<Assembly, Problems<Fault>> {
    let runtime = Real::builder().current_thread().seed(7).build().expect("the runtime starts");
    load("epp.yaml", text, registry, &Handle::new(runtime.rt()), options)
}

fn load_text(text: &str) -> Result<Assembly, Problems<Fault>> {
    load_with(&Registry::default(), text, &Options::default())
}

fn accepted(text: &str) -> Assembly {
    load_text(text).unwrap_or_else(|problems| panic!("{text}: {problems}"))
}

fn refused(text: &str) -> Vec<String> {
    let problems = load_text(text).expect_err(text);
    problems.list().iter().map(|p| format!("{}: {p}", p.kind.name())).collect()
}

fn names(assembly: &Assembly) -> Vec<&str> {
    assembly.plugins.iter().map(|p| &*p.name).collect()
}

#[test]
fn a_small_file_gets_every_default_in_the_order_of_the_llm_d_router() {
    let assembly = accepted("plugins: [{type: queue-scorer, name: q}]");
    assert_eq!(
        names(&assembly),
        [
            "q",
            "single-profile-handler",
            "max-score-picker",
            "fcfs-ordering-policy",
            "global-strict-fairness-policy",
            "static-usage-limit-policy",
            "openai-parser",
            "anthropic-parser",
            "vllmhttp-parser",
            "utilization-detector",
            "metrics-data-source",
            "core-metrics-extractor"
        ]
    );
    let plan = &assembly.profiles[0];
    assert_eq!((&*plan.name, &*plan.picker), ("default", "max-score-picker"));
    assert_eq!(plan.scorers, [("q".into(), 1.0)]);
    assert_eq!(assembly.data_layer.polling.len(), 1);
}

#[test]
fn a_metrics_source_of_another_name_gets_the_default_one_beside_it_unless_switched_off() {
    let plugins = "plugins: [{type: metrics-data-source, name: mine}, {type: core-metrics-extractor}]\n";
    let source = "sources: [{pluginRef: mine, extractors: [{pluginRef: core-metrics-extractor}]}]";
    let polled = |text: &str| -> Vec<String> {
        accepted(text).data_layer.polling.iter().map(|p| p.source.id.name.to_string()).collect()
    };
    assert_eq!(polled(&format!("{plugins}dataLayer: {{{source}}}")), ["mine", "metrics-data-source"]);
    assert_eq!(polled(&format!("{plugins}dataLayer: {{injectDefaults: false, {source}}}")), ["mine"]);
}

#[test]
fn all_problems_of_a_step_are_reported_with_their_places() {
    assert_eq!(
        refused(
            "plugins:\n- {type: queue-scorer}\n- {name: x}\n- {type: queue-scorer}\n- {type: queue-scoer, name: z}\n"
        ),
        [
            "plugin-without-type: epp.yaml:3:3: plugins[1]: plugin 'x' is missing a type",
            "duplicate-plugin-name: epp.yaml:4:3: plugins[2]: duplicate plugin name 'queue-scorer', first given at plugins[0]",
            "unknown-plugin-type: epp.yaml:5:3: plugins[3]: plugin type 'queue-scoer' is not registered; did you mean \"queue-scorer\"?; accepted: the types that `lockstep-router plugins` lists",
        ]
    );
    assert_eq!(
        refused(
            "plugins: [{type: queue-scorer}]\nschedulingProfiles:\n- name: p\n  plugins: [{pluginRef: queue-scorre}, {weight: 1}]\n- plugins: []\n"
        )[..2],
        [
            "undefined-profile-ref: epp.yaml:4:13: schedulingProfiles[0].plugins[0]: profile 'p' references undefined plugin 'queue-scorre'; did you mean \"queue-scorer\"?; accepted: queue-scorer, max-score-picker, fcfs-ordering-policy, global-strict-fairness-policy, static-usage-limit-policy, openai-parser, anthropic-parser, vllmhttp-parser, utilization-detector, metrics-data-source, core-metrics-extractor",
            "profile-entry-without-ref: epp.yaml:4:40: schedulingProfiles[0].plugins[1]: profile 'p' has an entry without a 'pluginRef'",
        ]
    );
}

#[test]
fn wrong_parameters_are_reported_where_they_stand() {
    assert_eq!(
        refused(
            "plugins:\n- type: load-aware-scorer\n  parameters:\n    treshold: 5\n- type: random-picker\n  parameters: [1]\n"
        ),
        [
            "bad-parameters: epp.yaml:4:15: plugins[0].parameters.treshold: plugin 'load-aware-scorer' (type: load-aware-scorer): unknown field \"treshold\"; did you mean \"threshold\"?; accepted: threshold",
            "bad-parameters: epp.yaml:6:15: plugins[1].parameters: plugin 'random-picker' (type: random-picker): expected a mapping, found a list",
        ]
    );
}

#[test]
fn unbuilt_types_are_refused_before_anything_is_constructed() {
    let mut registry = Registry::default();
    registry.register(PluginType::new(Area::Scorer, "acme-scorer", Stability::Stable), |_, _, _| {
        panic!("nothing may be constructed")
    });
    registry.withdraw("queue-scorer");
    registry.withdraw("random-picker");
    let text = "plugins: [{type: acme-scorer}, {type: queue-scorer}, {type: random-picker}]";
    let problems = load_with(&registry, text, &Options::default()).expect_err("two types are not built");
    let found: Vec<_> = problems.list().iter().map(|p| (p.kind, p.path.as_str())).collect();
    assert_eq!(found, [(Fault::NotBuilt, "plugins[1]"), (Fault::NotBuilt, "plugins[2]")]);
}

#[test]
fn types_of_ones_own_take_part_and_referred_to_plugins_are_built_first() {
    fn needs_peer(name: &str, _: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
        match handle.instance("peer") {
            Some(_) => Ok(echo(name)),
            None => Err(ParameterError::at("peer", "the peer is not there yet").into()),
        }
    }
    let mut registry = Registry::default();
    let mut referring = PluginType::new(Area::Producer, "acme-referring", Stability::Alpha);
    referring.references =
        &[crate::support::Reference { parameter: "options.peer", stand_in: None, default: None }];
    registry.register(referring, needs_peer);
    registry.register(PluginType::new(Area::Producer, "acme-producer", Stability::Stable), |name, _, _| {
        Ok(echo(name))
    });
    let allow = Options { allow_experimental: true, ..Options::default() };

    let text = "plugins: [{type: acme-referring, parameters: {Options: {peer: peer}}}, {type: acme-producer, name: peer}]";
    let assembly = load_with(&registry, text, &allow).unwrap_or_else(|p| panic!("{p}"));
    assert_eq!(names(&assembly)[..2], ["acme-referring", "peer"]);
    assert_eq!(assembly.hooks.producers.len(), 2);

    let first = |text: &str| load_with(&registry, text, &allow).expect_err("refused").list()[0].kind;
    let alone = "plugins: [{type: acme-referring, parameters: {options: {peer: ghost}}}]";
    assert_eq!(first(alone), Fault::UnknownPluginReference);
    let itself = "plugins: [{type: acme-referring, parameters: {options: {peer: acme-referring}}}]";
    assert_eq!(first(itself), Fault::PluginReferenceCycle);
}

#[test]
fn the_old_name_of_a_reference_counts_where_the_new_one_is_empty() {
    let first = |parameters: &str| {
        let text = format!(
            "plugins:\n- {{type: pd-profile-handler, parameters: {{{parameters}}}}}\n- type: prefix-based-pd-decider\n- {{type: prefix-cache-scorer, name: known}}\n- type: decode-filter\nschedulingProfiles:\n- {{name: decode, plugins: [{{pluginRef: decode-filter}}]}}\n"
        );
        let loaded = load_with(&Registry::default(), &text, &Options::default());
        loaded.err().map(|problems| problems.list()[0].kind)
    };
    for (parameters, fault) in [
        ("", None),
        ("prefixPluginType: known", None),
        ("prefixPluginType: ghost", Some(Fault::UnknownPluginReference)),
        ("prefixPluginName: '', prefixPluginType: ghost", Some(Fault::UnknownPluginReference)),
        ("prefixPluginName: ghost", Some(Fault::UnknownPluginReference)),
        ("prefixPluginName: known, prefixPluginType: ghost", None),
    ] {
        assert_eq!(first(parameters), fault, "{parameters}");
    }
}

#[test]
fn experimental_plugins_need_leave() {
    let mut registry = Registry::default();
    for name in ["acme-b", "acme-a"] {
        registry.register(PluginType::new(Area::Producer, name, Stability::Alpha), |name, _, _| {
            Ok(Instance::new(name, name, Roles::default()))
        });
    }
    let text = "plugins: [{type: acme-b}, {type: acme-a}]";
    let problems = load_with(&registry, text, &Options::default()).expect_err("refused");
    let found: Vec<_> = problems.list().iter().map(|p| (p.kind.phase(), p.path.as_str())).collect();
    assert_eq!(found, [(Phase::Stability, "plugins[1]"), (Phase::Stability, "plugins[0]")]);
    assert!(load_with(&registry, text, &Options { allow_experimental: true, ..Options::default() }).is_ok());
}

/// Configuration spec 5.2, steps 3 and 6.
#[test]
fn a_kind_of_objects_has_one_source_and_those_who_ask_for_pods_share_it() {
    const PLUGINS: &str = "plugins: [{type: topology-extractor, name: topo}, \
        {type: k8s-notification-source, name: pods, parameters: {version: v1, kind: Pod}}, \
        {type: k8s-notification-source, name: nodes, parameters: {version: v1, kind: Node}}]\n";
    let load = |sources: &str| {
        let text = format!("{PLUGINS}dataLayer: {{sources: [{sources}]}}");
        load_with(&Registry::default(), &text, &Options { allow_experimental: true, ..Options::default() })
    };
    let bound = |sources: &str| {
        let assembly = load(sources).unwrap_or_else(|problems| panic!("{sources}: {problems}"));
        let listeners = |s: &NotificationSourcePlan| s.listeners.iter().map(|l| l.id.to_string()).collect();
        let pair = |s: &NotificationSourcePlan| (s.id.name.to_string(), listeners(s));
        assembly.data_layer.notification_sources.iter().map(pair).collect::<Vec<(String, Vec<String>)>>()
    };
    let topo = || vec!["topo/topology-extractor".to_owned()];
    assert_eq!(bound("{pluginRef: pods}"), [("pods".to_owned(), topo())]);
    assert_eq!(bound("{pluginRef: nodes}"), [("nodes".to_owned(), vec![]), ("topo/pod".to_owned(), topo())]);
    for (sources, fault) in [
        ("{pluginRef: pods}, {pluginRef: pods}", Fault::DuplicateGvk),
        ("{pluginRef: pods, extractors: [{pluginRef: topo}]}", Fault::WrongExtractorRole),
    ] {
        let problems = load(sources).expect_err(sources);
        assert!(problems.list().iter().any(|p| p.kind == fault), "{sources}: {problems}");
    }
}
