//! What holds for every filter, scorer and picker, whatever the pool looks like.

use std::collections::BTreeSet;
use std::rc::Rc;

use executor::{Instant, Real, Rt, Sim};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::testing::{candidates, context};
use super::{Profile, scheduler::Scheduler, types};
use crate::attributes::{
    InFlightLoad, LatencyPredictionInfo, PrefixCacheMatchInfo, ScalarMetricValue, Topology,
    UncachedRequestTokens,
};
use crate::candidates::{Candidate, Candidates};
use crate::data_key::{DataKey, resolve, well_known};
use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata, Metrics};
use crate::plugin::{Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;

/// Parameters with which a type that needs some can be built.
fn parameters(plugin_type: &str) -> Value {
    match plugin_type {
        "by-label" => json!({ "label": "llm-d.ai/role", "validValues": ["decode"] }),
        "by-label-selector" | "label-selector-filter" => json!({ "matchLabels": { "zone": "a" } }),
        "context-length-aware" => json!({ "label": "range", "enableFiltering": true }),
        "endpoint-attribute-filter" => json!({
            "attribute": "load",
            "algorithm": { "type": "threshold", "threshold": { "operator": "LessThan", "value": 5.0 } },
        }),
        "endpoint-attribute-scorer" => {
            json!({ "attributeKey": "load", "algorithm": { "type": "linear_lower_is_better" } })
        }
        "header-label-affinity-scorer" => json!({ "headerName": "x-zone", "labelKey": "zone" }),
        "utilization-filter" => {
            json!({ "conditions": [{ "metric": "kv-cache-utilization", "maxValue": 0.5 }] })
        }
        _ => json!({}),
    }
}

fn build(rt: &Rt, plugin_type: &str) -> Instance {
    let (_, factory) = types().find(|(t, _)| *t == plugin_type).expect("the type is built");
    let built = factory(plugin_type, &Parameters::new(parameters(plugin_type)), &Handle::new(rt.clone()));
    built.unwrap_or_else(|error| panic!("{plugin_type}: {error}"))
}

/// Returns every scheduling plugin that has a role, each built anew.
fn all(rt: &Rt, has: impl Fn(&Instance) -> bool) -> Vec<(&'static str, Instance)> {
    let not_alone = ["data-parallel-profile-handler", "disagg-profile-handler", "pd-profile-handler"];
    let names = types().map(|(name, _)| name).filter(|name| !not_alone.contains(name));
    names.map(|name| (name, build(rt, name))).filter(|(_, instance)| has(instance)).collect()
}

fn on_tokio<T>(body: impl FnOnce(&Rt) -> T) -> T {
    let runtime = Real::builder().current_thread().seed(7).build().expect("the runtime starts");
    runtime.run(async |rt| body(&rt))
}

/// What is drawn of an endpoint.
#[derive(Clone, Debug)]
struct Drawn {
    waiting: i64,
    running: i64,
    kv: f64,
    role: Option<&'static str>,
    zone: &'static str,
    in_flight: Option<(i64, i64)>,
    cached_blocks: Option<i64>,
    headroom: Option<(f64, f64)>,
    load: Option<f64>,
}

prop_compose! {
    fn drawn()(
        (waiting, running, kv) in (0..300_i64, 0..300_i64, prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64]),
        role in prop_oneof![Just(None), Just(Some("decode")), Just(Some("prefill")), Just(Some("both"))],
        zone in prop_oneof![Just("a"), Just("b"), Just("")],
        in_flight in proptest::option::of((0..50_i64, 0..2_000_000_i64)),
        cached_blocks in proptest::option::of(0..=64_i64),
        headroom in proptest::option::of((-500.0..500.0_f64, -50.0..50.0_f64)),
        load in proptest::option::of(prop_oneof![-10.0..10.0_f64, Just(f64::NAN), Just(f64::INFINITY)]),
    ) -> Drawn {
        Drawn { waiting, running, kv, role, zone, in_flight, cached_blocks, headroom, load }
    }
}

