//! Decode, prefill and encode on endpoints of their own: `disagg-profile-handler`, `pd-profile-handler`.

use std::rc::Rc;

use serde_json::{Value, json};

use super::{failed, names, process};
use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidates;
use crate::data_key::{resolve, well_known};
use crate::endpoint::Endpoint;
use crate::plugin::{FactoryError, Handle, Instance};
use crate::request::InferenceRequest;
use crate::scheduling::testing::{build_in, candidates, chose, handle, labelled, prompt, with};
use crate::scheduling::{PEER_ENDPOINT, ProfileHandler, ProfileResults};

const ALL: &[&str] = &["encode", "prefill", "decode"];

/// What became of a stage before the call.
#[derive(Clone, Copy, Debug)]
enum Stage {
    Ran,
    Empty,
    Failed,
}
use Stage::{Empty, Failed, Ran};

/// A handle with both deciders: `prefill` asks for so many uncached tokens, `encode` for media.
fn deciders(non_cached_tokens: i64) -> Handle {
    let handle = handle();
    let parameters = json!({ "nonCachedTokens": non_cached_tokens });
    handle.add("by-prefix", build_in(&handle, "prefix-based-pd-decider", parameters).unwrap());
    handle.add("by-media", build_in(&handle, "always-disagg-multimodal-decider", json!({})).unwrap());
    handle.add("scorer", build_in(&handle, "queue-scorer", json!({})).unwrap());
    handle
}

fn disagg(handle: &Handle, parameters: Value) -> Result<Instance, FactoryError> {
    build_in(handle, "disagg-profile-handler", parameters)
}

/// One candidate, which caches so many blocks of one token.
fn pool(cached: i64) -> Candidates {
    let matches = resolve(well_known::PREFIX_CACHE_MATCH_INFO, "");
    candidates([with(labelled("d", &[]), &matches, Some(PrefixCacheMatchInfo::new(cached, 8, 1)))])
}

/// Calls `pick`; returns what runs next, and whether there is a peer afterwards.
fn pick(
    handler: &Rc<dyn ProfileHandler>,
    mut request: InferenceRequest,
    cached: i64,
    profiles: &[&str],
    before: &[(&str, Stage)],
) -> (Vec<Rc<str>>, bool) {
    let pool = pool(cached);
    let result = |(name, stage): &(&str, Stage)| {
        let result = match stage {
            Ran => Some(chose(&pool, &[0])),
            Empty => Some(chose(&pool, &[])),
            Failed => None,
        };
        ((*name).into(), result)
    };
    let mut results: ProfileResults = before.iter().map(result).collect();
    let next = handler.pick(&mut request, &pool, &names(profiles), &mut results);
    (next, request.attributes.get::<Rc<Endpoint>>(PEER_ENDPOINT).is_some())
}

/// Scheduling spec 7.4, the list under T: decode first. The prompt has 8 tokens in blocks of one.
#[test]
fn decode_runs_first_and_the_others_where_their_deciders_say_so() {
    let text = || prompt(8, &[]);
    let media = || prompt(8, &["image"]);
    let pd = &["prefill", "decode"][..];
    let epd = &["encode", "decode"][..];
    let decoded = &[("decode", Ran)][..];
    for (non_cached, cached, request, profiles, before, want) in [
        (4, 2, text(), pd, &[][..], &["decode"][..]),
        (4, 2, text(), pd, &[("decode", Failed)], &[]),
        (4, 2, text(), pd, &[("decode", Empty)], &[]),
        (4, 2, text(), pd, &[("decode", Ran), ("prefill", Ran)], &[]),
        (4, 2, text(), pd, decoded, &["prefill"]),
        (4, 5, text(), pd, decoded, &[]),
        (1, 0, InferenceRequest::default(), pd, decoded, &[]),
        (4, 0, text(), epd, decoded, &[]),
        (4, 0, prompt(8, &["image"]), epd, decoded, &["encode"]),
        (4, 0, prompt(8, &["video"]), epd, decoded, &["encode"]),
        (4, 0, prompt(8, &["audio"]), epd, decoded, &["encode"]),
        (4, 0, media(), epd, &[("decode", Ran), ("encode", Failed)], &[]),
        (1, 0, media(), ALL, decoded, &["encode"]),
        (1, 0, text(), ALL, decoded, &["prefill"]),
        (100, 0, text(), ALL, decoded, &[]),
        (1, 0, media(), ALL, &[("decode", Ran), ("encode", Failed)], &["prefill"]),
        (1, 0, media(), ALL, &[("decode", Ran), ("encode", Ran)], &["prefill"]),
        (1, 0, media(), ALL, &[("decode", Ran), ("encode", Ran), ("prefill", Ran)], &[]),
        (1, 0, media(), &["prefill", "encode"], &[], &[]),
    ] {
        let both = json!({ "deciders": { "prefill": "by-prefix", "encode": "by-media" } });
        let handler = disagg(&deciders(non_cached), both).unwrap().roles.profile_handler.unwrap();
        let (next, peer) = pick(&handler, request, cached, profiles, before);
        assert_eq!(next, names(want), "{non_cached} {cached} {profiles:?} {before:?}");
        assert_eq!(peer, want == ["prefill"], "the peer is set when prefill is about to run");
    }
}

