use std::num::NonZeroU32;
use std::path::Path;

use router::config::problem::Located;

use super::cluster::{MAX_ENGINES, MAX_TP};
use super::{Group, GroupLatency, NetworkPlan, Overrides, RouterSource, Scenario, WorkloadSpec};
use crate::InputError;
use crate::engine::latency::{Latency, Table};
use crate::engine::{EngineConfig, Profile};
use crate::hardware::{
    Gpu, KvCapacity, KvOptions, Model, Placement, bundled_model, gpu, kv_capacity, parse_config,
};
use crate::input_file;

/// A scenario whose parts were found and fit together: what a run is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What all randomness comes from.
    pub seed: u64,
    /// What arrives.
    pub workload: WorkloadSpec,
    /// The groups of engines, in the order of the scenario.
    pub groups: Vec<EngineGroup>,
    /// How HTTP travels.
    pub network: NetworkPlan,
    /// How the router is configured.
    pub router: RouterSource,
    /// Plugins of Alpha stability may run.
    pub allow_experimental_plugins: bool,
}

/// Like engines, ready to be built.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineGroup {
    /// What the engines' names begin with; the n-th is called `{name}-{n}`, from 0.
    pub name: String,
    /// How many engines there are.
    pub count: u32,
    /// Model, GPU and tensor parallelism.
    pub placement: Placement,
    /// Step times, and what they were made from.
    pub latency: Latency,
    /// The name of the latency backend.
    pub latency_name: String,
    /// The options of each engine: the scenario's, else vLLM's defaults for the GPU; the longest sequence is
    /// no longer than the model was made for, unless the scenario says so, and than the KV cache.
    pub config: EngineConfig,
}

impl EngineGroup {
    /// Describes the group in a few words: `16 x qwen3-14b on H100 (TP 1, roofline)`.
    pub fn describe(&self) -> String {
        let Placement { model, gpu, tp } = &self.placement;
        format!("{} x {} on {} (TP {tp}, {})", self.count, model.name, gpu.name, self.latency_name)
    }
}

impl Scenario {
    /// Looks models and GPUs up and computes what fits.
    ///
    /// # Errors
    /// Everything that is unknown or does not fit, at its place in the file or under its flag; at least one.
    pub fn plan(&self) -> Result<Plan, Vec<InputError>> {
        let mut faults = Faults { file: &self.file, errors: Vec::new() };
        let several = self.cluster.len() > 1;
        let mut groups = Vec::with_capacity(self.cluster.len());
        for (index, group) in self.cluster.iter().enumerate() {
            let name = match &group.name {
                Some(name) => name.value.clone(),
                None if several => format!("group{index}"),
                None => "engine".to_owned(),
            };
            groups.extend(group.plan(name, &mut faults));
        }
        for (index, group) in self.cluster.iter().enumerate() {
            let Some(name) = &group.name else { continue };
            let others = self.cluster[..index].iter().flat_map(|group| &group.name);
            faults.note(name, check_name(name, others.map(|name| name.as_str())));
        }
        // Where groups are missing, a link to one of them is not wrong.
        let names: Vec<_> = groups.iter().map(|group| (group.name.as_str(), group.count)).collect();
        let network = match faults.errors.is_empty() {
            true => self.network.plan(&names, |place, error| {
                faults.note(place, Err::<(), _>(error));
            }),
            false => NetworkPlan::Direct,
        };
        if !faults.errors.is_empty() {
            return Err(faults.errors);
        }
        let (workload, router) = (self.workload.clone(), self.router.clone());
        let Scenario { seed, allow_experimental_plugins, .. } = *self;
        Ok(Plan { seed, workload, groups, network, router, allow_experimental_plugins })
    }
}

/// What is wrong with a scenario, each with its place.
struct Faults<'a> {
    file: &'a str,
    errors: Vec<InputError>,
}

impl Faults<'_> {
    /// Returns the value; keeps an error, at the place of what it is about.
    fn note<T, U>(&mut self, about: &Located<U>, result: Result<T, InputError>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            // Another file's place is part of what is wrong here; the name of a parameter is not.
            Err(error) if error.place().source.is_some() => InputError::new(error.to_string()),
            Err(error) => InputError::new(error.message()),
        };
        let error = error.field(about.path.clone());
        // A flag has no file.
        self.errors.push(match about.at {
            Some(at) => error.at_column(at.column as u64).at_line(at.line as u64).in_source(self.file),
            None => error,
        });
        None
    }
}

impl Group {
    /// Looks one group up, as [`Scenario::plan`] does; its engines' names begin with `name`.
    ///
    /// # Errors
    /// As [`Scenario::plan`].
    pub fn resolve(&self, name: &str) -> Result<EngineGroup, Vec<InputError>> {
        let mut faults = Faults { file: "", errors: Vec::new() };
        let group = self.plan(name.to_owned(), &mut faults);
        group.ok_or(faults.errors)
    }