/// Returns candidates `e0`, `e1`, … in the order that `order` gives.
fn pool(drawn: &[Drawn], order: &[usize]) -> Candidates {
    let mut candidates = candidates(order.iter().map(|&at| endpoint(at, &drawn[at])));
    let column =
        |of: &dyn Fn(&Drawn) -> Option<i64>| order.iter().map(|&at| of(&drawn[at])).collect::<Vec<_>>();
    let matches = column(&|d| d.cached_blocks).into_iter();
    let matches = matches.map(|blocks| blocks.map(|blocks| PrefixCacheMatchInfo::new(blocks, 64, 16)));
    candidates.put(resolve(well_known::PREFIX_CACHE_MATCH_INFO, ""), matches.collect());
    let uncached = column(&|d| d.cached_blocks).into_iter();
    let uncached = uncached.map(|blocks| blocks.map(|blocks| UncachedRequestTokens((64 - blocks) * 16)));
    candidates.put(resolve(well_known::UNCACHED_REQUEST_TOKENS, ""), uncached.collect());
    candidates
}

fn endpoint(at: usize, drawn: &Drawn) -> Endpoint {
    let name = format!("e{at}");
    let mut labels =
        vec![("zone".to_owned(), drawn.zone.to_owned()), ("range".to_owned(), "0-100".to_owned())];
    labels.extend(drawn.role.map(|role| ("llm-d.ai/role".to_owned(), role.to_owned())));
    let metadata = EndpointMetadata {
        id: EndpointId::new("", &name),
        name,
        address: format!("10.0.0.{at}"),
        port: "8000".to_owned(),
        labels: labels.into_iter().collect(),
        ..EndpointMetadata::default()
    };
    let metrics = Metrics {
        waiting_queue_size: drawn.waiting,
        running_requests_size: drawn.running,
        kv_cache_usage_percent: drawn.kv,
        update_time: Some(Instant::default()),
        ..Metrics::default()
    };
    let mut endpoint = Endpoint { metadata: Rc::new(metadata), metrics, ..Endpoint::default() };
    let attributes = &mut endpoint.attributes;
    if let Some((requests, tokens)) = drawn.in_flight {
        let load = InFlightLoad { requests: requests.into(), tokens: tokens.into() };
        attributes.put(resolve(well_known::IN_FLIGHT_LOAD, ""), Rc::new(load));
    }
    if let Some((ttft_headroom, tpot_headroom)) = drawn.headroom {
        let prediction = LatencyPredictionInfo {
            ttft_valid: ttft_headroom > 0.0,
            tpot_valid: tpot_headroom > 0.0,
            ttft_headroom,
            tpot_headroom,
            ..LatencyPredictionInfo::default()
        };
        attributes.put(resolve(well_known::LATENCY_PREDICTION_INFO, ""), Rc::new(prediction));
    }
    if let Some(load) = drawn.load {
        attributes.put(DataKey::plain("load"), Rc::new(ScalarMetricValue(load)));
    }
    let topology = Topology { zone: drawn.zone.to_owned(), ..Topology::default() };
    attributes.put(resolve(well_known::TOPOLOGY, ""), Rc::new(topology));
    endpoint
}

fn request() -> InferenceRequest {
    let headers = [("x-zone", "a"), ("test-epp-endpoint-selection", "10.0.0.1,10.0.0.0:8000,10.0.0.1")];
    InferenceRequest {
        request_id: "r1".into(),
        headers: headers.into_iter().collect(),
        ..InferenceRequest::default()
    }
}

