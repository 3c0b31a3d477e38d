//! A cluster in simulation: engines, the router before them, and the clients of a workload.
//!
//! One [`Sim`] holds all of it. The router is the production router, built by the same code from the same
//! configuration file; clients and router exchange HTTP messages with the router and the engines through
//! [`Rt::http`]. What is simulated is what is not ours in production: the engines, the network and the clock.

mod client;
mod watch;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::http::Endpoint;
use executor::{Class, Rt, Sim, Simulation};
use router::config::fault::Fault;
use router::config::problem::Problems;
use router::data_layer::EndpointNotifier;
use router::embed::{Embedded, RouterConfig};
use router::endpoint::{EndpointId, EndpointMetadata};

use crate::InputError;
use crate::model_server::{Driver, EngineHandle, ModelServer, ServerOptions};
use crate::report::{EngineTotals, Observer, RunEnd};
use crate::scenario::{EngineGroup, Plan};
use crate::workload::Workload;

use client::Client;
use watch::Watch;

/// Port of every simulated server.
const PORT: u16 = 8000;

/// Simulated time without anything happening to any request after which what is open is given up: the longest step
/// of an engine is far shorter.
const STALL: Duration = Duration::from_secs(3600);

/// Where the simulated router listens.
const ROUTER: &str = "router";

/// Runs a workload against a cluster, on simulated time, and returns what the run adds to its requests.
///
/// # Errors
/// A configuration that the router refuses, and a workload that breaks off: the run ends there, and what had
/// arrived by then is served to its end.
///
/// # Determinism
/// A function of (plan, workload, configuration): [`RunEnd::digest`] is equal for equal ones.
pub fn simulate(
    plan: &Plan,
    config: RouterConfig,
    workload: Workload,
    observer: Rc<RefCell<dyn Observer>>,
) -> Result<RunEnd, SimulationError> {
    let plan = plan.clone();
    let sim = Sim::builder().seed(plan.seed).build();
    let run = sim.run(move |rt| async move {
        let world = rt.simulation().expect("a simulation hosts this");
        let watch = Rc::new(Watch::new(observer));
        let engines = start_engines(&rt, world, &plan, &watch)?;
        start_router(&rt, world, config, &engines, &watch)?;
        let model =
            plan.groups.first().map_or_else(Default::default, |group| group.placement.model.name.clone());
        let broken_off = inject(&rt, workload, &model, &watch).await;
        let totals =
            engines.iter().zip(watch.requests_by_engine()).map(|(engine, requests)| engine.totals(requests));
        Ok::<_, SimulationError>((totals.collect::<Vec<_>>(), broken_off))
    });
    let report = run.report;
    let (engines, broken_off) = match run.output {
        Some(output) => output?,
        None => (Vec::new(), None),
    };
    if let Some(error) = broken_off {
        return Err(SimulationError::Workload(error));
    }
    let mut findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    if report.outcome != executor::Outcome::Completed {
        findings.insert(0, format!("the run did not complete: {}", report.outcome));
    }
    Ok(RunEnd {
        digest: report.digest,
        simulated: report.now - executor::Instant::ZERO,
        wall: Duration::ZERO,
        engines,
        findings,
    })
}

/// Why a simulation could not run to its end.
#[derive(Debug, thiserror::Error)]
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
) -> Result<Vec<RunningEngine>, SimulationError> {
    let mut engines = Vec::new();
    for group in &plan.groups {
        for index in 0..group.count {
            engines.push(start_engine(rt, world, group, index, engines.len(), watch)?);
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
) -> Result<RunningEngine, SimulationError> {
    let name = format!("{}-{index}", group.name);
    let options = |error: crate::engine::ConfigError| {
        InputError::new(format!("the engines of {name} do not start: {error}"))
    };
    let (mut driver, handle) =
        Driver::new(rt, group.config.clone(), group.latency.clone()).map_err(options)?;
    let gaps = Rc::clone(watch);
    driver.watch_gaps(move |gap, times| gaps.tokens_followed(gap, times));
    drop(world.daemon_in(Class::Engine, "engine", driver.run()));

    let endpoint = address(number);
    let options = ServerOptions::new(&group.placement.model.name, group.config.max_model_len);
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

/// Starts the router and tells it of the engines.
fn start_router(
    rt: &Rt,
    world: Simulation,
    config: RouterConfig,
    engines: &[RunningEngine],
    watch: &Rc<Watch>,
) -> Result<(), SimulationError> {
    let Embedded { mut core, proxy, datastore, .. } = router::embed::build(rt, config)?;
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

fn router_address() -> Endpoint {
    Endpoint::new(ROUTER, PORT).expect("the name can stand in a URI")
}

/// Sends every request of the workload at its instant and waits for all of them; returns the error that the
/// workload broke off with.
async fn inject(rt: &Rt, workload: Workload, model: &str, watch: &Rc<Watch>) -> Option<InputError> {
    let client = Client::new(rt, router_address(), model, Rc::clone(watch));
    let (give_up, given_up) = rt.watch(false);
    let mut open = Vec::new();
    let mut broken_off = None;
    for request in workload {
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                broken_off = Some(error);
                break;
            }
        };
        rt.sleep_until(executor::Instant::ZERO + request.arrival).await;
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
                give_up.send(true);
            }
            before = now;
        }
    }
    broken_off
}
