//! Filters by what is near: a cached prefix, a peer, an address.

use std::rc::Rc;

use serde_json::{Value, json};

use crate::attributes::{InFlightLoad, LatencyPredictionInfo, PrefixCacheMatchInfo, Topology};
use crate::candidates::Candidates;
use crate::data_key::{resolve, well_known};
use crate::endpoint::Endpoint;
use crate::request::InferenceRequest;
use crate::scheduling::PEER_ENDPOINT;
use crate::scheduling::testing::{
    assert_kept, assert_refused, at, build, candidates, labelled, request_with, with,
};

/// Endpoints named `m<matched blocks of 100>`, each with a predicted time to first token and tokens in flight.
fn cached(endpoints: &[(i64, Option<f64>, i64)]) -> Candidates {
    let endpoint = |&(matched, ttft, tokens): &(i64, Option<f64>, i64)| {
        let prediction = ttft.map(|ttft| LatencyPredictionInfo { ttft, ..Default::default() });
        let load = InFlightLoad { requests: 0.into(), tokens: tokens.into() };
        let matched_info = PrefixCacheMatchInfo::new(matched, 100, 16);
        let endpoint = labelled(&format!("m{matched}"), &[]);
        let endpoint = with(endpoint, &resolve(well_known::LATENCY_PREDICTION_INFO, ""), prediction);
        let endpoint = with(endpoint, &resolve(well_known::IN_FLIGHT_LOAD, ""), Some(load));
        with(endpoint, &resolve(well_known::PREFIX_CACHE_MATCH_INFO, ""), Some(matched_info))
    };
    candidates(endpoints.iter().map(endpoint))
}

fn assert_near(parameters: Value, all: &Candidates, want: &[&str]) {
    assert_kept(("prefix-cache-affinity-filter", parameters), &InferenceRequest::default(), all, want);
}

/// Scheduling spec 4.9, the list under T.
#[test]
fn those_that_hold_the_prefix_stay_unless_they_are_too_loaded() {
    let matches =
        |matched: &[i64]| cached(&matched.iter().map(|&matched| (matched, None, 0)).collect::<Vec<_>>());
    assert_near(json!({ "affinityThreshold": 0 }), &matches(&[10, 90]), &["m10", "m90"]);
    assert_near(json!({}), &matches(&[10]), &["m10"]);
    assert_near(json!({}), &matches(&[10, 20, 50]), &["m10", "m20", "m50"]);
    assert_near(json!({}), &matches(&[80, 79, 81]), &["m80", "m81"]);
    assert_near(json!({ "explorationProbability": 1.0 }), &matches(&[90, 10]), &["m90", "m10"]);

    let predictor = |penalty: f64| json!({ "ttftSource": "latencyPredictor", "maxTTFTPenaltyMs": penalty });
    let predicted = cached(&[(90, Some(100.0), 0), (85, Some(120.0), 0), (10, Some(50.0), 0)]);
    assert_near(predictor(5000.0), &predicted, &["m90", "m85"]);
    let slow = cached(&[(90, Some(500.0), 0), (10, Some(50.0), 0)]);
    assert_near(predictor(100.0), &slow, &["m90", "m10"]);
    assert_near(predictor(450.0), &slow, &["m90"]);
    assert_near(predictor(100.0), &cached(&[(90, None, 0), (10, None, 0)]), &["m90"]);
    assert_near(predictor(100.0), &cached(&[(90, None, 0), (10, Some(50.0), 0)]), &["m90", "m10"]);

    let throughput = |penalty: f64| json!({ "peakPrefillThroughput": 1000, "maxTTFTPenaltyMs": penalty });
    let busy = cached(&[(90, None, 500), (10, None, 50)]);
    assert_near(throughput(100.0), &busy, &["m90", "m10"]);
    assert_near(throughput(1000.0), &busy, &["m90"]);
    assert_near(throughput(0.0), &cached(&[(90, None, 5000), (10, None, 0)]), &["m90"]);
}

