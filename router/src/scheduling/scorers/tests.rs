mod affinity;
mod attributes;
mod latency_scorer;
mod no_hit_lru_scorer;

use std::rc::Rc;

use serde_json::{Value, json};

use crate::attributes::{PrefixCacheMatchInfo, UncachedRequestTokens};
use crate::candidates::Candidates;
use crate::data_key::{resolve, well_known};
use crate::endpoint::Metrics;
use crate::request::InferenceRequest;
use crate::scheduling::testing::{assert_scored, build, candidates, endpoint, load, queue};

fn assert_scores(plugin_type: &str, parameters: Value, candidates: &Candidates, want: &[f64]) {
    let want: Vec<Option<f64>> = want.iter().copied().map(Some).collect();
    assert_scored((plugin_type, parameters), &InferenceRequest::default(), candidates, &want);
}

/// Scheduling spec 5.1 to 5.3, 5.5.
#[test]
fn load_metrics_score_as_specified() {
    let kv = |share| endpoint("e", Metrics { kv_cache_usage_percent: share, ..Default::default() });
    let shares = [0.8, 0.5, 0.0, 1.0, 0.6, 1.5];
    assert_scores(
        "kv-cache-utilization-scorer",
        json!(null),
        &candidates(shares.map(kv)),
        &shares.map(|share| 1.0 - share),
    );
    let running = |n| endpoint("e", Metrics { running_requests_size: n, ..Default::default() });
    for (sizes, want) in [(&[10, 5, 0][..], &[0.0, 0.5, 1.0][..]), (&[4, 4], &[1.0, 1.0]), (&[9], &[1.0])] {
        let (waiting, running) =
            (candidates(sizes.iter().map(|&n| queue("e", n))), candidates(sizes.iter().map(|&n| running(n))));
        assert_scores("queue-scorer", json!(null), &waiting, want);
        assert_scores("running-requests-size-scorer", json!(null), &running, want);
    }
    assert_scores("queue-scorer", json!(null), &candidates([]), &[]);
    let queues = candidates([2, 0, 15].map(|n| queue("e", n)));
    assert_scores("load-aware-scorer", json!({ "threshold": 10 }), &queues, &[0.4, 0.5, 0.0]);
    let default = candidates([64, 128, 1000].map(|n| queue("e", n)));
    for parameters in [json!({}), json!({ "threshold": 0 }), json!({ "threshold": -5 })] {
        assert_scores("load-aware-scorer", parameters, &default, &[0.25, 0.0, 0.0]);
    }
}

/// Scheduling spec 5.4.
#[test]
fn an_adapter_that_is_loaded_scores_best_and_room_for_it_better_than_waiting() {
    let models = |names: &[&str]| Rc::new(names.iter().map(|name| ((*name).to_owned(), 0)).collect());
    let request = InferenceRequest { target_model: "m".to_owned(), ..Default::default() };
    for (active, waiting, most, want) in [
        (&["m"][..], &[][..], 5, 1.0),
        (&["x"], &["m"], 2, 0.6),
        (&["x"], &["y"], 2, 0.0),
        (&[], &[], 0, 0.0),
        (&["x"], &["m"], 5, 0.8),
        (&["x"], &[], 2, 0.8),
        (&["x", "y"], &[], 2, 0.0),
    ] {
        let metrics = Metrics {
            active_models: models(active),
            waiting_models: models(waiting),
            max_active_models: most,
            ..Default::default()
        };
        let all = candidates([endpoint("e", metrics)]);
        assert_scored(("lora-affinity-scorer", json!(null)), &request, &all, &[Some(want)]);
    }
    assert_scored(("lora-affinity-scorer", json!(null)), &request, &candidates([]), &[]);
}

/// Scheduling spec 5.10.
#[test]
fn prefix_scores_weigh_share_and_length() {
    let score = |parameters: Value, found: i64, total: i64, want: f64| {
        let mut candidates = candidates([queue("a", 0), queue("b", 0)]);
        let info = PrefixCacheMatchInfo::new(found, total, 1);
        candidates.put(resolve(well_known::PREFIX_CACHE_MATCH_INFO, ""), vec![Some(info), None]);
        assert_scores("prefix-cache-scorer", parameters, &candidates, &[want, 0.0]);
    };
    score(json!({}), 5, 10, 0.5);
    score(json!(null), 2, 10, 0.2);
    score(json!({}), 0, 0, 0.0);
    let half = json!({ "matchLengthWeight": 0.5, "matchLengthScaleTokens": 100 });
    score(half.clone(), 5, 10, 0.25125);
    score(half, 50, 100, 0.375);
    for bad in [
        json!({ "matchLengthWeight": -0.1 }),
        json!({ "matchLengthWeight": 1.1 }),
        json!({ "matchLengthWeight": 0.5, "matchLengthScaleTokens": 0 }),
        json!({ "unknown": 1 }),
    ] {
        assert!(build("prefix-cache-scorer", bad.clone()).is_err(), "{bad}");
    }
    assert!(build("prefix-cache-scorer", json!({ "matchLengthScaleTokens": 0 })).is_ok());
}

/// Scheduling spec 5.11.
#[test]
fn requests_in_flight_lower_the_score() {
    let of = |loads: &[Option<i64>]| candidates(loads.iter().map(|l| load("e", l.map(|r| (r, 0)))));
    let check = |parameters, loads: &[Option<i64>], want: &[f64]| {
        assert_scores("active-request-scorer", parameters, &of(loads), want);
    };
    check(json!({}), &[None, None, None], &[1.0, 1.0, 1.0]);
    check(json!({}), &[Some(3), Some(0), Some(6)], &[0.5, 1.0, 0.0]);
    check(json!({}), &[Some(4), None, Some(1)], &[0.0, 1.0, 0.75]);
    check(json!({ "maxBusyScore": 0 }), &[Some(1), Some(0)], &[0.0, 1.0]);
    check(json!({ "idleThreshold": 1, "maxBusyScore": 0.5 }), &[Some(1), Some(2), Some(0)], &[1.0, 0.0, 1.0]);
    check(json!({ "maxBusyScore": 7, "requestTimeout": "x" }), &[Some(3), Some(11)], &[8.0 / 11.0, 0.0]);
}

/// Scheduling spec 5.14.
#[test]
fn tokens_in_flight_lower_the_score() {
    let threshold = json!({ "queueThresholdTokens": 1000 });
    let loads = || [Some((0, 0)), Some((0, 500)), Some((0, 1000))].map(|l| load("e", l));
    assert_scores("token-load-scorer", threshold.clone(), &candidates(loads()), &[1.0, 0.5, 0.0]);
    assert_scores("token-load-scorer", threshold.clone(), &candidates([load("e", None)]), &[1.0]);
    let mut with_request = candidates([0, 250, 750].map(|tokens| load("e", Some((0, tokens)))));
    let uncached = vec![Some(UncachedRequestTokens(250)); 3];
    with_request.put(resolve(well_known::UNCACHED_REQUEST_TOKENS, ""), uncached);
    assert_scores("token-load-scorer", threshold, &with_request, &[0.75, 0.5, 0.0]);
}
