//! Whole schedules (scheduling spec 13): a handler, its profiles and what comes of them.

use std::rc::Rc;

use serde_json::{Value, json};

use super::*;
use crate::attributes::PrefixCacheMatchInfo;
use crate::data_key::{resolve, well_known};
use crate::endpoint::{Endpoint, Metrics};
use crate::plugin::Handle;
use crate::scheduling::testing::{build_in, endpoint, handle, labelled, prompt, with};

/// A profile: its name, and plugin types with their weights.
type Plan<'a> = (&'a str, &'a [(&'a str, f64)]);

fn profile((name, plugins): &Plan<'_>) -> Profile {
    let mut builder = Profile::builder(name);
    for (plugin_type, weight) in *plugins {
        builder.add(&build(plugin_type, json!({})).unwrap(), Some(*weight)).unwrap();
    }
    builder.build(|| build("max-score-picker", json!({})).unwrap().roles.picker.unwrap())
}

fn scheduler_of(handle: &Handle, (plugin_type, parameters): (&str, Value), plans: &[Plan<'_>]) -> Scheduler {
    let handler = build_in(handle, plugin_type, parameters).unwrap().roles.profile_handler.unwrap();
    Scheduler::new(handler, plans.iter().map(profile).collect())
}

/// Returns where each profile sends the request, `name=endpoint`, or the error.
fn decide(
    scheduler: &Scheduler,
    mut request: InferenceRequest,
    all: &[Endpoint],
) -> Result<Vec<String>, String> {
    let all = candidates(all.iter().cloned());
    let result = scheduler.schedule(&mut request, &all, Instant::default(), None);
    let chosen = |result: &SchedulingResult, name: &str| {
        let targets = result.profile_targets(name);
        targets.iter().map(|t| format!("{name}={}", t.endpoint.metadata.id.name)).collect::<Vec<_>>()
    };
    let result = result.map_err(|error| error.to_string())?;
    Ok(result.profiles.keys().flat_map(|name| chosen(&result, name)).collect())
}

/// Scheduling spec 13, fact 1.
#[test]
fn four_scorers_add_up() {
    let pod = |name: &str, waiting_queue_size, kv_cache_usage_percent, active: &[&str]| {
        let active_models = Rc::new(active.iter().map(|name| ((*name).to_owned(), 1)).collect());
        let metrics =
            Metrics { waiting_queue_size, kv_cache_usage_percent, active_models, ..Metrics::default() };
        endpoint(name, Metrics { max_active_models: 2, ..metrics })
    };
    let scorers =
        ["kv-cache-utilization-scorer", "queue-scorer", "prefix-cache-scorer", "lora-affinity-scorer"];
    let plan = scorers.map(|scorer| (scorer, 1.0));
    let scheduler = scheduler_of(&handle(), ("single-profile-handler", json!({})), &[("default", &plan)]);
    let all = candidates([
        pod("pod1", 0, 0.2, &["foo", "bar"]),
        pod("pod2", 0, 0.2, &["foo", "critical"]),
        pod("pod3", 10, 0.8, &["foo"]),
    ]);
    let mut request = InferenceRequest { target_model: "critical".to_owned(), ..Default::default() };
    let result = scheduler.schedule(&mut request, &all, Instant::default(), None).unwrap();
    assert_eq!(result.primary_targets()[0].endpoint.metadata.id.name, "pod2");
    let scored = result.profiles["default"].as_ref().expect("it ran").scored.iter();
    let mut totals: Vec<(usize, f64)> = scored.map(|s| (s.candidate.index(), s.score)).collect();
    totals.sort_by_key(|(at, _)| *at);
    for ((at, got), want) in totals.iter().zip([1.8, 2.8, 1.0]) {
        assert!((got - want).abs() < 1e-12, "pod{}: {got}, expected {want}", at + 1);
    }
    let error = scheduler.schedule(&mut request, &candidates([]), Instant::default(), None).unwrap_err();
    assert_eq!(error.to_string(), "failed to run scheduler profile 'default'");
}

/// The endpoints of fact 2, which cache so many blocks of one token.
fn stages(names: &[&str], cached: i64) -> Vec<Endpoint> {
    let stage = |name: &&str| {
        let (role, waiting) = match *name {
            "e1" => (Some("prefill"), 0),
            "e2" => (Some("decode"), 0),
            _ => (None, 2),
        };
        let labels: Vec<_> = role.map(|role| ("llm-d.ai/role", role)).into_iter().collect();
        let metrics = Metrics { waiting_queue_size: waiting, ..Metrics::default() };
        let endpoint = Endpoint { metrics, ..labelled(name, &labels) };
        let matched = PrefixCacheMatchInfo::new(cached, 10, 1);
        with(endpoint, &resolve(well_known::PREFIX_CACHE_MATCH_INFO, ""), Some(matched))
    };
    names.iter().map(stage).collect()
}

const PREFILL: Plan<'_> = ("prefill", &[("prefill-filter", 1.0), ("prefix-cache-scorer", 50.0)]);
const DECODE: Plan<'_> =
    ("decode", &[("decode-filter", 1.0), ("load-aware-scorer", 1.0), ("prefix-cache-scorer", 0.0)]);

/// Scheduling spec 13, fact 2: the table, with 11 characters = 2 tokens, 5 = 1, 40 = 10; by both handlers.
#[test]
fn prefill_goes_elsewhere_the_first_time_only() {
    let handle = handle();
    let decider = build_in(&handle, "prefix-based-pd-decider", json!({ "nonCachedTokens": 2 })).unwrap();
    handle.add("prefix-based-pd-decider", decider);
    let nested = json!({ "deciders": { "prefill": "prefix-based-pd-decider" } });
    for handler in [("disagg-profile-handler", nested), ("pd-profile-handler", json!({}))] {
        let scheduler = scheduler_of(&handle, handler, &[PREFILL, DECODE]);
        for (tokens, names, first, second) in [
            (2, &[][..], &[][..], &[][..]),
            (2, &["e2"], &["decode=e2"], &["decode=e2"]),
            (2, &["e1"], &[], &[]),
            (2, &["e1", "e2"], &["decode=e2", "prefill=e1"], &["decode=e2"]),
            (1, &["e1", "e2"], &["decode=e2"], &["decode=e2"]),
            (2, &["e1", "e3"], &["decode=e3", "prefill=e1"], &["decode=e3"]),
            (10, &["e1", "e2", "e3"], &["decode=e2", "prefill=e1"], &["decode=e2"]),
        ] {
            for (cached, want) in [(0, first), (tokens, second)] {
                let decided = decide(&scheduler, prompt(tokens, &[]), &stages(names, cached as i64));
                let want = match want {
                    [] => Err("failed to find available decode workers".to_owned()),
                    want => Ok(want.iter().map(|&text| text.to_owned()).collect()),
                };
                assert_eq!(decided, want, "{tokens} tokens, {names:?}, {cached} cached");
            }
        }
    }
}

/// Scheduling spec 13, fact 3.
#[test]
fn prefill_first_sends_to_both_without_deciders() {
    let handler = ("disagg-profile-handler", json!({ "stageOrder": "prefill-first" }));
    let scheduler = scheduler_of(&handle(), handler, &[PREFILL, DECODE]);
    let all = candidates(stages(&["e1", "e2"], 0));
    let result = scheduler.schedule(&mut prompt(2, &[]), &all, Instant::default(), None).unwrap();
    let name = |profile| &result.profile_targets(profile)[0].endpoint.metadata.id.name;
    assert_eq!((name("prefill").as_str(), name("decode").as_str(), &*result.primary), ("e1", "e2", "decode"));
}

/// Scheduling spec 7.5, the surprise: three profiles and a decider that always says yes come to an end.
#[test]
fn a_handler_that_asks_again_for_what_has_run_is_not_asked_for_ever() {
    let handle = handle();
    handle.add("always", build_in(&handle, "always-disagg-pd-decider", json!({})).unwrap());
    let handler = ("pd-profile-handler", json!({ "deciderPluginName": "always" }));
    let scheduler = scheduler_of(&handle, handler, &[PREFILL, DECODE, ("extra", &[])]);
    let decided = decide(&scheduler, prompt(2, &[]), &stages(&["e1", "e2"], 0));
    assert_eq!(decided, Ok(vec!["decode=e2".to_owned(), "prefill=e1".to_owned()]));
}