    fn plan(&self, name: String, faults: &mut Faults<'_>) -> Option<EngineGroup> {
        let model = faults.note(&self.model, find_model(&self.model));
        let gpu = faults.note(&self.gpu, gpu(&self.gpu));
        let tp = faults.note(&self.tp, count(self.tp.value, MAX_TP));
        let count = faults.note(&self.count, count(self.count.value, MAX_ENGINES));
        let placement = Placement { model: model?, gpu: gpu?, tp: tp? };

        let (latency_name, latency) = match &self.latency.value {
            GroupLatency::Backend(name) => (name.clone(), Latency::from_name(name, &placement)),
            GroupLatency::Fixed(us) => (format!("fixed {us} us"), Ok(Latency::Fixed(*us))),
            GroupLatency::Means(ttft_us, itl_us) => {
                let latency = Latency::Means { ttft_us: *ttft_us, itl_us: *itl_us };
                (format!("TTFT {ttft_us} us, ITL {itl_us} us"), Ok(latency))
            }
            GroupLatency::Table(path) => {
                (format!("measured, {}", path.display()), Table::open(path).map(Latency::Table))
            }
        };
        let latency = self.note(faults, &self.latency, latency);

        let defaults = KvOptions::default();
        let options = KvOptions {
            block_size: self.overrides.block_size.and_then(NonZeroU32::new).unwrap_or(defaults.block_size),
            memory_utilization: self.overrides.gpu_memory_utilization.unwrap_or(defaults.memory_utilization),
        };
        let capacity = self.note(faults, &self.model, kv_capacity(&placement, options))?;
        let config = self.overrides.config(&placement, capacity, options.block_size.get());
        let config = faults.note(&self.overrides, config)?;
        let (count, latency) = (count?.get(), latency?);
        Some(EngineGroup { name, count, placement, latency, latency_name, config })
    }

    /// As [`Faults::note`], but an error about the tensor parallelism is noted there.
    fn note<T, U>(
        &self,
        faults: &mut Faults<'_>,
        about: &Located<U>,
        result: Result<T, InputError>,
    ) -> Option<T> {
        match &result {
            Err(error) if error.place().field.as_deref() == Some("tp") => faults.note(&self.tp, result),
            _ => faults.note(about, result),
        }
    }
}

impl Overrides {
    /// Returns the options of an engine with these overrides (model-server spec 5.1, engines-blis 11).
    fn config(
        &self,
        placement: &Placement,
        capacity: KvCapacity,
        block_size: u32,
    ) -> Result<EngineConfig, InputError> {
        let fitting = u32::try_from(capacity.blocks).unwrap_or(u32::MAX);
        let blocks = self.num_gpu_blocks_override.unwrap_or(fitting);
        let longest = self.max_model_len.or(placement.model.max_model_len).unwrap_or(u32::MAX);
        // Block 0 is the null block, which holds no tokens.
        let longest = longest.min(blocks.saturating_sub(1).saturating_mul(block_size));
        let defaults = EngineConfig::new(Profile::VLLM_0_21, blocks, longest);
        let (seqs, batched_tokens) = server_defaults(&placement.gpu, &defaults);
        let config = EngineConfig {
            block_size,
            max_num_seqs: self.max_num_seqs.unwrap_or(seqs),
            max_num_batched_tokens: self.max_num_batched_tokens.unwrap_or(batched_tokens),
            long_prefill_token_threshold: self
                .long_prefill_token_threshold
                .unwrap_or(defaults.long_prefill_token_threshold),
            enable_prefix_caching: self.enable_prefix_caching.unwrap_or(defaults.enable_prefix_caching),
            enable_chunked_prefill: self.enable_chunked_prefill.unwrap_or(defaults.enable_chunked_prefill),
            policy: self.scheduling_policy.unwrap_or(defaults.policy),
            ..defaults
        };
        config.check().map_err(|error| InputError::new(error.to_string()))?;
        Ok(config)
    }
}

/// vLLM's defaults for the requests and the tokens of a step: larger on a large GPU that is no A100.
fn server_defaults(gpu: &Gpu, small: &EngineConfig) -> (u32, u32) {
    if gpu.memory_gib >= 70.0 && !gpu.name.starts_with("A100") {
        (1024, 8192)
    } else {
        (small.max_num_seqs, small.max_num_batched_tokens)
    }
}

/// Checks a number that a flag may have given.
fn count(number: u32, most: u32) -> Result<NonZeroU32, InputError> {
    NonZeroU32::new(number).filter(|number| number.get() <= most).ok_or_else(|| {
        InputError::new(format!("{number} is out of range"))
            .accepted(format!("a whole number from 1 to {most}"))
    })
}

fn check_name<'a>(name: &str, others: impl IntoIterator<Item = &'a str>) -> Result<(), InputError> {
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return Err(
            InputError::new(format!("{name:?} names no group")).accepted("letters, digits, -, _ and .")
        );
    }
    if others.into_iter().any(|other| other == name) {
        return Err(
            InputError::new(format!("two groups are called {name:?}")).accepted("a name of its own for each")
        );
    }
    Ok(())
}

/// Whether a model is given by a file; `Qwen/Qwen3-14B` is a name.
pub(super) fn is_path(model: &str) -> bool {
    model.ends_with(".json") || model.starts_with(['/', '.'])
}

fn find_model(name: &str) -> Result<Model, InputError> {
    if !is_path(name) {
        return bundled_model(name);
    }
    let path = Path::new(name);
    let accepted = "a bundled model's name, or the path of a Hugging Face config.json";
    let json = input_file::read_text(path, "the model", accepted)?;
    // A downloaded model is a folder of its name with a config.json in it.
    let stem = match path.file_name() {
        Some(file) if file == "config.json" => path.parent().and_then(Path::file_name),
        _ => path.file_stem(),
    };
    let short = stem.map_or(name.into(), |stem| stem.to_string_lossy());
    parse_config(&short, json.as_bytes()).map_err(|error| error.in_source(name))
}