/// Scheduling spec 4.9, the table of parameters.
#[test]
fn parameters_of_prefix_affinity_are_checked() {
    let needed = "peakPrefillThroughput must be > 0 when ttftSource is prefillThroughput";
    assert_refused(
        "prefix-cache-affinity-filter",
        &[
            (json!({ "affinityThreshold": 1.01 }), "affinityThreshold must be <= 1.0"),
            (json!({ "explorationProbability": 2 }), "explorationProbability must be in [0, 1]"),
            (json!({ "explorationProbability": -1 }), "explorationProbability must be in [0, 1]"),
            (json!({ "maxTTFTPenaltyMs": -1 }), "maxTTFTPenaltyMs"),
            (json!({ "ttftSource": "" }), "ttftSource must be"),
            (json!({ "peakPrefillThroughput": -1 }), "peakPrefillThroughput must be >= 0"),
            (json!({ "peakPrefillThroughput": 0 }), needed),
        ],
    );
    for accepted in [
        json!({ "affinityThreshold": -1 }),
        json!({ "peakPrefillThroughput": 0, "maxTTFTPenaltyMs": 0 }),
        json!({ "peakPrefillThroughput": 0, "ttftSource": "latencyPredictor" }),
    ] {
        assert!(build("prefix-cache-affinity-filter", accepted.clone()).is_ok(), "{accepted}");
    }
}

fn place([hostname, rack, zone, region]: [&str; 4]) -> Topology {
    Topology { hostname: hostname.into(), rack: rack.into(), zone: zone.into(), region: region.into() }
}

fn placed(name: &str, at: Option<[&str; 4]>) -> Endpoint {
    with(labelled(name, &[]), &resolve(well_known::TOPOLOGY, ""), at.map(place))
}

/// Scheduling spec 4.5, the list under T.
#[test]
fn endpoints_near_the_peer_stay_where_there_are_any() {
    let mut near = InferenceRequest::default();
    near.attributes.put(PEER_ENDPOINT, Rc::new(placed("peer", Some(["h1", "r1", "z1", "reg1"]))));
    let alone = InferenceRequest::default();
    let host = placed("host", Some(["h1", "r1", "z1", "reg1"]));
    let rack = placed("rack", Some(["h2", "r1", "", ""]));
    let far = placed("far", Some(["h9", "r9", "z9", "reg9"]));
    let unknown = placed("unknown", None);
    let only_rack = placed("only-rack", Some(["", "r1", "", ""]));
    for (request, level, endpoints, want) in [
        (&near, "host", vec![&host, &rack, &unknown], &["host"][..]),
        (&near, "", vec![&host, &rack, &unknown], &["host"]),
        (&near, "rack", vec![&host, &rack, &unknown], &["host", "rack"]),
        (&near, "rack", vec![&only_rack, &far], &["only-rack"]),
        (&near, "host", vec![&only_rack], &["only-rack"]),
        (&near, "region", vec![&far, &unknown], &["far", "unknown"]),
        (&alone, "host", vec![&host, &far, &unknown], &["host", "far", "unknown"]),
        (&near, "host", vec![&unknown, &host], &["host"]),
    ] {
        let all = candidates(endpoints.into_iter().cloned());
        assert_kept(("topology-affinity-filter", json!({ "minAffinity": level })), request, &all, want);
    }
    let refused =
        ["datacenter", "Host", "none"].map(|level| (json!({ "minAffinity": level }), "minAffinity"));
    assert_refused("topology-affinity-filter", &refused);
}

/// Scheduling spec 4.10, the list under T and the surprise.
#[test]
fn a_test_header_lists_addresses() {
    let all = candidates([
        at("one", "10.0.0.1", "3002"),
        at("two", "10.0.0.2", "3003"),
        at("three", "10.0.0.3", "3004"),
        at("six", "fd00::1", "3002"),
        at("six-too", "fd00::2", "3002"),
        at("first-rank", "10.0.0.9", "3000"),
        at("last-rank", "10.0.0.9", "3002"),
    ]);
    for (header, want) in [
        ("", &[][..]),
        ("10.0.0.99", &[]),
        ("10.0.0.1", &["one"]),
        ("10.0.0.1:3002", &["one"]),
        ("10.0.0.1:9999", &[]),
        ("10.0.0.3:3004, 10.0.0.2, 10.0.0.3", &["three", "two"]),
        ("[fd00::1]:3002", &["six"]),
        ("fd00::2", &["six-too"]),
        ("10.0.0.9", &["last-rank"]),
        ("10.0.0.9:3000,10.0.0.9:3002", &["first-rank"]),
        (" , 10.0.0.2 ,", &["two"]),
    ] {
        let request = request_with(&[("test-epp-endpoint-selection", header)]);
        assert_kept(("header-based-testing-filter", json!(null)), &request, &all, want);
    }
    assert_kept(("header-based-testing-filter", json!(null)), &request_with(&[]), &all, &[]);
}