/// Returns a pool and an order of its endpoints.
fn pools() -> impl Strategy<Value = (Vec<Drawn>, Vec<usize>)> {
    proptest::collection::vec(drawn(), 0..12).prop_flat_map(|drawn| {
        let order: Vec<usize> = (0..drawn.len()).collect();
        (Just(drawn), Just(order).prop_shuffle())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Scheduling spec 4: a filter only drops. Two put what they keep into another order: the header's (4.10), and
    /// endpoints without a prediction behind the others (4.7).
    #[test]
    fn no_filter_invents_or_repeats_an_endpoint((drawn, order) in pools()) {
        on_tokio(|rt| {
            let (pool, request) = (pool(&drawn, &order), request());
            for (name, instance) in all(rt, |instance| instance.roles.filter.is_some()) {
                // Only every other endpoint is left: what an earlier filter dropped must not come back.
                let before: Vec<Candidate> = pool.all().step_by(2).collect();
                let mut after = before.clone();
                let filter = instance.roles.filter.as_ref().expect("it is a filter");
                filter.filter(&context(&request, &pool), &mut after);
                prop_assert!(after.iter().all(|kept| before.contains(kept)), "{name} invents: {after:?}");
                prop_assert_eq!(after.iter().collect::<BTreeSet<_>>().len(), after.len(), "{} repeats", name);
                if !["header-based-testing-filter", "slo-headroom-tier-filter"].contains(&name) {
                    prop_assert!(after.is_sorted(), "{name} reorders: {after:?}");
                }
            }
            Ok(())
        })?;
    }

    /// Scheduling spec 3.3: whatever scorers answer, a total lies between zero and the sum of the weights. Only
    /// a scraped value that is not finite can make its endpoint's total no number (5.9).
    #[test]
    fn totals_lie_between_zero_and_the_sum_of_the_weights((drawn, order) in pools()) {
        on_tokio(|rt| {
            let (pool, request) = (pool(&drawn, &order), request());
            let scorers = all(rt, |instance| instance.roles.scorer.is_some());
            let mut builder = Profile::builder("all");
            for (at, (_, instance)) in scorers.iter().enumerate() {
                let roles = Roles { scorer: instance.roles.scorer.clone(), ..Roles::default() };
                builder.add(&Instance { roles, ..instance.clone() }, Some(at as f64)).expect("no pickers here");
            }
            let picker = build(rt, "max-score-picker").roles.picker.expect("it is a picker");
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
    fn permuting_the_candidates_permutes_the_scores((drawn, order) in pools()) {
        on_tokio(|rt| {
            let straight: Vec<usize> = (0..drawn.len()).collect();
            let (one, other, request) = (pool(&drawn, &straight), pool(&drawn, &order), request());
            let scores = |instance: &Instance, pool: &Candidates| {
                let survivors: Vec<Candidate> = pool.all().collect();
                let mut scores = vec![None; survivors.len()];
                let scorer = instance.roles.scorer.as_ref().expect("it is a scorer");
                scorer.score(&context(&request, pool), &survivors, &mut scores);
                scores
            };
            for (name, instance) in all(rt, |instance| instance.roles.scorer.is_some()) {
                if name == "no-hit-lru-scorer" {
                    continue;
                }
                let (first, second) = (scores(&instance, &one), scores(&instance, &other));
                for (place, &at) in order.iter().enumerate() {
                    let (want, got) = (first[at].map(f64::to_bits), second[place].map(f64::to_bits));
                    prop_assert_eq!(want, got, "{} e{}: {:?} {:?}", name, at, first[at], second[place]);
                }
            }
            Ok(())
        })?;
    }

    /// Architecture: decisions are pure in (request, candidates, now, stream), so the host cannot matter.
    #[test]
    fn both_hosts_decide_alike((drawn, order) in pools(), seed in any::<u64>()) {
        let runtime = Real::builder().current_thread().seed(seed).build().expect("the runtime starts");
        let real = runtime.run(async |rt| decisions(&rt, &drawn, &order));
        let simulated = Sim::builder().seed(seed).build().run(async move |rt| decisions(&rt, &drawn, &order));
        prop_assert_eq!(Some(real), simulated.output);
    }
}

/// Returns what 20 decisions in a row choose, with every picker.
fn decisions(rt: &Rt, drawn: &[Drawn], order: &[usize]) -> Vec<Option<String>> {
    let pool = pool(drawn, order);
    let mut chosen = Vec::new();
    for picker in ["max-score-picker", "random-picker", "weighted-random-picker"] {
        let mut builder = Profile::builder("default");
        for scorer in ["queue-scorer", "kv-cache-utilization-scorer", "prefix-cache-scorer"] {
            builder.add(&build(rt, scorer), Some(1.0)).expect("no pickers here");
        }
        let picker = build(rt, picker).roles.picker.expect("it is a picker");
        let profile = builder.build(|| picker);
        let handler = build(rt, "single-profile-handler").roles.profile_handler.expect("it is a handler");
        let scheduler = Scheduler::new(handler, vec![profile]);
        for _ in 0..20 {
            let result = scheduler.schedule(&mut request(), &pool, Instant::default(), None);
            let first = result.ok().and_then(|r| r.primary_targets().first().cloned());
            chosen.push(first.map(|target| target.endpoint.metadata.id.name.clone()));
        }
    }
    chosen
}
