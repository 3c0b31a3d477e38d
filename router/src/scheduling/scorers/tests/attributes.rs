//! Scorers of custom metrics, one pool's or a whole cluster's.

use serde_json::{Value, json};

use crate::attributes::ScalarMetricValue;
use crate::candidates::Candidates;
use crate::data_key::DataKey;
use crate::request::InferenceRequest;
use crate::scheduling::testing::{assert_refused, assert_scored, candidates, labelled, with};

/// Endpoints that have these values under `key`.
fn valued(key: &str, values: &[Option<f64>]) -> Candidates {
    let key = DataKey::plain(key);
    candidates(values.iter().map(|v| with(labelled("e", &[]), &key, v.map(ScalarMetricValue))))
}

fn assert_values(scorer: (&str, Value), key: &str, values: &[Option<f64>], want: &[Option<f64>]) {
    assert_scored(scorer, &InferenceRequest::default(), &valued(key, values), want);
}

/// Scheduling spec 5.9, the list under T.
#[test]
fn a_custom_metric_is_scored_linearly_over_its_range() {
    let (lower, higher) = ("linear_lower_is_better", "linear_higher_is_better");
    let adaptive = || json!({ "adaptiveRange": {} });
    let fixed = || json!({ "fixedRange": { "min": 0, "max": 10 } });
    for (direction, normalization, values, want) in [
        (lower, adaptive(), &[Some(10.0), Some(5.0), Some(0.0)][..], &[0.0, 0.5, 1.0][..]),
        (lower, json!({}), &[Some(10.0), Some(5.0), Some(0.0)], &[0.0, 0.5, 1.0]),
        (higher, adaptive(), &[Some(10.0), Some(5.0), Some(0.0)], &[1.0, 0.5, 0.0]),
        (lower, adaptive(), &[Some(7.0), Some(7.0)], &[1.0, 1.0]),
        (lower, adaptive(), &[Some(10.0), None, Some(0.0)], &[0.0, 0.0, 1.0]),
        (lower, adaptive(), &[None, None], &[0.0, 0.0]),
        (lower, fixed(), &[Some(10.0), Some(5.0), Some(0.0)], &[0.0, 0.5, 1.0]),
        (higher, fixed(), &[Some(10.0), Some(5.0), Some(0.0)], &[1.0, 0.5, 0.0]),
        (lower, fixed(), &[Some(7.0), Some(7.0)], &[0.3, 0.3]),
        (lower, fixed(), &[Some(15.0), Some(-5.0)], &[0.0, 1.0]),
        (higher, fixed(), &[Some(10.0), None], &[1.0, 0.0]),
    ] {
        let algorithm = json!({ "type": direction, "normalization": normalization });
        let scorer = ("endpoint-attribute-scorer", json!({ "attributeKey": "load", "algorithm": algorithm }));
        let want: Vec<Option<f64>> = want.iter().copied().map(Some).collect();
        assert_values(scorer, "load", values, &want);
    }
    let of = |algorithm: Value| json!({ "attributeKey": "load", "algorithm": algorithm });
    let both = json!({ "adaptiveRange": {}, "fixedRange": { "min": 0, "max": 1 } });
    let empty = json!({ "fixedRange": { "min": 1, "max": 1 } });
    assert_refused(
        "endpoint-attribute-scorer",
        &[
            (json!({ "algorithm": { "type": lower } }), "attributeKey"),
            (of(json!({ "type": "log" })), "type"),
            (of(json!({ "type": lower, "normalization": both })), "at most one normalization strategy"),
            (of(json!({ "type": lower, "normalization": empty })), "min"),
        ],
    );
}

/// Scheduling spec 5.1 and 5.2, the multi-cluster variants: who does not say is not scored.
#[test]
fn clusters_are_scored_by_their_aggregates() {
    let kv = ("multicluster-kv-cache-utilization-scorer", "llm-d.ai/multicluster-kv-cache-utilization");
    let queue = ("multicluster-queue-scorer", "llm-d.ai/multicluster-queue-size");
    for ((scorer, key), values, want) in [
        (kv, &[Some(0.2), Some(0.9), None][..], &[Some(0.8), Some(0.1), None][..]),
        (queue, &[Some(2.0), Some(6.0), Some(10.0)], &[Some(1.0), Some(0.5), Some(0.0)]),
        (queue, &[Some(4.0), Some(4.0)], &[Some(1.0), Some(1.0)]),
        (queue, &[Some(2.0), None, Some(10.0)], &[Some(1.0), None, Some(0.0)]),
    ] {
        assert_values((scorer, json!({ "any": "thing" })), key, values, want);
    }
}
