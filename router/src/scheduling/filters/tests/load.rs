//! Filters by load, predictions and custom metrics.

use serde_json::{Value, json};

use crate::attributes::{LatencyPredictionInfo, ScalarMetricValue};
use crate::data_key::{DataKey, resolve, well_known};
use crate::endpoint::{Endpoint, Metrics};
use crate::request::InferenceRequest;
use crate::scheduling::testing::{
    assert_kept, assert_refused, candidates, endpoint, labelled, load, prompt, with,
};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Returns the endpoints `a`, `b`, … of these values.
fn named<T: Clone>(values: &[T], endpoint: impl Fn(&str, T) -> Endpoint) -> Vec<Endpoint> {
    values.iter().zip(NAMES).map(|(value, name)| endpoint(name, value.clone())).collect()
}

fn running(n: i64, waiting: i64) -> Metrics {
    Metrics { running_requests_size: n, waiting_queue_size: waiting, ..Default::default() }
}

fn kv(share: f64) -> Metrics {
    Metrics { kv_cache_usage_percent: share, ..Default::default() }
}

/// Scheduling spec 4.6, the table.
#[test]
fn utilization_above_a_cap_is_dropped() {
    let loads = |counts: &[Option<i64>]| named(counts, |name, n| load(name, n.map(|n| (n, 0))));
    let metrics = |metrics: &[Metrics]| named(metrics, endpoint);
    let mixed = [(5, 0.0), (11, 0.0), (5, 0.9)];
    let mixed = named(&mixed, |name, (active, share)| Endpoint {
        metrics: kv(share),
        ..load(name, Some((active, 0)))
    });
    let odd = [kv(f64::NAN), kv(0.9)];
    for (conditions, fallback, endpoints, want) in [
        (json!([["active-requests", 2]]), false, loads(&[Some(1), Some(2), Some(3)]), &["a", "b"][..]),
        (json!([["active-requests", 1]]), false, loads(&[None, Some(5)]), &["a"]),
        (json!([["running-requests", 4]]), false, metrics(&[running(4, 0), running(5, 0)]), &["a"]),
        (json!([["waiting-queue", 0]]), false, metrics(&[running(0, 0), running(0, 3)]), &["a"]),
        (json!([["kv-cache-utilization", 0.8]]), false, metrics(&[kv(0.5), kv(0.9)]), &["a"]),
        (json!([["kv-cache-utilization", 0.8]]), false, metrics(&odd), &["a"]),
        (
            json!([["running-requests", 40], ["waiting-queue", 0]]),
            false,
            metrics(&[running(10, 0), running(41, 0), running(10, 1)]),
            &["a"],
        ),
        (json!([["active-requests", 10], ["kv-cache-utilization", 0.8]]), false, mixed, &["a"]),
        (json!([["active-requests", 1]]), false, loads(&[Some(2), Some(3)]), &[]),
        (json!([["active-requests", 1]]), true, loads(&[Some(2), Some(3)]), &["a", "b"]),
    ] {
        let condition = |c: &Value| json!({ "metric": c[0], "maxValue": c[1] });
        let conditions: Vec<Value> = conditions.as_array().expect("a list").iter().map(condition).collect();
        let parameters = json!({ "conditions": conditions, "fallbackOnEmpty": fallback });
        let all = candidates(endpoints);
        assert_kept(("utilization-filter", parameters), &InferenceRequest::default(), &all, want);
    }
    let one = |condition: Value| json!({ "conditions": [condition] });
    assert_refused(
        "utilization-filter",
        &[
            (json!(null), "conditions"),
            (json!({ "conditions": [] }), "conditions"),
            (one(json!({ "maxValue": 1 })), "metric"),
            (one(json!({ "metric": "load", "maxValue": 1 })), "metric"),
            (one(json!({ "metric": "waiting-queue" })), "maxValue"),
            (one(json!({ "metric": "waiting-queue", "maxValue": -1 })), "maxValue"),
            (one(json!({ "metric": "kv-cache-utilization", "maxValue": 80 })), "maxValue"),
        ],
    );
}

