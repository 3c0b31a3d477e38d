use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser as Range;
use executor::http::Endpoint;
use executor::{Real, Rt, Server};
use futures::future::{Either, select};

use super::Failure;
use super::check::read;
use crate::data_layer::EndpointNotifier;
use crate::embed::{self, Embedded, RouterConfig};
use crate::endpoint::{EndpointId, EndpointMetadata};
use crate::server::{Frontend, subscribe_to_kv_events};

/// Connections that are served at a time; further ones wait in the operating system's queue.
const MAX_CONNECTIONS: usize = 65_536;

/// Longest time that a flag takes. Unit: seconds.
const WEEK: u64 = 7 * 24 * 3600;

/// The arguments of `lockstep-router serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// EndpointPickerConfig file; without it the built-in default configuration
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// EndpointPickerConfig as text
    #[arg(long, value_name = "YAML", conflicts_with = "config_file")]
    pub config_text: Option<String>,
    /// Address to serve on: HTTP/1.1 and HTTP/2 without TLS; `/metrics` and `/healthz` are the router's own
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// A model server, beside those that discovery finds; may be repeated
    #[arg(long = "endpoint", value_name = "HOST:PORT", value_parser = model_server)]
    pub endpoints: Vec<Endpoint>,
    /// Time between two scrapes of an endpoint
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = Range::<u64>::new().range(1..=3_600_000))]
    pub refresh_metrics_interval_ms: u64,
    /// Let plugins of Alpha stability run
    #[arg(long)]
    pub allow_experimental_plugins: bool,
    /// How long requests in flight may take once the router is told to end
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = Range::<u64>::new().range(0..=WEEK))]
    pub drain_timeout: u64,
    /// Longest request body
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20, value_parser = Range::<usize>::new().range(1..=1 << 32))]
    pub max_body_bytes: usize,
    /// How long a model server may take to begin its response, and between two parts of it
    #[arg(long, value_name = "SECONDS", default_value_t = 900, value_parser = Range::<u64>::new().range(1..=WEEK))]
    pub response_timeout: u64,
    /// How long opening a connection to a model server may take
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = Range::<u64>::new().range(1..=600))]
    pub connect_timeout: u64,
    /// Remember why the last N requests went where they did: `/debug/decisions/{request-id}`, and the header
    /// `x-lockstep-decision` on responses
    #[arg(long, value_name = "N", value_parser = Range::<usize>::new().range(1..=100_000))]
    pub explain: Option<usize>,
    /// Seed of all random draws, to repeat decisions; without it the operating system gives one
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Threads that read sockets, beside the core's; without it one a processor
    #[arg(long, value_name = "N", value_parser = Range::<usize>::new().range(1..=1024))]
    pub worker_threads: Option<usize>,
}

impl ServeArgs {
    /// Serves until SIGTERM or SIGINT, then drains; a second signal ends the drain.
    ///
    /// # Errors
    /// When the configuration, an address or a file is refused, and when a signal ended the drain.
    pub fn run(self) -> Result<(), Failure> {
        log_to_stderr();
        let config = self.config()?;
        let connect_timeout = Duration::from_secs(self.connect_timeout);
        let mut real = Real::builder().connect_timeout(connect_timeout);
        if let Some(seed) = self.seed {
            real = real.seed(seed);
        }
        if let Some(threads) = self.worker_threads {
            real = real.worker_threads(threads);
        }
        real.build().map_err(Failure::Runtime)?.run(|rt| self.serve(rt, config))
    }

