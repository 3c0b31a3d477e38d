use clap::Args;
use router::config::problem::Located;

use super::Failure;
use crate::scenario::{EngineGroup, Group, GroupLatency, Overrides};

/// The arguments of `lockstep engines`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct EnginesArgs {
    /// Number of engines
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// Port of the first engine; the others have the ports behind it
    #[arg(long, value_name = "PORT", default_value_t = 8100, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Model: a bundled model's name, or the path of a Hugging Face config.json
    #[arg(long, value_name = "MODEL", default_value = "qwen3-14b")]
    pub model: String,
    /// GPU: A100-80, A100-SXM, H100 or L40S
    #[arg(long, value_name = "GPU", default_value = "H100")]
    pub gpu: String,
    /// GPUs that each engine is spread over
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tp: u32,
    /// Step times: roofline or trained-physics
    #[arg(long, value_name = "BACKEND", default_value = "roofline")]
    pub latency: String,
    /// What all randomness comes from
    #[arg(long, value_name = "N", default_value_t = 42)]
    pub seed: u64,
}

impl EnginesArgs {
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
        let group = Group {
            name: None,
            count: number("--count", self.count),
            model: flag("--model", self.model.clone()),
            gpu: flag("--gpu", self.gpu.clone()),
            tp: number("--tp", self.tp),
            latency: flag("--latency", String::new()).with(GroupLatency::Backend(self.latency.clone())),
            overrides: Located::nowhere(Overrides::default()),
        };
        Ok(group.resolve("engine")?)
    }
}
