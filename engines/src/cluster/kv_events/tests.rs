use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use executor::Sim;
use router::data_layer::{EndpointEvent, EndpointListener as _};
use router::embed::RouterConfig;
use router::endpoint::EndpointMetadata;
use router::plugin::{Instance, Parameters, Roles};
use router::producers::PrecisePrefixCacheProducer;

use super::super::*;
use super::*;
use crate::report::Collector;
use crate::scenario::Scenario;

/// More prompts than the engines' caches hold together, so that blocks are evicted all the time.
const SCENARIO: &str = "\
workload:
  requests: 300
  synthetic:
    arrivals: {process: poisson, rate: 40}
    prompt: {type: uniform, min: 16, max: 600}
    output: {type: uniform, min: 1, max: 120}
    shared_prefix: {groups: 6, tokens: 400, skew: 0.6}
cluster:
  - count: 3
    model: qwen3-14b
    overrides: {num_gpu_blocks_override: 200}
";

const ROUTER: &str = include_str!("../../../../examples/precise-prefix.yaml");

const PARAMETERS: &str =
    r#"{"indexerConfig": {"kvBlockIndexConfig": {"inMemoryConfig": {"podCacheSize": 64}}}}"#;

/// Runs the scenario, with a producer of our own beside the router's, and lets `check` compare it with the engines.
fn at_quiescence(seed: u64, check: impl Fn(&PrecisePrefixCacheProducer, &[(String, Vec<u64>)]) + 'static) {
    let plan =
        Scenario::parse("s.yaml", SCENARIO, Path::new(".")).expect("a scenario").plan().expect("a plan");
    let run = Sim::new(seed).run(move |rt| async move {
        let watch = Rc::new(Watch::new(Rc::new(RefCell::new(Collector::default()))));
        let (world, roads) = (rt.simulation().expect("a simulation"), Rc::new(EventRoads::default()));
        let engines = start_engines(&rt, world, &plan, &watch, &roads).expect("engines");
        let config = RouterConfig::new("precise-prefix.yaml", ROUTER);
        let priorities = plan.workload.priorities();
        start_router(&rt, world, config, &priorities, &engines, &watch, &roads).expect("a router");
        let producer = producer_of_our_own(&rt, &roads, &engines);
        let client = Client::new(&rt, router_address(), "qwen3-14b", Form::Typed, watch);
        inject(&rt, world, plan.workload.open(seed).expect("a workload"), client).await.expect("a whole run");
        let mut caches = Vec::new();
        for engine in &engines {
            let hashes = engine.handle.cached_blocks().await;
            caches.push((engine.endpoint.to_string(), hashes.into_iter().map(|hash| hash.0).collect()));
        }
        check(&producer, &caches);
    });
    run.unwrap();
}

fn producer_of_our_own(
    rt: &Rt,
    roads: &EventRoads,
    engines: &[RunningEngine],
) -> Rc<PrecisePrefixCacheProducer> {
    let handle = Handle::new(rt.clone());
    handle.set_compat(router::config::schema::Compat {
        kv_events: router::config::schema::Behavior::Fixed,
        ..Default::default()
    });
    let parameters = Parameters::new(serde_json::from_str(PARAMETERS).expect("JSON"));
    let producer = PrecisePrefixCacheProducer::build("ours", &parameters, &handle).expect("parameters");
    let roles = Roles { kv_events: Some(producer.clone()), ..Roles::default() };
    handle.add("ours", Instance::new(PrecisePrefixCacheProducer::TYPE, "ours", roles));
    roads.lead_to(&handle);
    for engine in engines {
        let metadata = EndpointMetadata {
            id: EndpointId::new("default", engine.name.clone()),
            address: engine.endpoint.host().to_owned(),
            port: engine.endpoint.port().to_string(),
            ..EndpointMetadata::default()
        };
        producer.on_event(&EndpointEvent::AddOrUpdate(Rc::new(metadata)), None);
    }
    producer
}

/// All engines name equal blocks alike, so the blocks of one engine and the keys of the index are one to one.
#[test]
fn the_index_equals_the_caches_of_all_engines_when_all_is_quiet() {
    for seed in 1..=5 {
        at_quiescence(seed, move |producer, caches| {
            producer.with_index(|index| {
                let names: BTreeMap<u64, Vec<u64>> = index.engine_keys().collect();
                for (pod, cached) in caches {
                    assert!(cached.len() > 100, "an engine that cached nothing shows nothing");
                    let held: BTreeSet<u64> = index
                        .content()
                        .filter(|(_, holders)| holders.iter().any(|entry| *entry.pod == **pod))
                        .map(|(key, _)| key)
                        .collect();
                    let reported: BTreeSet<u64> =
                        cached.iter().map(|hash| *names[hash].last().expect("a mapped block")).collect();
                    assert_eq!(reported.len(), cached.len(), "two blocks of {pod} have one key");
                    assert_eq!(held, reported, "seed {seed}, {pod}");
                }
            });
        });
    }
}
