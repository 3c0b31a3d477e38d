use std::rc::Rc;

use serde_json::{Value, json};

use crate::attributes::{InFlightLoad, PrefixCacheMatchInfo, UncachedRequestTokens};
use crate::candidates::Candidates;
use crate::data_key::{resolve, well_known};
use crate::endpoint::{Endpoint, Metrics};
use crate::scheduling::testing::{build, candidates, endpoint, queue, scores};

fn assert_scores(plugin_type: &str, parameters: Value, candidates: &Candidates, want: &[f64]) {
    let instance = build(plugin_type, parameters.clone()).unwrap();
    let got: Vec<f64> = scores(&instance, candidates).into_iter().map(Option::unwrap).collect();
    let close = got.len() == want.len() && got.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-12);
    assert!(close, "{plugin_type} {parameters}: got {got:?}, expected {want:?}");
}

/// An endpoint with so many requests and tokens in flight; `None` = no counter.
fn load(name: &str, load: Option<(i64, i64)>) -> Endpoint {
    let mut endpoint = endpoint(name, Metrics::default());
    if let Some((requests, tokens)) = load {
        let load = InFlightLoad { requests: requests.into(), tokens: tokens.into() };
        endpoint.attributes.put(resolve(well_known::IN_FLIGHT_LOAD, ""), Rc::new(load));
    }
    endpoint
}

/// Scheduling spec 5.1 to 5.3.
#[test]
fn load_metrics_score_as_specified() {
    let kv = |share| {
        endpoint(
            "e",
            Metrics { kv_cache_usage_percent: share, running_requests_size: 3, ..Default::default() },
        )
    };
    assert_scores(
        "kv-cache-utilization-scorer",
        json!(null),
        &candidates([kv(0.8), kv(0.0), kv(1.5)]),
        &[1.0 - 0.8, 1.0, -0.5],
    );
    let queues = candidates([queue("a", 10), queue("b", 5), queue("c", 0)]);
    assert_scores("queue-scorer", json!(null), &queues, &[0.0, 0.5, 1.0]);
    assert_scores("running-requests-size-scorer", json!(null), &queues, &[1.0, 1.0, 1.0]);
    assert_scores("queue-scorer", json!(null), &candidates([]), &[]);
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
