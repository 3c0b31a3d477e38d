//! Gauges of an engine in this process, without the way over text.

use std::borrow::Cow;
use std::sync::Arc;

/// What the `/metrics` page of a vLLM server says to the router, as values (model-server spec 2.1).
///
/// A simulated engine answers with it, as an extension of the response, where the request has the extension
/// [`AcceptGauges`]: a thousand engines scraped every 50 ms then format and read no text. The extractors take
/// it for the text: the same families, labels and values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineGauges {
    /// Label `model_name`.
    pub model_name: Arc<str>,
    /// Label `engine`: the data-parallel rank.
    pub engine: u32,
    /// `vllm:num_requests_waiting`.
    pub waiting: u64,
    /// `vllm:num_requests_running`.
    pub running: u64,
    /// `vllm:kv_cache_usage_perc`, a fraction 0..1.
    pub kv_cache_usage: f64,
    /// `vllm:cache_config_info`.
    pub cache_config: CacheConfig,
    /// The newest series of `vllm:lora_requests_info`; `None` on an engine without adapters.
    pub lora: Option<LoraInfo>,
}

/// Labels of `vllm:cache_config_info`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheConfig {
    /// Tokens a block.
    pub block_size: u32,
    /// Blocks, with the null block.
    pub num_gpu_blocks: u64,
}

/// Labels and value of `vllm:lora_requests_info`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoraInfo {
    /// Adapters of running requests, separated by commas.
    pub running: Arc<str>,
    /// Adapters of waiting requests, separated by commas.
    pub waiting: Arc<str>,
    /// Adapter slots.
    pub max_lora: u32,
    /// UNIX time in seconds at which the series got its present labels.
    pub since: f64,
}

/// Request extension: the client takes [`EngineGauges`] for the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptGauges;

/// Which gauge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Waiting,
    Running,
    KvCacheUsage,
    CacheConfig,
    Lora,
}

const NAMES: [(&str, Name); 5] = [
    ("vllm:num_requests_waiting", Name::Waiting),
    ("vllm:num_requests_running", Name::Running),
    ("vllm:kv_cache_usage_perc", Name::KvCacheUsage),
    ("vllm:cache_config_info", Name::CacheConfig),
    ("vllm:lora_requests_info", Name::Lora),
];

/// One gauge: a family with a single sample.
#[derive(Clone, Copy, Debug)]
pub struct Gauge<'a> {
    pub(super) value: f64,
    pub(super) labels: GaugeLabels<'a>,
}

/// The labels of a gauge.
#[derive(Clone, Copy, Debug)]
pub struct GaugeLabels<'a> {
    gauges: &'a EngineGauges,
    name: Name,
}

impl EngineGauges {
    /// Returns whether the gauges answer for the family `name`. What they do not answer for stands in the text
    /// only, so a client that reads such a family must ask for the text.
    pub fn covers(name: &str) -> bool {
        NAMES.iter().any(|(text, _)| *text == name)
    }

    /// Returns the family `name`.
    pub(super) fn gauge(&self, name: &str) -> Option<Gauge<'_>> {
        let &(_, name) = NAMES.iter().find(|(text, _)| *text == name)?;
        let value = match name {
            Name::Waiting => self.waiting as f64,
            Name::Running => self.running as f64,
            Name::KvCacheUsage => self.kv_cache_usage,
            Name::CacheConfig => 1.0,
            Name::Lora => self.lora.as_ref()?.since,
        };
        Some(Gauge { value, labels: GaugeLabels { gauges: self, name } })
    }
}

impl<'a> GaugeLabels<'a> {
    /// Returns the value of the label `label`.
    pub(super) fn get(&self, label: &str) -> Option<Cow<'a, str>> {
        let gauges = self.gauges;
        match (self.name, label) {
            (_, "engine") => Some(gauges.engine.to_string().into()),
            (Name::Waiting | Name::Running | Name::KvCacheUsage, "model_name") => {
                Some((&*gauges.model_name).into())
            }
            (Name::CacheConfig, "block_size") => Some(gauges.cache_config.block_size.to_string().into()),
            (Name::CacheConfig, "num_gpu_blocks") => {
                Some(gauges.cache_config.num_gpu_blocks.to_string().into())
            }
            (Name::Lora, _) => {
                let lora = gauges.lora.as_ref()?;
                match label {
                    "running_lora_adapters" => Some((&*lora.running).into()),
                    "waiting_lora_adapters" => Some((&*lora.waiting).into()),
                    "max_lora" => Some(lora.max_lora.to_string().into()),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