    fn config(&self) -> Result<RouterConfig, Failure> {
        let mut named = BTreeSet::new();
        if let Some(twice) = self.endpoints.iter().find(|endpoint| !named.insert(*endpoint)) {
            return Err(Failure::EndpointTwice(twice.clone()));
        }
        let mut config = match (&self.config_file, &self.config_text) {
            (Some(path), _) => {
                let text = read(path)?;
                RouterConfig::new(path.display().to_string(), text)
            }
            (None, Some(text)) => RouterConfig::new("--config-text", text.clone()),
            (None, None) => RouterConfig::new("built-in configuration", ""),
        };
        config.options.allow_experimental = self.allow_experimental_plugins;
        config.options.refresh_metrics_interval = Duration::from_millis(self.refresh_metrics_interval_ms);
        config.proxy.max_body_bytes = self.max_body_bytes;
        config.proxy.response_timeout = Duration::from_secs(self.response_timeout);
        Ok(config)
    }

    async fn serve(self, rt: Rt, config: RouterConfig) -> Result<(), Failure> {
        let Embedded {
            mut core, handle, proxy, datastore, plugins, discovery, notices, flow_control, ..
        } = embed::build(&rt, config).map_err(Failure::Configuration)?;
        for notice in &notices {
            tracing::warn!("{notice}");
        }
        subscribe_to_kv_events(&rt, &plugins);
        if discovery.is_none() && self.endpoints.is_empty() {
            return Err(Failure::NoEndpoints);
        }
        let discovery = discovery.and_then(|name| plugins.instance(&name)?.roles.discovery);
        if let Some(discovery) = &discovery {
            discovery.load(&rt, &*datastore).await.map_err(Failure::Discovery)?;
        }
        let server = Server::bind(self.listen, MAX_CONNECTIONS).await;
        let server = server.map_err(|error| Failure::Bind(self.listen, error))?;
        self.endpoints.iter().for_each(|endpoint| datastore.upsert(metadata(endpoint)));
        let mut frontend = Frontend::new(proxy, handle);
        if let Some(capacity) = self.explain {
            core.explain(capacity);
            frontend = frontend.with_explanations();
        }
        drop(rt.daemon("core", core.run()));
        tracing::info!(address = %server.local_addr(), "serving");

        let (stop, stopped) = rt.oneshot::<()>();
        let drain = Duration::from_secs(self.drain_timeout);
        let stopped = async move {
            let _ = stopped.await;
        };
        let handle = move |request| frontend.clone().handle(request);
        let serving = rt.spawn("server", server.serve(handle, stopped, drain));

        if let Some(discovery) = discovery.clone() {
            let (rt, datastore) = (rt.clone(), Rc::clone(&datastore));
            drop(rt.clone().daemon("discovery", async move { discovery.follow(&rt, &*datastore).await }));
        }
        let signal = executor::termination().await;
        tracing::info!(signal, "draining");
        if let Some(flow_control) = flow_control {
            flow_control.shut_down();
        }
        drop(stop);
        match select(serving, pin!(executor::termination())).await {
            Either::Left((Ok(true), _)) => {}
            Either::Left(_) => tracing::warn!(
                seconds = self.drain_timeout,
                "requests were cut off when the drain time was over"
            ),
            Either::Right((signal, _)) => return Err(Failure::DrainEnded(signal)),
        }
        Ok(())
    }
}

/// Reads the address of a model server.
fn model_server(text: &str) -> Result<Endpoint, String> {
    let endpoint: Endpoint =
        text.parse().map_err(|error: executor::http::ParseEndpointError| error.to_string())?;
    match endpoint.port() {
        0 => Err("a model server listens on a port from 1 to 65535".to_owned()),
        _ => Ok(endpoint),
    }
}

/// A model server that is known by its address alone.
fn metadata(endpoint: &Endpoint) -> EndpointMetadata {
    let address = endpoint.to_string();
    EndpointMetadata {
        id: EndpointId::new("default", address.clone()),
        name: address.clone(),
        address: endpoint.host().to_owned(),
        port: endpoint.port().to_string(),
        metrics_host: address,
        ..EndpointMetadata::default()
    }
}

fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::INFO.into())
        .from_env_lossy();
    // A second subscriber in one process stays out.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init();
}