/// Scheduling spec 7.4, the list under T: no deciders, one decider, other names.
#[test]
fn a_stage_without_a_decider_does_not_run() {
    let decoded = &[("decode", Ran)][..];
    let media = || prompt(8, &["image"]);
    for (parameters, before, want) in [
        (json!(null), decoded, &[][..]),
        (json!({ "deciders": { "encode": "by-media" } }), decoded, &["encode"]),
        (json!({ "deciders": { "encode": "by-media" } }), &[("decode", Ran), ("encode", Ran)], &[]),
        (json!({ "deciders": { "prefill": "by-prefix" } }), decoded, &["prefill"]),
    ] {
        let handler = disagg(&deciders(1), parameters.clone()).unwrap().roles.profile_handler.unwrap();
        assert_eq!(pick(&handler, media(), 0, ALL, before).0, names(want), "{parameters} {before:?}");
    }
    let renamed = json!({
        "profiles": { "decode": "d", "prefill": "p", "encode": "e" },
        "deciders": { "prefill": "by-prefix", "encode": "by-media" },
    });
    let handler = disagg(&deciders(1), renamed).unwrap().roles.profile_handler.unwrap();
    for (before, want) in [(&[][..], "d"), (&[("d", Ran)], "e"), (&[("d", Ran), ("e", Ran)], "p")] {
        assert_eq!(pick(&handler, media(), 0, &["p", "e", "d"], before).0, names(&[want]));
    }
}

/// Scheduling spec 7.4, the list under T: prefill first.
#[test]
fn prefill_first_runs_prefill_always_and_decode_last() {
    let parameters = json!({ "stageOrder": "prefill-first", "deciders": { "encode": "by-media" } });
    let handler = disagg(&deciders(1), parameters).unwrap().roles.profile_handler.unwrap();
    for (request, before, want, peer) in [
        (prompt(8, &[]), &[][..], &["prefill"][..], false),
        (prompt(8, &[]), &[("prefill", Ran)], &["decode"], true),
        (prompt(8, &[]), &[("prefill", Failed)], &["decode"], false),
        (prompt(8, &["image"]), &[("prefill", Ran)], &["encode"], false),
        (prompt(8, &["image"]), &[("prefill", Failed)], &["encode"], false),
        (prompt(8, &["image"]), &[("prefill", Ran), ("encode", Ran)], &["decode"], true),
        (prompt(8, &[]), &[("prefill", Ran), ("decode", Ran)], &[], false),
        (prompt(8, &[]), &[("prefill", Ran), ("decode", Failed)], &[], false),
        (prompt(8, &[]), &[("prefill", Ran), ("decode", Empty)], &[], false),
    ] {
        assert_eq!(pick(&handler, request, 0, ALL, before), (names(want), peer), "{before:?}");
    }
}

