//! What holds for every filter, scorer and picker, whatever the pool looks like.

mod pool;

use std::collections::BTreeSet;

use executor::{Instant, Real, Rt, Sim};
use proptest::prelude::*;
use serde_json::{Value, json};

use self::pool::{Asked, Drawn, pool, pools};
use super::testing::{context, scored};
use super::{Profile, Scored, scheduler::Scheduler, types};
use crate::admission;
use crate::candidates::{Candidate, Candidates};
use crate::plugin::{Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;

/// Types whose instances need others, and are neither filter nor scorer nor picker.
const NOT_ALONE: [&str; 3] =
    ["data-parallel-profile-handler", "disagg-profile-handler", "pd-profile-handler"];

/// Parameters with which a type is built: all that it needs, and what makes it act in another way.
pub(super) fn parameters(plugin_type: &str) -> Vec<Value> {
    match plugin_type {
        "active-request-scorer" => vec![json!({}), json!({ "idleThreshold": 5, "maxBusyScore": 0.5 })],
        "by-label" => vec![json!({ "label": "llm-d.ai/role", "validValues": ["decode"] })],
        "by-label-selector" | "label-selector-filter" => vec![json!({ "matchLabels": { "zone": "a" } })],
        "concurrency-detector" => vec![
            json!({ "maxConcurrency": 20 }),
            json!({ "concurrencyMode": "tokens", "maxTokenConcurrency": 900_000 }),
        ],
        "context-length-aware" => vec![json!({}), json!({ "enableFiltering": true })],
        "endpoint-attribute-filter" => vec![json!({
            "attribute": "load",
            "algorithm": { "type": "threshold", "threshold": { "operator": "LessThan", "value": 5.0 } },
        })],
        "endpoint-attribute-scorer" => {
            let fixed = json!({ "fixedRange": { "min": -5, "max": 5 } });
            let scorer = |algorithm| json!({ "attributeKey": "load", "algorithm": algorithm });
            vec![
                scorer(json!({ "type": "linear_lower_is_better" })),
                scorer(json!({ "type": "linear_higher_is_better", "normalization": fixed })),
            ]
        }
        "header-label-affinity-scorer" => vec![json!({ "headerName": "x-zone", "labelKey": "zone" })],
        "latency-scorer" => vec![json!({}), json!({ "headroomSelectionStrategy": "most", "ttftWeight": 0 })],
        "prefix-cache-affinity-filter" => vec![
            json!({ "affinityThreshold": 0.5 }),
            json!({ "affinityThreshold": 0.3, "ttftSource": "latencyPredictor", "maxTTFTPenaltyMs": 100 }),
            json!({ "explorationProbability": 0.5 }),
        ],
        "prefix-cache-scorer" => {
            vec![json!({}), json!({ "matchLengthWeight": 0.7, "matchLengthScaleTokens": 500 })]
        }
        "slo-headroom-tier-filter" => vec![json!({ "epsilonExploreNeg": 0.5 })],
        "topology-affinity-filter" => {
            vec![json!({ "minAffinity": "rack" }), json!({ "minAffinity": "zone" })]
        }
        "utilization-detector" => vec![json!({ "queueDepthThreshold": 150 })],
        "utilization-filter" => {
            let condition = json!([{ "metric": "kv-cache-utilization", "maxValue": 0.5 }]);
            vec![
                json!({ "conditions": condition }),
                json!({ "conditions": condition, "fallbackOnEmpty": true }),
            ]
        }
        _ => vec![json!({})],
    }
}

fn build(rt: &Rt, plugin_type: &str, parameters: Value) -> Instance {
    let mut types = types().chain(admission::TYPES.iter().copied());
    let (_, factory) = types.find(|(t, _)| *t == plugin_type).expect("the type is built");
    let built = factory(plugin_type, &Parameters::new(parameters), &Handle::new(rt.clone()));
    built.unwrap_or_else(|error| panic!("{plugin_type}: {error}"))
}

/// Returns every plugin with a role, each type in all its ways and each instance new.
fn all(rt: &Rt, has: impl Fn(&Instance) -> bool) -> Vec<(&'static str, Instance)> {
    let types = types().chain(admission::TYPES.iter().copied()).map(|(name, _)| name);
    let types = types.filter(|name| !NOT_ALONE.contains(name));
    let ways = types.flat_map(|name| parameters(name).into_iter().map(move |parameters| (name, parameters)));
    let built = ways.map(|(name, parameters)| (name, build(rt, name, parameters)));
    built.filter(|(_, instance)| has(instance)).collect()
}

fn scorers(rt: &Rt) -> Vec<(&'static str, Instance)> {
    all(rt, |instance| instance.roles.scorer.is_some())
}

fn filters(rt: &Rt) -> Vec<(&'static str, Instance)> {
    all(rt, |instance| instance.roles.filter.is_some())
}

/// Returns what of an instance scores, without what filters.
fn only_scorer(instance: &Instance) -> Instance {
    let roles = Roles { scorer: instance.roles.scorer.clone(), ..Roles::default() };
    Instance { roles, ..instance.clone() }
}

fn on_tokio<T>(body: impl FnOnce(&Rt) -> T) -> T {
    let runtime = Real::builder().current_thread().seed(7).build().expect("the runtime starts");
    runtime.run(async |rt| body(&rt))
}

/// Returns which of the candidates a filter keeps.
fn kept(
    instance: &Instance,
    request: &InferenceRequest,
    pool: &Candidates,
    of: &[Candidate],
) -> Vec<Candidate> {
    let mut survivors = of.to_vec();
    let filter = instance.roles.filter.as_ref().expect("it is a filter");
    filter.filter(&context(request, pool), &mut survivors);
    survivors
}

/// Returns the raw scores of all candidates.
fn raw(instance: &Instance, request: &InferenceRequest, pool: &Candidates) -> Vec<Option<f64>> {
    let survivors: Vec<Candidate> = pool.all().collect();
    let mut scores = vec![None; survivors.len()];
    let scorer = instance.roles.scorer.as_ref().expect("it is a scorer");
    scorer.score(&context(request, pool), &survivors, &mut scores);
    scores
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scheduling spec 4: a filter only drops. Two put what they keep into another order: the header's (4.10), and
    /// endpoints without a prediction behind the others (4.7).
    #[test]
    fn no_filter_invents_or_repeats_an_endpoint((drawn, order, asked) in pools()) {
        on_tokio(|rt| {
            let (pool, request) = (pool(&drawn, &order), asked.request());
            // Only every other endpoint is left: what an earlier filter dropped must not come back.
            let before: Vec<Candidate> = pool.all().step_by(2).collect();
            for (name, instance) in filters(rt) {
                let after = kept(&instance, &request, &pool, &before);
                prop_assert!(after.iter().all(|kept| before.contains(kept)), "{name} invents: {after:?}");
                prop_assert_eq!(after.iter().collect::<BTreeSet<_>>().len(), after.len(), "{} repeats", name);
                if !["header-based-testing-filter", "slo-headroom-tier-filter"].contains(&name) {
                    prop_assert!(after.is_sorted(), "{name} reorders: {after:?}");
                }
            }
            Ok(())
        })?;
    }

    /// Scheduling spec 4: whether an endpoint stays does not depend on its place in the list. Filters that draw
    /// do it once a call, from a stream of their name: the same draw meets both orders.
    #[test]
    fn permuting_the_candidates_keeps_the_same_ones((drawn, order, asked) in pools()) {
        on_tokio(|rt| {
            let straight: Vec<usize> = (0..drawn.len()).collect();
            let request = asked.request();
            let names = |instance: &Instance, order: &[usize]| {
                let pool = pool(&drawn, order);
                let all: Vec<Candidate> = pool.all().collect();
                let kept = kept(instance, &request, &pool, &all);
                kept.iter().map(|kept| order[kept.index()]).collect::<BTreeSet<usize>>()
            };
            for ((name, one), (_, other)) in filters(rt).into_iter().zip(filters(rt)) {
                prop_assert_eq!(names(&one, &straight), names(&other, &order), "{}", name);
            }
            Ok(())
        })?;
    }

    /// Scheduling spec 5: raw scores are in 0..=1 where what they are made of is; the best of `latency-scorer` is
    /// 1.01 (5.12). Only a scraped value that is not finite can make its endpoint's score no number (5.9).
    #[test]
    fn scores_are_in_range((drawn, order, asked) in pools()) {
        on_tokio(|rt| {
            let (pool, request) = (pool(&drawn, &order), asked.request());
            for (name, instance) in scorers(rt) {
                let most = if name == "latency-scorer" { 1.01 } else { 1.0 };
                for (score, &at) in raw(&instance, &request, &pool).into_iter().zip(&order) {
                    let odd = drawn[at].load.is_some_and(|load| !load.is_finite());
                    let odd = odd && name == "endpoint-attribute-scorer";
                    let is_in_range = score.is_none_or(|score| (0.0..=most).contains(&score) || odd && score.is_nan());
                    prop_assert!(is_in_range, "{name} e{at}: {score:?}");
                }
            }
            Ok(())
        })?;
    }

    /// Scheduling spec 3.3: whatever scorers answer, a total lies between zero and the sum of the weights.
    #[test]
    fn totals_lie_between_zero_and_the_sum_of_the_weights((drawn, order, asked) in pools()) {
        on_tokio(|rt| {
            let (pool, request) = (pool(&drawn, &order), asked.request());
            let scorers = scorers(rt);
            let mut builder = Profile::builder("all");
            for (at, (_, instance)) in scorers.iter().enumerate() {
                builder.add(&only_scorer(instance), Some(at as f64)).expect("no pickers here");
            }
            let picker = build(rt, "max-score-picker", json!({})).roles.picker.expect("it is a picker");
            let Ok(result) = builder.build(|| picker).run(&context(&request, &pool), None) else {
                prop_assert!(pool.is_empty(), "no result for {} endpoints", pool.len());
                return Ok(());
            };
            let most = (0..scorers.len()).sum::<usize>() as f64;
            prop_assert_eq!(result.scored.len(), pool.len());
            for scored in &result.scored {
                let odd = drawn[order[scored.candidate.index()]].load.is_some_and(|load| !load.is_finite());
                let in_range = (0.0..=most).contains(&scored.score);
                prop_assert!(in_range || odd && scored.score.is_nan(), "{}", scored.score);
            }
            Ok(())
        })?;
    }

    /// Scheduling spec 5: a score belongs to the endpoint, not to its place in the list. `no-hit-lru-scorer` ranks
    /// endpoints that were never used by their place (5.15).
    #[test]
    fn permuting_the_candidates_permutes_the_scores((drawn, order, asked) in pools()) {
        on_tokio(|rt| {
            let straight: Vec<usize> = (0..drawn.len()).collect();
            let (one, other, request) = (pool(&drawn, &straight), pool(&drawn, &order), asked.request());
            for (name, instance) in scorers(rt) {
                if name == "no-hit-lru-scorer" {
                    continue;
                }
                let (first, second) = (raw(&instance, &request, &one), raw(&instance, &request, &other));
                for (place, &at) in order.iter().enumerate() {
                    let (want, got) = (first[at].map(f64::to_bits), second[place].map(f64::to_bits));
                    prop_assert_eq!(want, got, "{} e{}: {:?} {:?}", name, at, first[at], second[place]);
                }
            }
            Ok(())
        })?;
    }

    /// Scheduling spec 6: a picker reorders and counts, whatever the totals are.
    #[test]
    fn a_picker_picks_as_many_as_it_may_and_loses_none(
        totals in proptest::collection::vec(prop_oneof![any::<f64>(), 0.0..3.0_f64, Just(f64::NAN)], 1..20),
        limit in -2..25_i64,
    ) {
        on_tokio(|rt| {
            for picker in PICKERS {
                let instance = build(rt, picker, json!({ "maxNumOfEndpoints": limit }));
                let mut list: Vec<Scored> = scored(&totals);
                let picked = instance.roles.picker.expect("it is a picker").pick(&mut list);
                prop_assert_eq!(picked, (limit.max(1) as usize).min(totals.len()), "{}", picker);
                list.sort_by_key(|scored| scored.candidate);
                let bits = |list: &[Scored]| list.iter().map(|s| s.score.to_bits()).collect::<Vec<_>>();
                prop_assert_eq!(bits(&list), bits(&scored(&totals)), "{}", picker);
            }
            Ok(())
        })?;
    }

    /// Architecture 4: decisions are pure in (request, candidates, now, stream), so the host cannot matter.
    #[test]
    fn both_hosts_decide_alike((drawn, order, asked) in pools(), seed in any::<u64>()) {
        let runtime = Real::builder().current_thread().seed(seed).build().expect("the runtime starts");
        let real = runtime.run(async |rt| decisions(&rt, &drawn, &order, &asked));
        let simulated = Sim::builder().seed(seed).build();
        let simulated = simulated.run(async move |rt| decisions(&rt, &drawn, &order, &asked));
        prop_assert_eq!(Some(real), simulated.output);
    }
}

const PICKERS: [&str; 3] = ["max-score-picker", "random-picker", "weighted-random-picker"];

/// Returns what five decisions in a row come to, each filter by itself before all scorers, each picker in turn.
fn decisions(rt: &Rt, drawn: &[Drawn], order: &[usize], asked: &Asked) -> Vec<Option<String>> {
    let (pool, scorers) = (pool(drawn, order), scorers(rt));
    let mut decided = Vec::new();
    for (at, (_, filter)) in filters(rt).iter().enumerate() {
        let mut builder = Profile::builder("default");
        let roles = Roles { filter: filter.roles.filter.clone(), ..Roles::default() };
        builder.add(&Instance { roles, ..filter.clone() }, None).expect("no pickers here");
        for (_, scorer) in &scorers {
            builder.add(&only_scorer(scorer), Some(1.0)).expect("no pickers here");
        }
        let picker = build(rt, PICKERS[at % PICKERS.len()], json!({})).roles.picker.expect("it is a picker");
        let handler = build(rt, "single-profile-handler", json!({})).roles.profile_handler;
        let scheduler = Scheduler::new(handler.expect("it is a handler"), vec![builder.build(|| picker)]);
        for _ in 0..5 {
            let result = scheduler.schedule(&mut asked.request(), &pool, Instant::default(), None).ok();
            let first = |target: &super::Target| {
                let score = target.scored.expect("nobody copies").score.to_bits();
                format!("{} {score:x}", target.endpoint.metadata.id)
            };
            decided.push(result.and_then(|result| result.primary_targets().first().map(first)));
        }
    }
    decided
}
