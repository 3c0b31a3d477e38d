//! A cluster in simulation: engines, the router before them, and the clients of a workload.
//!
//! One [`Sim`](executor::Sim) holds all of it. The router is the production router, built by the same code from the same
//! configuration file; clients and router exchange HTTP messages with the router and the engines through
//! [`Rt::http`]. What is simulated is what is not ours in production: the engines, the network and the clock.

mod client;
mod kv_events;
mod watch;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use executor::http::Endpoint;
use executor::{Class, Instant, Links, Network, Outcome, Rt, SimBuilder, Simulation};
use router::config::fault::Fault;
use router::config::problem::Problems;
use router::data_layer::EndpointNotifier;
use router::data_layer::objects::{ObjectName, Objective};
use router::embed::{Embedded, RouterConfig};
use router::endpoint::{EndpointId, EndpointMetadata};

use crate::InputError;
use crate::model_server::{Driver, EngineHandle, ModelServer, ServerOptions};
use crate::report::{EngineTotals, Observer, RunEnd};
use crate::scenario::{EngineGroup, NetworkPlan, Plan};
use crate::workload::{TOKEN_IDS, Workload};

use client::{Client, Form};
use kv_events::EventRoads;
use watch::{OpenRequests, Watch};

/// Port of every simulated server.
const PORT: u16 = 8000;

/// Simulated time without anything happening to any request after which what is open is given up: the longest step
/// of an engine is far shorter.
const STALL: Duration = Duration::from_secs(3600);

/// More requests than this, or more tokens in their prompts, are never open at a time: a workload that the cluster
/// cannot keep up with would take all memory, and what it shows is its own length.
const MAX_OPEN: OpenRequests = OpenRequests { requests: 500_000, tokens: 1 << 29 };

/// Decisions whose reasons the router keeps: each is taken as soon as it was made.
const EXPLAINED: usize = 64;

/// Where the simulated router listens.
const ROUTER: &str = "router";

/// Runs a workload against a cluster on `sim`, seeded as the plan says, and returns what the run adds to its
/// requests. A request that is open when the run ends early counts as cancelled.
///
/// # Errors
/// A configuration that the router refuses, and a workload that breaks off or leaves more requests open than fit
/// into memory.
///
/// # Determinism
/// A function of (plan, workload, configuration): [`RunEnd::digest`] is equal for equal ones.
pub fn simulate(
    sim: SimBuilder,
    plan: &Plan,
    mut config: RouterConfig,
    workload: Workload,
    observer: Rc<RefCell<dyn Observer>>,
) -> Result<RunEnd, SimulationError> {
    config.options.allow_experimental |= plan.allow_experimental_plugins;
    let watch = Rc::new(Watch::new(observer));
    let engines = Rc::new(OnceCell::new());
    let run = sim.seed(plan.seed).network(network(&plan.network)).build().run({
        let (plan, watch, engines) = (plan.clone(), Rc::clone(&watch), Rc::clone(&engines));
        move |rt| async move {
            let world = rt.simulation().expect("a simulation hosts this");
            let roads = Rc::new(EventRoads::default());
            let engines = engines.get_or_init(|| start_engines(&rt, world, &plan, &watch, &roads));
            let engines = engines.as_ref().map_err(|error| error.clone())?;
            start_router(&rt, world, config, &plan.workload.priorities(), engines, &watch, &roads)?;
            let model = plan.groups.first().map(|group| group.placement.model.name.as_str());
            let form = match plan.network {
                NetworkPlan::Direct => Form::Typed,
                NetworkPlan::Wire { .. } => Form::Json,
            };
            let watch = Rc::clone(&watch);
            let client = Client::new(&rt, router_address(), model.unwrap_or_default(), form, watch);
            inject(&rt, world, workload, client).await
        }
    });
    if let Some(result) = run.output {
        result?;
    }
    let report = run.report;
    let clean = report.is_clean();
    let mut findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    if !matches!(report.outcome, Outcome::Completed | Outcome::Interrupted) {
        findings.insert(0, format!("the run did not complete: {}", report.outcome));
    }
    let engines = engines.get().and_then(|engines| engines.as_ref().ok()).map_or(&[][..], Vec::as_slice);
    let requests = watch.requests_by_engine();
    Ok(RunEnd {
        digest: report.digest,
        simulated: report.now - Instant::ZERO,
        wall: Duration::ZERO,
        engines: engines.iter().zip(requests).map(|(engine, requests)| engine.totals(requests)).collect(),
        clean,
        findings,
        interrupted: None,
    })
}