/// Scheduling spec 7.4, the list under T: configurations, nested and flat.
#[test]
fn stages_are_configured_nested_or_as_in_earlier_releases() {
    let handle = deciders(1);
    for accepted in [
        json!({}),
        json!({ "deciders": { "prefill": "by-prefix" } }),
        json!({ "deciders": { "encode": "by-media" } }),
        json!({ "deciders": { "prefill": "by-media", "encode": "by-prefix" } }),
        json!({ "profiles": { "decode": "d", "prefill": "p", "encode": "e" } }),
        json!({ "stageOrder": "PREFILL_FIRST" }),
        json!({ "stageOrder": "PrefillFirst", "deciders": { "encode": "by-media" } }),
        json!({ "stageOrder": "decode", "decodeProfile": "d", "deciderPluginName": "by-prefix" }),
        json!({ "prefillDeciderPluginName": "by-prefix", "deciderPluginName": "nobody" }),
    ] {
        assert!(disagg(&handle, accepted.clone()).is_ok(), "{accepted}");
    }
    for (refused, reason) in [
        (json!({ "deciders": { "prefill": "nobody" } }), "not found"),
        (json!({ "deciders": { "encode": "scorer" } }), "not a decider"),
        (json!({ "deciderPluginName": "nobody" }), "not found"),
        (json!({ "stageOrder": "INVALID_ORDER" }), "stageOrder"),
        (json!({ "stageOrder": "prefill-first", "deciders": { "prefill": "by-prefix" } }), "prefill-first"),
        (json!({ "stageOrder": "prefill-first", "deciderPluginName": "by-prefix" }), "prefill-first"),
        (json!({ "deciders": {}, "decodeProfile": "d" }), "decodeProfile"),
        (json!({ "primaryPort": 8000 }), "primaryPort"),
        (json!({ "prefixPluginType": "x" }), "prefixPluginType"),
    ] {
        let error = disagg(&handle, refused.clone()).expect_err(&refused.to_string()).to_string();
        assert!(error.contains(reason), "{refused}: {error}");
    }
}

/// Scheduling spec 7.4 and 7.5, ProcessResults.
#[test]
fn without_a_decode_worker_there_is_no_decision() {
    let handle = deciders(1);
    let pd = json!({ "deciderPluginName": "by-prefix" });
    for instance in
        [disagg(&handle, json!({})).unwrap(), build_in(&handle, "pd-profile-handler", pd).unwrap()]
    {
        let handler = instance.roles.profile_handler.unwrap();
        let none = Err("failed to find available decode workers".to_owned());
        assert_eq!(process(&*handler, failed(&["decode"])), none);
        assert_eq!(process(&*handler, failed(&["prefill", "encode"])), none);
        let pool = pool(0);
        let ran = |name: &str| (name.into(), Some(chose(&pool, &[0])));
        let results = [ran("prefill"), ("encode".into(), None), ran("decode")];
        let mut request = InferenceRequest::default();
        let decided = handler.process_results(&mut request, results.into_iter().collect()).unwrap();
        assert_eq!(&*decided.primary, "decode");
        assert_eq!(decided.profiles.keys().cloned().collect::<Vec<_>>(), names(&["decode", "prefill"]));
        assert_eq!(decided.primary_targets()[0].scored.map(|s| s.score), Some(1.0), "scores stay");
    }
}

/// Scheduling spec 7.5. With a third profile it asks for prefill again; the scheduler ends that.
#[test]
fn the_old_handler_decides_on_prefill_once_decode_has_run() {
    let handle = deciders(4);
    let pd = |parameters| build_in(&handle, "pd-profile-handler", parameters);
    let handler = pd(json!({ "deciderPluginName": "by-prefix" })).unwrap().roles.profile_handler.unwrap();
    let two = &["prefill", "decode"][..];
    for (cached, profiles, before, want) in [
        (2, two, &[][..], &["decode"][..]),
        (2, two, &[("decode", Ran)], &["prefill"]),
        (5, two, &[("decode", Ran)], &[]),
        (2, two, &[("decode", Failed)], &[]),
        (2, two, &[("decode", Ran), ("prefill", Ran)], &[]),
        (2, ALL, &[("decode", Ran), ("prefill", Ran)], &["prefill"]),
    ] {
        let next = pick(&handler, prompt(8, &[]), cached, profiles, before).0;
        assert_eq!(next, names(want), "{cached} {profiles:?} {before:?}");
    }
    for (refused, reason) in [
        (json!({}), "prefix-based-pd-decider"),
        (json!({ "deciderPluginName": "" }), "not found"),
        (json!({ "deciderPluginName": "scorer" }), "not a decider"),
        (json!({ "deciderPluginName": "by-prefix", "primaryPort": 70000 }), "primaryPort"),
        (json!({ "deciderPluginName": "by-prefix", "primaryPort": 8080.5 }), "primaryPort"),
    ] {
        let error = pd(refused.clone()).expect_err(&refused.to_string()).to_string();
        assert!(error.contains(reason), "{refused}: {error}");
    }
}
