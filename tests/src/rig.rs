//! A router before simulated engines, built alike on either host: on sockets of this machine, or in simulation.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use engines::engine::latency::Latency;
use engines::engine::{EngineConfig, Profile};
use engines::model_server::{Driver, EngineHandle, ModelServer, ServerOptions};
use executor::http::{Body, Endpoint};
use executor::{Class, Rt, Server};
use http::{Request, Response};
use router::data_layer::EndpointNotifier;
use router::data_layer::datastore::Datastore;
use router::embed::{self, Embedded, RouterConfig};
use router::endpoint::{EndpointId, EndpointMetadata};
use router::server::{Decided, Frontend};

/// The model that every engine serves.
pub const MODEL: &str = "tiny";

/// Port of every server in simulation.
const PORT: u16 = 8000;

/// Connections that one server serves at a time.
const MAX_CONNECTIONS: usize = 1024;

/// An engine with its server.
#[derive(Debug)]
pub struct Engine {
    /// Its name, by which the router knows it on either host.
    pub name: String,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// The engine itself.
    pub handle: EngineHandle,
}

impl Engine {
    /// Starts an engine whose steps all take `step`.
    ///
    /// # Panics
    /// When no vLLM would start with `config`, or no socket can be had.
    pub async fn start(rt: &Rt, name: &str, config: EngineConfig, step: Duration) -> Self {
        let server = ServerOptions::new(MODEL, config.max_model_len);
        let step = u64::try_from(step.as_micros()).expect("a step is short");
        let (driver, handle) = Driver::new(rt, config, Latency::Fixed(step)).expect("the options are sound");
        match rt.simulation() {
            Some(world) => drop(world.daemon_in(Class::Engine, "engine", driver.run())),
            None => drop(rt.daemon("engine", driver.run())),
        }
        let server = ModelServer::new(rt, name, vec![handle.clone()], server);
        let answer = move |request| {
            let server = server.clone();
            async move { server.handle(request).await }
        };
        let endpoint = listen(rt, name, answer).await;
        Engine { name: name.to_owned(), endpoint, handle }
    }

    /// Starts `count` engines, named `engine-0` and so on.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    pub async fn start_many(rt: &Rt, count: usize, config: &EngineConfig, step: Duration) -> Vec<Self> {
        let mut engines = Vec::new();
        for number in 0..count {
            engines.push(Self::start(rt, &format!("engine-{number}"), config.clone(), step).await);
        }
        engines
    }

    /// Returns the options of a small engine.
    pub fn small() -> EngineConfig {
        EngineConfig::new(Profile::VLLM_0_21, 4096, 16_384)
    }
}

/// A router that listens.
#[derive(Debug)]
pub struct Router {
    /// Where.
    pub endpoint: Endpoint,
    /// The endpoints that it knows, as it last scraped them.
    pub datastore: Rc<Datastore>,
}

impl Router {
    /// Starts a router before `engines`; calls `watch` for each of its decisions.
    ///
    /// # Panics
    /// When the configuration is refused, or no socket can be had.
    pub async fn start<'a>(
        rt: &Rt,
        config: RouterConfig,
        engines: impl IntoIterator<Item = &'a Engine>,
        watch: impl Fn(&Decided<'_>) + 'static,
    ) -> Self {
        let Embedded { mut core, handle, proxy, datastore, .. } =
            embed::build(rt, config).unwrap_or_else(|problems| panic!("{problems}"));
        core.watch_decisions(watch);
        drop(rt.daemon("core", core.run()));
        for engine in engines {
            datastore.upsert(EndpointMetadata {
                id: EndpointId::new("default", &engine.name),
                name: engine.name.clone(),
                address: engine.endpoint.host().to_owned(),
                port: engine.endpoint.port().to_string(),
                metrics_host: engine.endpoint.to_string(),
                ..EndpointMetadata::default()
            });
        }
        let frontend = Frontend::new(proxy, handle);
        let endpoint = listen(rt, "router", move |request| frontend.clone().handle(request)).await;
        Router { endpoint, datastore }
    }
}

/// Serves until the run ends: at a free port of the loopback interface, or at the address `name` of the simulation.
///
/// # Panics
/// When no socket can be had, and in simulation where something listens under that name.
pub async fn listen<S, F>(rt: &Rt, name: &str, service: S) -> Endpoint
where
    S: Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    let Some(world) = rt.simulation() else {
        let server = Server::bind(([127, 0, 0, 1], 0).into(), MAX_CONNECTIONS).await.expect("a free port");
        let endpoint = Endpoint::from(server.local_addr());
        drop(rt.spawn("server", server.serve(service, std::future::pending(), Duration::ZERO)));
        return endpoint;
    };
    let endpoint = Endpoint::new(name, PORT).expect("a name that can stand in a URI");
    let answer = move |request| {
        let answer = service(request);
        async move { Ok(answer.await) }
    };
    world.listen(endpoint.clone(), answer).expect("a name of its own");
    endpoint
}
