//! Scorers that send like to like: by label, by cached images, by place, by length.

use std::rc::Rc;

use serde_json::json;

use crate::attributes::{EncoderCacheMatchInfo, EncoderItem, Topology};
use crate::data_key::{resolve, well_known};
use crate::request::InferenceRequest;
use crate::scheduling::PEER_ENDPOINT;
use crate::scheduling::testing::{
    assert_refused, assert_scored, candidates, labelled, prompt, request_with, with,
};

/// Scheduling spec 5.8.
#[test]
fn a_label_that_equals_the_header_scores_one() {
    let slice = "disaggregatedset.x-k8s.io/slice";
    let all = candidates([
        labelled("a", &[(slice, "slice-a")]),
        labelled("b", &[(slice, "slice-b")]),
        labelled("c", &[("other", "slice-a")]),
        labelled("d", &[(slice, "")]),
    ]);
    let scorer =
        || ("header-label-affinity-scorer", json!({ "headerName": "X-Disagg-Slice", "labelKey": slice }));
    for (headers, want) in [
        (&[("x-disagg-slice", "slice-a")][..], [1.0, 0.0, 0.0, 0.0]),
        (&[("x-disagg-slice", "slice-b")], [0.0, 1.0, 0.0, 0.0]),
        (&[("x-disagg-slice", "slice-z")], [0.0; 4]),
        (&[("x-disagg-slice", "")], [0.0; 4]),
        (&[("x-slice", "slice-a")], [0.0; 4]),
        (&[], [0.0; 4]),
    ] {
        assert_scored(scorer(), &request_with(headers), &all, &want.map(Some));
    }
    assert_refused(
        "header-label-affinity-scorer",
        &[
            (json!(null), "required"),
            (json!({ "labelKey": "a" }), "headerName is required"),
            (json!({ "headerName": "a" }), "labelKey is required"),
        ],
    );
}

/// Scheduling spec 5.13.
#[test]
fn the_share_of_cached_media_by_size_is_the_score() {
    let key = resolve(well_known::ENCODER_CACHE_MATCH_INFO, "");
    let items = |sizes: &[i64]| {
        let item = |&size: &i64| EncoderItem { hash: size.to_string(), size, modality: "image".to_owned() };
        sizes.iter().map(item).collect::<Vec<_>>()
    };
    let info = |matched: &[i64], all: &[i64]| {
        Some(EncoderCacheMatchInfo { matched_items: items(matched), request_items: items(all) })
    };
    let infos = [info(&[80], &[80, 20]), info(&[20], &[80, 20]), info(&[], &[80, 20]), None, info(&[], &[])];
    let all = candidates(infos.map(|info| with(labelled("e", &[]), &key, info)));
    let want = [0.8, 0.2, 0.0, 0.0, 0.0].map(Some);
    assert_scored(("mm-embeddings-cache-scorer", json!(null)), &InferenceRequest::default(), &all, &want);
}

/// Scheduling spec 5.16.
#[test]
fn the_tightest_level_shared_with_the_peer_is_the_score() {
    let key = resolve(well_known::TOPOLOGY, "");
    let place = |[hostname, rack, zone, region]: [&str; 4]| Topology {
        hostname: hostname.into(),
        rack: rack.into(),
        zone: zone.into(),
        region: region.into(),
    };
    let places = [
        Some(["h1", "r1", "z1", "reg1"]),
        Some(["h2", "r1", "z1", "reg1"]),
        Some(["h2", "r2", "z1", "reg1"]),
        Some(["h2", "r2", "z2", "reg1"]),
        Some(["h2", "r2", "z2", "reg2"]),
        Some(["", "r1", "", ""]),
        None,
    ];
    let all = candidates(places.map(|at| with(labelled("e", &[]), &key, at.map(place))));
    let mut request = InferenceRequest::default();
    assert_scored(("topology-affinity-scorer", json!(null)), &request, &all, &[Some(0.0); 7]);
    let peer = with(labelled("peer", &[]), &key, places[0].map(place));
    request.attributes.put(PEER_ENDPOINT, Rc::new(peer));
    let want = [1.0, 0.2, 0.05, 0.02, 0.0, 0.2, 0.0].map(Some);
    assert_scored(("topology-affinity-scorer", json!(null)), &request, &all, &want);
}

/// Scheduling spec 5.6: what the endpoints say of lengths, and the surprise.
#[test]
fn an_endpoint_without_a_range_may_score_above_a_wide_one() {
    let label = "llm-d.ai/context-length-range";
    let all = candidates([
        labelled("none", &[]),
        labelled("invalid", &[(label, "0-100-200")]),
        labelled("exact", &[(label, "14999-14999")]),
        labelled("far", &[(label, "15999-20000")]),
    ]);
    let want = [0.5, 0.0, 1.0, 0.15].map(Some);
    assert_scored(("context-length-aware", json!({})), &prompt(14_999, &[]), &all, &want);
}
