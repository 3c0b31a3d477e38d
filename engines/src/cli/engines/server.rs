use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::cli::Failure;
use crate::engine::{EngineConfig, Profile, SchedulingPolicy};
use crate::model_server::ServerOptions;
use crate::scenario::Overrides;

/// The releases of vLLM that a server can be.
const RELEASES: [&str; 6] = ["0.10", "0.21", "0.25", "0.27", "0.32", "0.33"];

/// Options of `vllm serve`, under its names.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "vLLM's options")]
pub struct ServerArgs {
    /// Release of vLLM to be: how it schedules and what it answers [default: 0.21]
    #[arg(long, value_name = "RELEASE", value_parser = PossibleValuesParser::new(RELEASES))]
    pub vllm: Option<String>,
    /// Names that requests may use for the model; answers carry the first [default: the model's name]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub served_model_name: Vec<String>,
    /// LoRA adapters that are loaded
    #[arg(long, value_name = "NAME=PATH", num_args = 1.., value_parser = name_and_path)]
    pub lora_modules: Vec<(String, String)>,
    /// Distinct adapters in one step [default: 1 where adapters are loaded]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub max_loras: Option<u32>,
    /// Greatest number of prompt and output tokens of a request [default: what model and GPU allow]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(2..=1 << 30))]
    pub max_model_len: Option<u32>,
    /// Greatest number of running requests [default: vLLM's for the GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub max_num_seqs: Option<u32>,
    /// Token budget of a step [default: vLLM's for the GPU]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub max_num_batched_tokens: Option<u32>,
    /// Tokens that a KV block holds [default: 16]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub block_size: Option<u32>,
    /// KV blocks, the null block included [default: what fits]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1 << 26))]
    pub num_gpu_blocks_override: Option<u32>,
    /// Order of waiting requests: fcfs or priority
    #[arg(long, value_name = "POLICY", value_parser = PossibleValuesParser::new(["fcfs", "priority"]))]
    pub scheduling_policy: Option<String>,
    /// Find no blocks again by their hash
    #[arg(long)]
    pub no_enable_prefix_caching: bool,
    /// Wait for each step before the next is scheduled
    #[arg(long)]
    pub no_async_scheduling: bool,
    /// What requests to /v1 must carry as their bearer token
    #[arg(long, value_name = "KEY", env = "VLLM_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// Tell cached tokens in usage
    #[arg(long)]
    pub enable_prompt_tokens_details: bool,
    /// Answer with X-Request-Id
    #[arg(long)]
    pub enable_request_id_headers: bool,
    /// Tell usage in every stream
    #[arg(long)]
    pub enable_force_include_usage: bool,
    /// Count requests at /load
    #[arg(long)]
    pub enable_server_load_tracking: bool,
    /// Open the endpoints of rendering and generating, which are closed from 0.32 on
    #[arg(long)]
    pub enable_scale_out: bool,
    /// Serve pause, sleep, reset and server_info, as VLLM_SERVER_DEV_MODE=1 does
    #[arg(long)]
    pub dev_mode: bool,
    /// Let adapters be loaded and unloaded, as VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 does; any path is found
    #[arg(long)]
    pub allow_runtime_lora_updating: bool,
}

fn name_and_path(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_owned(), path.to_owned())),
        _ => Err("accepted: a name, =, and a path".to_owned()),
    }
}

impl ServerArgs {
    /// Returns what differs from vLLM's defaults for the model and the GPU.
    pub(super) fn overrides(&self) -> Overrides {
        Overrides {
            block_size: self.block_size,
            num_gpu_blocks_override: self.num_gpu_blocks_override,
            max_model_len: self.max_model_len,
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens,
            enable_prefix_caching: self.no_enable_prefix_caching.then_some(false),
            scheduling_policy: self.scheduling_policy.as_deref().map(|policy| match policy {
                "priority" => SchedulingPolicy::Priority,
                _ => SchedulingPolicy::Fcfs,
            }),
            ..Overrides::default()
        }
    }

    /// Returns `config` with the options that a scenario has no keys for.
    ///
    /// # Errors
    /// The options do not go together.
    pub(super) fn engine(&self, config: EngineConfig) -> Result<EngineConfig, Failure> {
        let profile = Profile::named(&format!("vllm-{}", self.release())).unwrap_or_default();
        let adapters = !self.lora_modules.is_empty() || self.allow_runtime_lora_updating;
        let mut config = config.of_release(profile);
        config.async_scheduling &= !self.no_async_scheduling;
        config.max_loras = self.max_loras.or(adapters.then_some(1));
        config.check().map_err(|error| Failure::new(error.to_string()))?;
        Ok(config)
    }

    /// Returns the options of the server of a model.
    pub(super) fn options(&self, model: &str, max_model_len: u32) -> ServerOptions {
        let mut names = self.served_model_name.clone();
        if names.is_empty() {
            names.push(model.to_owned());
        }
        ServerOptions {
            served_model_names: names,
            version: format!("{}.0", self.release()),
            lora_modules: self.lora_modules.clone(),
            runtime_lora_updating: self.allow_runtime_lora_updating,
            any_lora_path: self.allow_runtime_lora_updating,
            dev_mode: self.dev_mode,
            scale_out: self.enable_scale_out,
            api_key: self.api_key.clone(),
            prompt_tokens_details: self.enable_prompt_tokens_details,
            request_id_headers: self.enable_request_id_headers,
            force_include_usage: self.enable_force_include_usage,
            server_load_tracking: self.enable_server_load_tracking,
            ..ServerOptions::new(model, max_model_len)
        }
    }

    fn release(&self) -> &str {
        self.vllm.as_deref().unwrap_or("0.21")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_release_has_a_profile() {
        let profiles = Profile::ALL.map(|profile| profile.name().replace("vllm-", ""));
        assert_eq!(profiles, RELEASES);
    }

    #[test]
    fn a_release_schedules_and_answers_as_it_did() {
        let config = EngineConfig::new(Profile::VLLM_0_21, 100, 1000);
        for (release, asynchronous) in [("0.10", false), ("0.21", true), ("0.32", true)] {
            let args = ServerArgs { vllm: Some(release.to_owned()), ..ServerArgs::default() };
            let engine = args.engine(config.clone()).expect("the defaults go together");
            assert_eq!(engine.profile.name(), format!("vllm-{release}"));
            assert_eq!(engine.async_scheduling, asynchronous, "{release}");
            assert_eq!(args.options("m", 1000).version, format!("{release}.0"));
        }
        let args = ServerArgs { no_async_scheduling: true, ..ServerArgs::default() };
        assert!(!args.engine(config).expect("it goes without").async_scheduling);
    }

    #[test]
    fn adapters_are_named_with_their_paths() {
        assert_eq!(name_and_path("a=/b=c"), Ok(("a".to_owned(), "/b=c".to_owned())));
        for wrong in ["", "a", "=b", "a="] {
            assert!(name_and_path(wrong).is_err(), "{wrong:?}");
        }
    }
}