/// Why a simulation could not run to its end.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SimulationError {
    /// The router refuses its configuration.
    #[error(transparent)]
    Router(#[from] Problems<Fault>),
    /// No engine starts with these options.
    #[error(transparent)]
    Engine(#[from] InputError),
    /// The workload breaks off.
    #[error("{0}")]
    Workload(InputError),
}

/// An engine of the cluster.
struct RunningEngine {
    name: String,
    endpoint: Endpoint,
    handle: EngineHandle,
}

impl RunningEngine {
    fn totals(&self, requests: u64) -> EngineTotals {
        let published = self.handle.published().lock();
        EngineTotals {
            name: self.name.clone(),
            requests,
            peak_queue: published.peak_waiting,
            preemptions: published.preemptions,
        }
    }
}

/// Starts every engine of the plan with its server before it.
fn start_engines(
    rt: &Rt,
    world: Simulation,
    plan: &Plan,
    watch: &Rc<Watch>,
    roads: &Rc<EventRoads>,
) -> Result<Vec<RunningEngine>, SimulationError> {
    let mut engines = Vec::new();
    for group in &plan.groups {
        for index in 0..group.count {
            engines.push(start_engine(rt, world, group, index, engines.len(), watch, roads)?);
        }
    }
    Ok(engines)
}

fn start_engine(
    rt: &Rt,
    world: Simulation,
    group: &EngineGroup,
    index: u32,
    number: usize,
    watch: &Rc<Watch>,
    roads: &Rc<EventRoads>,
) -> Result<RunningEngine, SimulationError> {
    let name = format!("{}-{index}", group.name);
    let options = |error: crate::engine::ConfigError| {
        InputError::new(format!("the engines of {name} do not start: {error}"))
    };
    let (mut driver, handle) =
        Driver::new(rt, group.config.clone(), group.latency.clone()).map_err(options)?;
    let gaps = Rc::clone(watch);
    driver.watch_gaps(move |gap, times| gaps.tokens_followed(gap, times));
    let endpoint = address(number);
    let (roads, publisher) = (Rc::clone(roads), endpoint.to_string());
    let topic = kv_topic(&endpoint, &group.placement.model.name);
    drop(world.daemon_in(Class::Engine, "engine", async move {
        // Engines first run when the router stands, and publish only where it listens.
        if roads.are_used() {
            driver.publish_kv_events(move |batch| roads.deliver(&publisher, &topic, batch));
        }
        driver.run().await;
    }));
    let options = ServerOptions {
        // Clients read from the answer how much of their prompt was cached.
        prompt_tokens_details: true,
        // Prompts of workloads are token ids of any model.
        vocabulary: group.placement.model.vocab.max(TOKEN_IDS),
        ..ServerOptions::new(&group.placement.model.name, group.config.max_model_len)
    };
    let server = ModelServer::new(rt, &name, vec![handle.clone()], options);
    world
        .listen(endpoint.clone(), move |request| {
            let server = server.clone();
            async move { Ok(server.handle(request).await) }
        })
        .map_err(|error| InputError::new(error.to_string()))?;
    watch.add_engine(&endpoint, &name);
    Ok(RunningEngine { name, endpoint, handle })
}

/// The address of the engine `number`: one in 10.0.0.0/8.
fn address(number: usize) -> Endpoint {
    let [_, b, c, d] = (number as u32 + 1).to_be_bytes();
    Endpoint::new(&format!("10.{b}.{c}.{d}"), PORT).expect("an IPv4 address can stand in a URI")
}

/// The topic that llm-d lets an engine publish under (model-server spec 3.1).
fn kv_topic(endpoint: &Endpoint, model: &str) -> String {
    format!("kv@{endpoint}@{model}")
}

/// Starts the router and tells it of the engines.
fn start_router(
    rt: &Rt,
    world: Simulation,
    config: RouterConfig,
    priorities: &BTreeSet<i32>,
    engines: &[RunningEngine],
    watch: &Rc<Watch>,
    roads: &Rc<EventRoads>,
) -> Result<(), SimulationError> {
    let Embedded { mut core, proxy, datastore, objects, plugins, .. } = router::embed::build(rt, config)?;
    roads.lead_to(&plugins);
    for priority in priorities {
        let name = ObjectName { namespace: "default".to_owned(), name: client::objective(*priority) };
        objects.set_objective(name, Objective { priority: Some(*priority), ..Objective::default() });
    }
    if watch.wants_explanations() {
        core.explain(EXPLAINED);
    }
    let decided = Rc::clone(watch);
    core.watch_decisions(move |decision| decided.decided(decision));
    drop(rt.daemon("core", core.run()));
    for engine in engines {
        let (host, port) = (engine.endpoint.host().to_owned(), engine.endpoint.port().to_string());
        datastore.upsert(EndpointMetadata {
            id: EndpointId::new("default", engine.name.clone()),
            name: engine.name.clone(),
            metrics_host: engine.endpoint.to_string(),
            address: host,
            port,
            ..EndpointMetadata::default()
        });
    }
    let listening = world.listen(router_address(), move |request| {
        let proxy = proxy.clone();
        async move { Ok(proxy.handle(request).await) }
    });
    listening.map_err(|error| InputError::new(error.to_string()).into())
}

/// The network of a plan, with addresses in place of names.
fn network(plan: &NetworkPlan) -> Network {
    let NetworkPlan::Wire { connect_timeout, router, engines, other } = plan else { return Network::Direct };
    let engines = engines.iter().map(|(number, link)| (address(*number), link.clone()));
    Network::Wire(Links {
        connect_timeout: *connect_timeout,
        named: engines.chain([(router_address(), router.clone())]).collect(),
        other: other.clone(),
    })
}

fn router_address() -> Endpoint {
    Endpoint::new(ROUTER, PORT).expect("the name can stand in a URI")
}

/// Sends every request of the workload at its instant and waits for all of them.
///
/// # Errors
/// When the workload breaks off, or the cluster falls too far behind it; every client then goes away.
async fn inject(
    rt: &Rt,
    world: Simulation,
    workload: Workload,
    client: Client,
) -> Result<(), SimulationError> {
    let watch = client.watch();
    let (give_up, given_up) = rt.watch(false);
    let mut open = Vec::new();
    for request in workload {
        let request = match request.and_then(|request| watch.open().check_room().map(|()| request)) {
            Ok(request) => request,
            Err(error) => {
                give_up.send(true);
                return Err(SimulationError::Workload(error));
            }
        };
        rt.sleep_until(Instant::ZERO + request.arrival).await;
        open.push(rt.spawn_local("client", client.clone().exchange(request, given_up.clone())));
        // Ended exchanges are let go as new ones come: memory follows the open ones.
        if open.len() == open.capacity() {
            open.retain(|exchange| !exchange.is_finished());
        }
    }
    for mut exchange in open {
        let mut before = watch.progress();
        while rt.timeout(STALL, &mut exchange).await.is_err() {
            let now = watch.progress();
            if now == before {
                world.give_up(format!("nothing happened to any request for {} s", STALL.as_secs()));
            }
            before = now;
        }
    }
    Ok(())
}

impl OpenRequests {
    /// Refuses a workload that has outrun the cluster.
    fn check_room(self) -> Result<(), InputError> {
        if self.requests < MAX_OPEN.requests && self.tokens < MAX_OPEN.tokens {
            return Ok(());
        }
        let OpenRequests { requests, tokens } = self;
        let problem =
            format!("the cluster falls behind: {requests} requests of {tokens} prompt tokens are open");
        Err(InputError::new(problem).field("workload").accepted(format!(
            "a rate that leaves at most {} requests and {} tokens open, or more engines",
            MAX_OPEN.requests, MAX_OPEN.tokens
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_that_outruns_the_cluster_is_refused_before_it_takes_all_memory() {
        let room = |requests, tokens| OpenRequests { requests, tokens }.check_room();
        assert_eq!(room(MAX_OPEN.requests - 1, MAX_OPEN.tokens - 1), Ok(()));
        let error = room(MAX_OPEN.requests, 7).unwrap_err().to_string();
        assert!(
            error.starts_with("workload: the cluster falls behind: 500000 requests of 7 prompt"),
            "{error}"
        );
        assert!(error.contains("accepted: a rate that leaves at most 500000 requests"), "{error}");
        assert!(room(1, MAX_OPEN.tokens).is_err());
    }
}
