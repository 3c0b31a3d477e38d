mod server;

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use executor::{Real, Rt, Server};
use futures::future::{join_all, poll_immediate, try_join_all};
use router::config::problem::Located;

pub use self::server::ServerArgs;
use super::{Failure, print};
use crate::model_server::{Driver, ModelServer, TIME_SCALES};
use crate::scenario::{EngineGroup, Group, GroupLatency};

/// The arguments of `lockstep engines`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct EnginesArgs {
    /// Number of engines
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// Port of the first engine; the others have the ports behind it
    #[arg(long, value_name = "PORT", default_value_t = 8100, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Address that the engines listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// Model: a bundled model's name, or the path of a Hugging Face config.json
    #[arg(long, value_name = "MODEL", default_value = "qwen3-14b")]
    pub model: String,
    /// GPU: A100-80, A100-SXM, H100 or L40S
    #[arg(long, value_name = "GPU", default_value = "H100")]
    pub gpu: String,
    /// GPUs that each engine is spread over
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tp: u32,
    /// Step times: roofline, trained-physics, or a CSV file of measured steps
    #[arg(long, value_name = "BACKEND", default_value = "roofline")]
    pub latency: String,
    /// Make steps take so many times as long: 0.1 is ten times as fast
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = time_scale)]
    pub time_scale: f64,
    /// Seconds that running requests may go on for after SIGTERM, before they are aborted
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=86_400))]
    pub shutdown_timeout: u32,
    /// What all randomness comes from
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
    /// What the servers are started with.
    #[command(flatten)]
    pub server: ServerArgs,
}

fn time_scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(factor) if TIME_SCALES.contains(&factor) => Ok(factor),
        _ => Err(format!("accepted: a number from {} to {}", TIME_SCALES.start(), TIME_SCALES.end())),
    }
}

/// Connections that one engine serves at a time.
const MAX_CONNECTIONS: usize = 16_384;

/// How long answers may take to reach their clients once the requests have ended.
const DRAIN: Duration = Duration::from_secs(5);

impl EnginesArgs {
    /// Serves the engines until SIGTERM or SIGINT.
    ///
    /// # Errors
    /// What is wrong with the arguments, and a port that cannot be bound.
    pub fn run(&self) -> Result<(), Failure> {
        let group = self.group()?;
        let real = Real::builder().current_thread().seed(self.seed).build();
        real.map_err(|error| Failure::new(format!("the runtime does not start: {error}")))?
            .run(|rt| self.serve(rt, group))
    }

    async fn serve(&self, rt: Rt, group: EngineGroup) -> Result<(), Failure> {
        // Caught from here on: whoever reads an engine's address may end the engines.
        let mut termination = pin!(executor::termination());
        if poll_immediate(&mut termination).await.is_some() {
            return Ok(());
        }
        let mut running = Vec::new();
        for (index, port) in (self.port..).take(group.count as usize).enumerate() {
            let name = format!("{}-{index}", group.name);
            let address = SocketAddr::from((self.bind, port));
            let server = Server::bind(address, MAX_CONNECTIONS).await.map_err(|error| {
                let accepted = "accepted: --port with as many free ports as engines";
                Failure::new(format!("--port: {name} cannot listen on {address}: {error}; {accepted}"))
            })?;
            let (mut driver, handle) = Driver::new(&rt, group.config.clone(), group.latency.clone())
                .map_err(|error| Failure::new(format!("{name} does not start: {error}")))?;
            driver.scale_time(self.time_scale);
            drop(rt.daemon("engine", driver.run()));
            let options = self.server.options(&group.placement.model.name, group.config.max_model_len);
            let model = ModelServer::new(&rt, &name, vec![handle], options);
            running.push((server, model));
        }
        let (stop, stopped) = rt.watch(false);
        let mut serving = Vec::new();
        let models: Vec<ModelServer> = running.iter().map(|(_, model)| model.clone()).collect();
        for (server, model) in running {
            let mut stopped = stopped.clone();
            print(&format!("{} at http://{}\n", group.placement.model.name, server.local_addr()))?;
            let answer = move |request| {
                let model = model.clone();
                async move { model.handle(request).await }
            };
            let until = async move {
                // The sender's end says so too.
                let _ = stopped.changed().await;
            };
            let timeout = Duration::from_secs(self.shutdown_timeout.into());
            serving.push(rt.spawn("server", server.serve(answer, until, timeout + DRAIN)));
        }
        termination.await;
        drop(stop);
        // They accept no more; what runs may go on for so long, and is aborted then (model-server spec 7).
        let mut serving = try_join_all(serving);
        let timeout = Duration::from_secs(self.shutdown_timeout.into());
        if rt.timeout(timeout, &mut serving).await.is_ok() {
            return Ok(());
        }
        join_all(models.iter().map(ModelServer::abort_all)).await;
        // One that panicked has said so.
        drop(serving.await);
        Ok(())
    }

    /// Returns the engines to serve.
    ///
    /// # Errors
    /// When the model, the GPU or the backend is unknown, the model does not fit, or the ports go beyond 65535.
    pub fn group(&self) -> Result<EngineGroup, Failure> {
        let flag = |name: &str, value: String| Located { value, at: None, path: name.to_owned() };
        let number = |name: &str, value: u32| Located { value, at: None, path: name.to_owned() };
        if u32::from(self.port) + self.count - 1 > u32::from(u16::MAX) {
            return Err(Failure::new(format!(
                "--port: {} engines from port {} on; accepted: ports up to {}",
                self.count,
                self.port,
                u16::MAX
            )));
        }
        let measured =
            Path::new(&self.latency).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("csv"));
        let latency = match measured {
            true => GroupLatency::Table(self.latency.clone().into()),
            false => GroupLatency::Backend(self.latency.clone()),
        };
        let group = Group {
            name: None,
            count: number("--count", self.count),
            model: flag("--model", self.model.clone()),
            gpu: flag("--gpu", self.gpu.clone()),
            tp: number("--tp", self.tp),
            latency: flag("--latency", String::new()).with(latency),
            overrides: flag("options of vLLM", String::new()).with(self.server.overrides()),
        };
        let mut group = group.resolve("engine")?;
        group.config = self.server.engine(group.config)?;
        Ok(group)
    }
}
