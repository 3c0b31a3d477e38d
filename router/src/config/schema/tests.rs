use super::*;

fn parse(text: &str) -> EndpointPickerConfig {
    EndpointPickerConfig::parse("epp.yaml", text).unwrap_or_else(|problems| panic!("{text}: {problems}"))
}

fn refused(text: &str) -> String {
    EndpointPickerConfig::parse("epp.yaml", text).expect_err(text).to_string()
}

#[test]
fn no_text_is_the_built_in_configuration() {
    let config = parse("");
    let types: Vec<&str> = config.plugins.iter().map(|p| p.plugin_type.as_str()).collect();
    assert_eq!(
        types,
        [
            "queue-scorer",
            "kv-cache-utilization-scorer",
            "prefix-cache-scorer",
            "metrics-data-source",
            "core-metrics-extractor"
        ]
    );
    let weights: Vec<Option<f64>> = config.scheduling_profiles[0].plugins.iter().map(|p| p.weight).collect();
    assert_eq!(weights, [Some(2.0), Some(2.0), Some(3.0)]);
}

#[test]
fn text_without_content_is_a_configuration_without_plugins() {
    for text in ["  \n", "# only this\n", "---\n", "null\n", "{}"] {
        assert_eq!(parse(text), EndpointPickerConfig::default(), "{text:?}");
    }
}

#[test]
fn a_name_defaults_to_the_type() {
    let config = parse("plugins: [{type: a}, {type: a, name: b}, {type: a, name: ''}, null]");
    let names: Vec<&str> = config.plugins.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "a", ""]);
}

#[test]
fn deprecated_ways_mean_the_new_ones_unless_those_are_given() {
    let config = parse(
        "apiVersion: inference.networking.x-k8s.io/v1alpha1\nsaturationDetector: {pluginRef: d}\nparser: {pluginRef: p}\n",
    );
    assert_eq!(
        config.deprecated,
        [Deprecated::ApiVersion, Deprecated::SaturationDetector, Deprecated::Parser]
    );
    assert_eq!(config.parsers[0].value, PluginRef("p".into()));
    let detector = config.flow_control.and_then(|f| f.saturation_detector);
    assert_eq!(detector.map(|d| d.value), Some(PluginRef("d".into())));

    let both = parse(
        "saturationDetector: {pluginRef: old}\nparser: {pluginRef: old}\n\
         flowControl: {saturationDetector: {pluginRef: new}}\nrequestHandler: {parsers: [{pluginRef: new}]}\n",
    );
    assert_eq!(both.parsers.iter().map(|p| p.0.as_str()).collect::<Vec<_>>(), ["new"]);
    let detector = both.flow_control.and_then(|f| f.saturation_detector);
    assert_eq!(detector.map(|d| d.value), Some(PluginRef("new".into())));
}

#[test]
fn parameters_are_opaque_and_keep_null_apart_from_absence() {
    let config = parse("plugins: [{type: a, parameters: null}, {type: b}, {type: c, parameters: {X: [1]}}]");
    let parameters: Vec<_> =
        config.plugins.iter().map(|p| p.parameters.as_ref().map(|n| n.value.to_json().to_string())).collect();
    assert_eq!(parameters, [Some("null".into()), None, Some("{\"X\":[1]}".into())]);
}

#[test]
fn flow_control_reads_quantities_and_durations() {
    let config = parse(
        "flowControl: {maxBytes: 10Gi, maxRequests: 1k, defaultRequestTTL: 1m30s, \
         priorityBands: [{priority: -3, maxRequests: 0.5}], enableEviction: yes}",
    );
    let flow = config.flow_control.expect("given");
    assert_eq!(flow.max_bytes.map(|q| q.value), Some(Quantity(10 << 30)));
    assert_eq!(flow.max_requests.map(|q| q.value), Some(Quantity(1000)));
    assert_eq!(flow.default_request_ttl.map(|d| d.value), Some(GoDuration(90_000_000_000)));
    assert_eq!(flow.priority_bands[0].priority, -3);
    assert_eq!(flow.priority_bands[0].max_requests.as_ref().map(|q| q.value), Some(Quantity(1)));
    assert!(flow.enable_eviction);
}

#[test]
fn every_problem_of_the_text_is_reported_at_once() {
    assert_eq!(
        refused(
            "apiVersion: v2\nplugin: []\nschedulingProfiles:\n- name: no\n  plugins: [{pluginref: a}]\nflowControl: {defaultRequestTTL: 60}\n"
        ),
        "epp.yaml:4:9: schedulingProfiles[0].name: expected a text (YAML reads bare y, n, yes, no, on, off, true and false as booleans: quote it), found the boolean false\n\
         epp.yaml:5:14: schedulingProfiles[0].plugins[0].pluginref: unknown field \"pluginref\"; did you mean \"pluginRef\"?; accepted: pluginRef, weight\n\
         epp.yaml:6:34: flowControl.defaultRequestTTL: expected a duration as text, such as \"60s\", found the number 60\n\
         epp.yaml:2:1: plugin: unknown field \"plugin\"; did you mean \"plugins\"?; accepted: apiVersion, kind, featureGates, plugins, schedulingProfiles, dataLayer, flowControl, requestHandler, saturationDetector, parser, lockstep\n\
         epp.yaml:1:13: apiVersion: \"v2\" is unknown; accepted: llm-d.ai/v1alpha1, inference.networking.x-k8s.io/v1alpha1"
    );
}

#[test]
fn the_section_lockstep_is_strict_and_defaults_to_parity() {
    let compat = |text: &str| parse(text).lockstep.map(|section| section.value.compat);
    assert_eq!(compat("plugins: []"), None);
    assert_eq!(compat("lockstep: {}"), Some(Compat::default()));
    assert_eq!(compat("lockstep: {compat: {}}"), Some(Compat::default()));
    let fixed = Compat { flow_control: Behavior::Fixed, kv_events: Behavior::Parity };
    assert_eq!(compat("lockstep: {compat: {flowControl: fixed, kvEvents: parity}}"), Some(fixed));
    for (text, place, accepted) in [
        ("lockstep: {compat: {flowcontrol: fixed}}", "1:21: lockstep.compat.flowcontrol", "flowControl"),
        ("lockstep: {compat: {kvEvents: on}}", "1:31: lockstep.compat.kvEvents", "parity or fixed"),
        ("lockstep: {compat: {kvEvents: sane}}", "1:31: lockstep.compat.kvEvents", "parity, fixed"),
        ("lockstep: {explain: true}", "1:12: lockstep.explain", "compat"),
        ("lockstep: fixed", "1:11: lockstep", "a mapping"),
    ] {
        let problems = refused(text);
        assert!(problems.contains(place) && problems.contains(accepted), "{text}: {problems}");
    }
}

#[test]
fn the_llm_d_router_takes_every_file_without_options_of_our_own() {
    assert!(parse("").check_llm_d("epp.yaml").is_ok());
    let ours = parse("plugins: []\nlockstep: {compat: {kvEvents: fixed}}\n");
    let refused = ours.check_llm_d("epp.yaml").expect_err("an unknown section").to_string();
    assert!(refused.starts_with("epp.yaml:2:11: lockstep: "), "{refused}");
}
