use super::*;
use crate::config::loader::{Options, load_parsed};
use executor::Real;

/// What a configuration amounts to.
fn amounts_to(text: &str) -> String {
    let runtime = Real::builder().current_thread().seed(7).build().expect("the runtime starts");
    runtime.run(|rt| async move {
        let config =
            EndpointPickerConfig::parse("epp.yaml", text).unwrap_or_else(|problems| panic!("{problems}"));
        let registry = Registry::default();
        let options = Options { allow_experimental: true, ..Options::default() };
        let handle = Handle::new(rt.clone());
        let assembly = load_parsed("epp.yaml", &config, &registry, &handle, &options);
        let assembly = assembly.unwrap_or_else(|problems| panic!("{problems}\n{text}"));
        effective(&config, &assembly, &registry, &Handle::new(rt))
    })
}

/// The lines of `text` that do not tell where a plugin comes from.
fn without_notes(text: &str) -> Vec<&str> {
    text.lines().map(|line| line.split_once("  # ").map_or(line, |(line, _)| line)).collect()
}

#[test]
fn the_effective_configuration_amounts_to_itself() {
    for text in [
        "",
        "plugins: [{type: queue-scorer}]",
        "featureGates: [flowControl]\nplugins: [{type: queue-scorer}, {type: round-robin-fairness-policy, name: rr}]\n\
         flowControl:\n  maxBytes: 1Gi\n  defaultRequestTTL: 1500ms\n  enableEviction: true\n  \
         priorityBands: [{priority: 5, maxRequests: 7, fairnessPolicyRef: rr}, {priority: -2}]\n  \
         defaultNegativePriorityBand: {maxRequests: 3}\n",
        "lockstep: {compat: {flowControl: fixed}}\nplugins: [{type: random-picker, name: 'yes', parameters: {maxNumOfEndpoints: 2}}]",
    ] {
        let once = amounts_to(text);
        assert_eq!(without_notes(&amounts_to(&once)), without_notes(&once), "{text}");
    }
}

/// Configuration spec 2.2, 2.4: what the empty text stands for, written out.
#[test]
fn the_empty_text_amounts_to_the_built_in_configuration() {
    let text = amounts_to("");
    for part in [
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nfeatureGates:\n  - flowControl=false\n",
        "  - type: max-score-picker  # added by default\n    name: max-score-picker\n",
        "  - type: token-producer  # added for data that others require\n",
        "      - pluginRef: prefix-cache-scorer\n        weight: 3\n      - pluginRef: max-score-picker\n",
        "flowControl:\n  saturationDetector:\n    pluginRef: utilization-detector\n",
        "dataLayer:\n  injectDefaults: false\n  sources:\n    - pluginRef: metrics-data-source\n      extractors:\n        \
         - pluginRef: core-metrics-extractor\n",
    ] {
        assert!(text.contains(part), "{part}\nis not in\n{text}");
    }
}

#[test]
fn parameters_are_written_with_their_defaults() {
    let shape = Shape::Fields(vec![
        Field { default: Some(json!(16)), ..Field::new("blockSize", Shape::Integer) },
        Field::new("name", Shape::Text),
        Field::new(
            "range",
            Shape::Fields(vec![Field { default: Some(json!(0.5)), ..Field::new("low", Shape::Number) }]),
        ),
        Field::new(
            "items",
            Shape::List(Box::new(Shape::Fields(vec![Field {
                default: Some(json!("x")),
                ..Field::new("kind", Shape::Text)
            }]))),
        ),
    ]);
    let text = |written: Option<Value>| {
        let mut document = Document::default();
        document.set("parameters", complete(&shape, written.as_ref()));
        document.to_string()
    };
    assert_eq!(text(None), "parameters:\n  blockSize: 16\n  range:\n    low: 0.5\n");
    let written = json!({"BLOCKSIZE": 64, "name": "a: b", "range": null, "items": [{}, {"kind": "true"}]});
    assert_eq!(
        text(Some(written)),
        "parameters:\n  blockSize: 64\n  name: \"a: b\"\n  range:\n    low: 0.5\n  items:\n    - null\n    - kind: \"true\"\n"
            .replace("- null", "- kind: x")
    );
}
