use serde_json::{Value, json};

use super::*;
use crate::request_control::Metadata;
use crate::scheduling::testing::handle;

fn build(attribute: Value) -> Result<Instance, FactoryError> {
    factory("reporter", &Parameters::new(json!({ "attributes": [attribute] })), &handle())
}

/// Returns what is reported of 15 prompt and 25 completion tokens, 6 of them cached.
fn reported(expression: &str, condition: &str) -> Option<f64> {
    let attribute = json!({ "key": { "name": "n" }, "expression": expression, "condition": condition });
    let instance = build(attribute).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let usage = Usage { prompt_tokens: 15, completion_tokens: 25, total_tokens: 40, cached_tokens: Some(6) };
    let mut response = ResponseRecord { usage, end_of_stream: true, ..ResponseRecord::default() };
    instance.roles.response_body.expect("it sees bodies").response_body(None, &mut response, None);
    response.dynamic_metadata.get("envoy.lb").and_then(|fields| fields["n"].as_f64())
}

/// Request-control spec 12.
#[test]
fn an_expression_gives_one_number() {
    for (expression, number) in [
        ("usage.prompt_tokens", Some(15.0)),
        ("usage['total_tokens'] * 1.5", Some(60.0)),
        ("usage.completion_tokens / 3.0", Some(8.0)),
        ("usage.prompt_tokens_details.cached_tokens", Some(6.0)),
        ("[usage.prompt_tokens, usage.total_tokens].filter(n, n > 20.0)[0]", Some(40.0)),
        ("-2", Some(-2.0)),
        ("1e300", Some(i64::MIN as f64)),
        // A double and an integer do not mix, but compare.
        ("usage.prompt_tokens + 1", None),
        ("usage.prompt_tokens > 10 ? 100 : 200", Some(100.0)),
        // Nothing is reported of what is no number, nor of 0 and -1.
        ("'text'", None),
        ("5u", None),
        ("usage.missing", None),
        ("usage.prompt_tokens - usage.prompt_tokens", None),
        ("-1", None),
        ("1 / 0", None),
    ] {
        assert_eq!(reported(expression, ""), number, "{expression}");
    }
}

#[test]
fn a_condition_must_be_true() {
    for (condition, is_met) in [
        ("usage.prompt_tokens > 10", true),
        ("has(usage.prompt_tokens_details)", true),
        ("usage.prompt_tokens > 15.0", false),
        ("5", false),
        ("usage.missing > 0", false),
    ] {
        assert_eq!(reported("7", condition).is_some(), is_met, "{condition}");
    }
}

#[test]
fn what_cannot_be_computed_is_refused_at_the_start() {
    for (attribute, why) in [
        (json!({ "key": { "name": "" }, "expression": "1" }), "attributeKey.name cannot be empty"),
        (json!({ "key": { "name": "n" } }), "attributes[0].expression cannot be empty"),
        (json!({ "key": { "name": "n" }, "expression": "unknown" }), "undeclared reference to 'unknown'"),
        (json!({ "key": { "name": "n" }, "expression": "max(1, 2)" }), "the function 'max'"),
        (json!({ "key": { "name": "n" }, "expression": "[1].map(n, m)" }), "undeclared reference to 'm'"),
        (json!({ "key": { "name": "n" }, "expression": "1 +" }), "failed to compile expression"),
        (
            json!({ "key": { "name": "n" }, "expression": "1", "condition": "(" }),
            "failed to compile condition",
        ),
    ] {
        let error = build(attribute.clone()).expect_err("refused").to_string();
        assert!(error.contains(why), "{attribute}: {error}");
    }
    for parameters in [Parameters::absent(), Parameters::new(json!({ "attributes": [] }))] {
        assert!(factory(TYPE, &parameters, &handle()).is_err());
    }
}

#[test]
fn other_metadata_stays() {
    let attribute = json!({ "key": { "namespace": "mine", "name": "n" }, "expression": "7" });
    let reporter = build(attribute).expect("builds").roles.response_body.expect("it sees bodies");
    let mut response = ResponseRecord::default();
    response.dynamic_metadata.entry("mine".to_owned()).or_default().insert("a".to_owned(), 1.into());
    let before = response.dynamic_metadata.clone();
    reporter.response_body(None, &mut response, None);
    assert_eq!(response.dynamic_metadata, before, "the response has not ended");
    response.end_of_stream = true;
    reporter.response_body(None, &mut response, None);
    let mut expected: Metadata = before;
    expected.entry("mine".to_owned()).or_default().insert("n".to_owned(), 7.0.into());
    assert_eq!(response.dynamic_metadata, expected);
}
