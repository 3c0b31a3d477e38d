use serde_json::{Value, json};

use crate::attributes::PrefixCacheMatchInfo;
use crate::data_key::{resolve, well_known};
use crate::request::InferenceRequest;
use crate::scheduling::testing::{assert_refused, build, candidates, labelled, prompt, target, with};

/// Asks a decider about an endpoint that caches so much of the prompt; `None` = there is no endpoint.
fn says(
    (plugin_type, parameters): (&str, &Value),
    request: &InferenceRequest,
    cached: Option<Option<PrefixCacheMatchInfo>>,
) -> bool {
    let decider = build(plugin_type, parameters.clone()).unwrap().roles.decider.expect("it is a decider");
    let matches = resolve(well_known::PREFIX_CACHE_MATCH_INFO, "");
    let all = candidates([with(labelled("decode", &[]), &matches, cached.clone().flatten())]);
    decider.disaggregate(request, &all, cached.is_some().then(|| target(&all, 0)).as_ref())
}

/// Scheduling spec 7.7, the list under T: ten tokens, blocks of one.
#[test]
fn prefill_moves_away_where_enough_of_the_prompt_is_not_cached() {
    let cached = |blocks| Some(Some(PrefixCacheMatchInfo::new(blocks, 10, 1)));
    for (non_cached, prompt_tokens, cached, want) in [
        (0, 0, cached(5), false),
        (5, 20, cached(0), false),
        (20, 0, cached(0), false),
        (5, 10, cached(5), true),
        (5, 0, cached(8), false),
        (5, 0, cached(5), true),
        (3, 0, cached(2), true),
        (1, 0, cached(10), false),
        (5, 0, cached(0), true),
        (1, 0, cached(50), false),
        (5, 0, None, false),
        (5, 0, Some(None), false),
    ] {
        let parameters = json!({ "nonCachedTokens": non_cached, "promptTokens": prompt_tokens });
        let got = says(("prefix-based-pd-decider", &parameters), &prompt(10, &[]), cached.clone());
        assert_eq!(got, want, "{parameters} {cached:?}");
    }
    let one = json!({ "nonCachedTokens": 1 });
    assert!(!says(("prefix-based-pd-decider", &one), &InferenceRequest::default(), cached(0)), "no body");
    assert_refused(
        "prefix-based-pd-decider",
        &[
            (json!({ "nonCachedTokens": -1 }), "nonCachedTokens"),
            (json!({ "promptTokens": -1 }), "promptTokens"),
        ],
    );
}

/// Scheduling spec 7.7, the case of a tier in RAM: blocks count whole, whatever weight their tier has.
#[test]
fn blocks_count_whole_whatever_their_tier() {
    let threshold = json!({ "nonCachedTokens": 512 });
    let weighted = PrefixCacheMatchInfo::new(192, 256, 16);
    let unweighted = PrefixCacheMatchInfo { cached_block_count: 240, ..weighted.clone() };
    for (info, want) in [(unweighted, false), (weighted, true)] {
        assert_eq!(says(("prefix-based-pd-decider", &threshold), &prompt(4096, &[]), Some(Some(info))), want);
    }
}

/// Scheduling spec 7.7: the others.
#[test]
fn encode_moves_away_for_media_and_always_is_always() {
    let multimodal = ("always-disagg-multimodal-decider", &json!(null));
    for modality in ["image", "video", "audio"] {
        assert!(says(multimodal, &prompt(3, &[modality]), None), "{modality}");
    }
    assert!(!says(multimodal, &prompt(3, &[]), Some(None)));
    assert!(!says(multimodal, &InferenceRequest::default(), None));
    assert!(says(("always-disagg-pd-decider", &json!({ "any": 1 })), &InferenceRequest::default(), None));
}