/// Scheduling spec 4.8, the list under T.
#[test]
fn attributes_are_compared_with_a_threshold() {
    let custom = DataKey::plain("load");
    let filter = |operator: &str, rest: Value| {
        let threshold = json!({ "operator": operator, "value": 10 });
        let algorithm = json!({ "type": "threshold", "threshold": threshold });
        let mut parameters = json!({ "attribute": "load", "algorithm": algorithm });
        parameters.as_object_mut().expect("a mapping").extend(rest.as_object().expect("a mapping").clone());
        ("endpoint-attribute-filter", parameters)
    };
    let five_to_fifteen = &[Some(5.0), Some(10.0), Some(15.0)][..];
    for (operator, rest, values, want) in [
        ("LessThan", json!({}), five_to_fifteen, &["a"][..]),
        ("LessThanOrEqual", json!({}), five_to_fifteen, &["a", "b"]),
        ("GreaterThan", json!({}), five_to_fifteen, &["c"]),
        ("GreaterThanOrEqual", json!({}), five_to_fifteen, &["b", "c"]),
        ("Equal", json!({}), &[Some(5.0), Some(10.0)], &["b"]),
        ("NotEqual", json!({}), &[Some(5.0), Some(10.0)], &["a"]),
        ("LessThan", json!({ "onMissing": "Pass" }), &[Some(15.0), None], &["b"]),
        ("LessThan", json!({ "onMissing": "" }), &[Some(15.0), None], &["b"]),
        ("LessThan", json!({ "onMissing": "Fail" }), &[Some(5.0), None], &["a"]),
        ("LessThan", json!({}), &[Some(15.0), Some(20.0)], &[]),
        ("LessThan", json!({ "fallbackOnEmpty": true }), &[Some(15.0), Some(20.0)], &["a", "b"]),
        ("LessThan", json!({ "fallbackOnEmpty": true }), &[Some(5.0), Some(20.0)], &["a"]),
    ] {
        let endpoint =
            |name: &str, v: Option<f64>| with(labelled(name, &[]), &custom, v.map(ScalarMetricValue));
        let all = candidates(named(values, endpoint));
        assert_kept(filter(operator, rest), &InferenceRequest::default(), &all, want);
    }
    let threshold = json!({ "type": "threshold", "threshold": { "operator": "Equal" } });
    assert_refused(
        "endpoint-attribute-filter",
        &[
            (json!({ "algorithm": threshold }), "attribute"),
            (filter("Equal", json!({ "onMissing": "pass" })).1, "onMissing"),
            (json!({ "attribute": "a", "algorithm": { "type": "linear" } }), "algorithm.type"),
            (json!({ "attribute": "a", "algorithm": { "type": "threshold" } }), "algorithm.threshold"),
            (filter("==", json!({})).1, "threshold.operator"),
        ],
    );
}

/// Scheduling spec 4.7, the list under T.
#[test]
fn of_two_tiers_the_one_that_meets_its_objectives_stays_but_for_exploration() {
    let predictions = resolve(well_known::LATENCY_PREDICTION_INFO, "");
    let (met, met_more, missed) = (Some((100.0, 50.0)), Some((200.0, 80.0)), Some((-100.0, -50.0)));
    for (epsilon, headrooms, want) in [
        (0.0, &[met, met_more, missed][..], &["a", "b"][..]),
        (0.0, &[Some((-1.0, 5.0)), Some((0.0, 0.0))], &["b"]),
        (1.0, &[met, missed], &["b"]),
        (1.0, &[met, None], &["b"]),
        (1.0, &[None, missed, met], &["b", "a"]),
        (1.0, &[met, met_more], &["a", "b"]),
        (0.0, &[missed, missed], &["a", "b"]),
        (0.5, &[None, None], &["a", "b"]),
        (1.0, &[met], &["a"]),
    ] {
        let info = |(ttft_headroom, tpot_headroom)| LatencyPredictionInfo {
            ttft_headroom,
            tpot_headroom,
            ..Default::default()
        };
        let endpoint =
            |name: &str, h: Option<(f64, f64)>| with(labelled(name, &[]), &predictions, h.map(info));
        let all = candidates(named(headrooms, endpoint));
        let filter = ("slo-headroom-tier-filter", json!({ "epsilonExploreNeg": epsilon }));
        assert_kept(filter, &InferenceRequest::default(), &all, want);
    }
    let why = "epsilonExploreNeg must be in [0, 1]";
    let refused = [-0.1, 1.1].map(|epsilon| (json!({ "epsilonExploreNeg": epsilon }), why));
    assert_refused("slo-headroom-tier-filter", &refused);
}

/// Scheduling spec 5.6, the filter.
#[test]
fn ranges_of_context_length_filter_only_when_asked() {
    let ranges = ["0-100", "0-2000", "100-500", "0-52", "142-242", "abc-100"];
    let mut endpoints: Vec<_> =
        ranges.iter().map(|range| labelled(range, &[("llm-d.ai/context-length-range", range)])).collect();
    endpoints.push(labelled("bare", &[]));
    let all = candidates(endpoints);
    let filter = |enabled: bool| ("context-length-aware", json!({ "enableFiltering": enabled }));
    let unknown = InferenceRequest::default();
    assert_kept(filter(true), &unknown, &all, &["0-100", "0-2000", "0-52", "bare"]);
    assert_kept(filter(true), &prompt(42, &[]), &all, &["0-100", "0-2000", "0-52", "bare"]);
    assert_kept(filter(true), &prompt(100, &[]), &all, &["0-100", "0-2000", "100-500", "bare"]);
    assert_kept(filter(true), &prompt(9000, &[]), &all, &["bare"]);
    let everyone = ["0-100", "0-2000", "100-500", "0-52", "142-242", "abc-100", "bare"];
    assert_kept(filter(false), &prompt(9000, &[]), &all, &everyone);
    assert_refused("context-length-aware", &[(json!({ "label": "" }), "label")]);
}
