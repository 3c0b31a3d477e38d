use serde_json::{Value, json};

use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidates;
use crate::data_key::{resolve, well_known};
use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use crate::plugin::Instance;
use crate::request::InferenceRequest;
use crate::scheduling::testing::{build, candidates, decision, labelled, scores_for};

const PROFILE: &str = "default";

fn scorer(parameters: Value) -> Instance {
    build("no-hit-lru-scorer", parameters).expect("the parameters are accepted")
}

fn pool(names: &[&str]) -> Candidates {
    candidates(names.iter().map(|name| labelled(name, &[])))
}

/// The pool with one candidate whose cache holds blocks of the prompt.
fn warm(mut pool: Candidates) -> Candidates {
    let mut matches = vec![None; pool.len()];
    matches[0] = Some(PrefixCacheMatchInfo::new(1, 10, 16));
    pool.put(resolve(well_known::PREFIX_CACHE_MATCH_INFO, ""), matches);
    pool
}

fn score(scorer: &Instance, pool: &Candidates) -> Vec<f64> {
    let request = InferenceRequest { request_id: "r1".to_owned(), ..Default::default() };
    scores_for(scorer, &request, pool).into_iter().map(Option::unwrap).collect()
}

/// Tells the scorer where the request went: the candidates that each profile chose.
fn sent(scorer: &Instance, pool: &Candidates, profiles: &[(&str, &[u32])]) {
    let mut request = InferenceRequest { request_id: "r1".to_owned(), ..Default::default() };
    let hook = scorer.roles.pre_request.as_ref().expect("it is told of decisions");
    hook.pre_request(&mut request, &decision(pool, profiles), pool).expect("nothing fails");
}

/// Scheduling spec 5.15, the list under T.
#[test]
fn cold_requests_go_where_the_last_cold_one_is_longest_ago() {
    let (scorer, pool) = (scorer(json!({})), pool(&["a", "b", "c"]));
    assert_eq!(score(&scorer, &pool), [1.0, 0.5, 0.0]);
    sent(&scorer, &pool, &[(PROFILE, &[0])]);
    assert_eq!(score(&scorer, &pool), [0.0, 1.0, 0.5]);

    let hot = warm(pool.clone());
    assert_eq!(score(&scorer, &hot), [0.5; 3]);
    sent(&scorer, &hot, &[(PROFILE, &[1])]);
    assert_eq!(score(&scorer, &pool), [0.0, 1.0, 0.5], "a warm request changes nothing");

    sent(&scorer, &pool, &[(PROFILE, &[1])]);
    assert_eq!(score(&scorer, &pool), [0.5, 0.0, 1.0]);
    sent(&scorer, &pool, &[(PROFILE, &[2])]);
    assert_eq!(score(&scorer, &pool), [1.0, 0.5, 0.0]);
}

/// Scheduling spec 5.15.
#[test]
fn pools_of_one_and_of_none_are_scored() {
    let scorer = scorer(json!({ "prefixPluginType": "x", "prefixPluginName": "y" }));
    assert_eq!(score(&scorer, &pool(&["a"])), [1.0]);
    assert!(score(&scorer, &pool(&[])).is_empty());
}

/// Scheduling spec 5.15: prefill and decode share one list; the name `prefill` is fixed.
#[test]
fn the_prefill_profile_counts_beside_the_primary_one() {
    let (scorer, all) = (scorer(json!({})), pool(&["prefill-a", "prefill-b", "decode-a", "decode-b"]));
    score(&scorer, &all);
    sent(&scorer, &all, &[("decode", &[2]), ("prefill", &[0]), ("encode", &[3])]);
    let [prefill_a, prefill_b] = score(&scorer, &pool(&["prefill-a", "prefill-b"]))[..] else {
        panic!("two")
    };
    assert!(prefill_b > prefill_a);
    let [decode_a, decode_b] = score(&scorer, &pool(&["decode-a", "decode-b"]))[..] else { panic!("two") };
    assert!(decode_b > decode_a);
}

/// Scheduling spec 5.15: a result without profiles keeps the record, the hook after it still counts.
#[test]
fn an_empty_result_is_none() {
    let (scorer, pool) = (scorer(json!({})), pool(&["a", "b"]));
    assert_eq!(score(&scorer, &pool), [1.0, 0.0]);
    sent(&scorer, &pool, &[]);
    sent(&scorer, &pool, &[(PROFILE, &[0])]);
    assert_eq!(score(&scorer, &pool), [0.0, 1.0]);
    sent(&scorer, &pool, &[(PROFILE, &[])]);
    sent(&scorer, &pool, &[(PROFILE, &[1])]);
    assert_eq!(score(&scorer, &pool), [0.0, 1.0], "the record went with the result before");
}

/// Scheduling spec 5.15, DumpState and capacity.
#[test]
fn a_dump_lists_the_oldest_hundred() {
    let endpoint = |at: usize| {
        let metadata =
            EndpointMetadata { id: EndpointId::new("default", format!("pod-{at:03}")), ..Default::default() };
        Endpoint { metadata: metadata.into(), ..Default::default() }
    };
    let pool = candidates((0..105).map(endpoint));
    for (size, total, first, last) in
        [(0, 105, "default/pod-000", "default/pod-099"), (3, 3, "default/pod-102", "default/pod-104")]
    {
        let scorer = scorer(json!({ "lruSize": size }));
        for at in 0..105 {
            score(&scorer, &pool);
            sent(&scorer, &pool, &[(PROFILE, &[at])]);
        }
        let dump = scorer.roles.state_dumper.as_ref().expect("it shows its state").dump_state();
        let listed = dump["endpoints"].as_array().expect("a list");
        assert_eq!((&dump["totalEndpoints"], &dump["maxEndpoints"]), (&json!(total), &json!(100)));
        assert_eq!(listed.len(), total.min(100));
        assert_eq!((&listed[0], &listed[listed.len() - 1]), (&json!(first), &json!(last)));
    }
}
