use serde_json::{Value, json};

use crate::attributes::LatencyPredictionInfo;
use crate::candidates::Candidates;
use crate::data_key::{resolve, well_known};
use crate::endpoint::{Endpoint, Metrics};
use crate::request::InferenceRequest;
use crate::scheduling::testing::{assert_scored, candidates, endpoint, labelled, with};

/// An endpoint with these headrooms (TTFT, TPOT) and so many requests dispatched.
fn predicted(ttft_headroom: f64, tpot_headroom: f64, dispatched_request_count: i64) -> Endpoint {
    let info = LatencyPredictionInfo {
        ttft_headroom,
        tpot_headroom,
        dispatched_request_count,
        ..Default::default()
    };
    with(labelled("e", &[]), &resolve(well_known::LATENCY_PREDICTION_INFO, ""), Some(info))
}

fn unpredicted(kv_cache_usage_percent: f64, waiting_queue_size: i64) -> Endpoint {
    endpoint("e", Metrics { kv_cache_usage_percent, waiting_queue_size, ..Default::default() })
}

fn assert_latency(parameters: Value, all: &Candidates, want: &[f64]) {
    let want: Vec<Option<f64>> = want.iter().copied().map(Some).collect();
    assert_scored(("latency-scorer", parameters), &InferenceRequest::default(), all, &want);
}

/// Scheduling spec 5.12, the table.
#[test]
fn headroom_decides_and_without_predictions_a_composite() {
    for (endpoints, want) in [
        (vec![predicted(100.0, 20.0, 0), predicted(30.0, 5.0, 0)], &[0.01, 1.01][..]),
        (vec![predicted(10.0, 2.0, 0), predicted(50.0, 10.0, 0)], &[1.01, 0.01]),
        (vec![predicted(-10.0, -5.0, 0), predicted(-100.0, -30.0, 0)], &[1.01, 0.01]),
        (vec![predicted(-50.0, -10.0, 5), predicted(-50.0, -10.0, 0)], &[0.0, 0.51]),
        (
            vec![predicted(-50.0, -10.0, 0), predicted(-30.0, 5.0, 0), predicted(10.0, -8.0, 0)],
            &[0.01, 0.61, 0.89],
        ),
        (vec![unpredicted(0.2, 0), unpredicted(0.8, 5)], &[0.60, 0.07]),
        (vec![], &[]),
    ] {
        assert_latency(json!({}), &candidates(endpoints), want);
    }
}

/// Scheduling spec 5.12: strategy, the order of the tiers, and surprise (a).
#[test]
fn tiers_go_from_met_to_idle_to_one_objective_missed() {
    let two = || candidates([predicted(100.0, 20.0, 0), predicted(30.0, 5.0, 0)]);
    assert_latency(json!({ "headroomSelectionStrategy": "most" }), &two(), &[1.01, 0.01]);
    assert_latency(json!({ "headroomSelectionStrategy": "MOST" }), &two(), &[0.01, 1.01]);
    let unpredicted_is_met =
        candidates([unpredicted(0.9, 50), predicted(30.0, 5.0, 0), predicted(-1.0, 5.0, 0)]);
    assert_latency(json!({}), &unpredicted_is_met, &[1.01, 0.01, 0.0]);
    let unpredicted_alone = candidates([unpredicted(0.9, 50), predicted(-1.0, 5.0, 0)]);
    assert_latency(json!({}), &unpredicted_alone, &[0.51, 0.0]);
    let busy = [predicted(10.0, -8.0, 1), predicted(-30.0, 5.0, 1), predicted(-50.0, -10.0, 1)];
    assert_latency(json!({}), &candidates(busy.clone()), &[0.51, 0.0, 0.0]);
    assert_latency(json!({}), &candidates(busy[1..].to_vec()), &[0.51, 0.0]);
    assert_latency(json!({}), &candidates(busy[2..].to_vec()), &[0.51]);
}
