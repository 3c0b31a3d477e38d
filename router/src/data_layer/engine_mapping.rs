//! Where each kind of model server publishes what the router reads (configuration spec 6.3).

use serde::{Deserialize, Serialize};

use super::metric_spec::{MetricSpec, MetricSpecError};
use crate::data_key::DataKey;

/// One element of `engineConfigs`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct EngineConfig {
    /// Value of the engine label.
    pub name: String,
    /// Waiting requests.
    pub queued_requests_spec: String,
    /// Running requests.
    pub running_requests_spec: String,
    /// KV cache in use, a fraction.
    pub kv_usage_spec: String,
    /// Adapters.
    pub lora_spec: String,
    /// Cache sizes as labels.
    pub cache_info_spec: String,
    /// Label of `cacheInfoSpec` with the tokens a block, empty = `block_size`.
    pub cache_block_size_label_name: String,
    /// Label of `cacheInfoSpec` with the number of blocks, empty = `num_gpu_blocks`.
    pub cache_num_blocks_label_name: String,
    /// Tokens a block as a value.
    pub cache_block_size_spec: String,
    /// Number of blocks as a value.
    pub cache_num_blocks_spec: String,
    /// Further values, written as attributes.
    pub custom_metrics: Vec<CustomMetric>,
}

/// One element of `customMetrics`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CustomMetric {
    /// Key of the attribute, verbatim.
    pub attribute_key: String,
    /// What is read.
    pub metric_spec: String,
}

/// The metrics of one kind of model server; `None` = it has no such metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EngineMapping {
    pub(super) queued: Option<MetricSpec>,
    pub(super) running: Option<MetricSpec>,
    pub(super) kv_usage: Option<MetricSpec>,
    pub(super) lora: Option<MetricSpec>,
    pub(super) cache_info: Option<MetricSpec>,
    pub(super) block_size_label: String,
    pub(super) num_blocks_label: String,
    pub(super) block_size: Option<MetricSpec>,
    pub(super) num_blocks: Option<MetricSpec>,
    pub(super) custom: Vec<(DataKey, MetricSpec)>,
}

impl EngineMapping {
    /// Reads the specifications of `config`.
    pub(super) fn new(config: &EngineConfig) -> Result<Self, String> {
        let spec = |text: &str| MetricSpec::parse(text).map_err(|error: MetricSpecError| error.to_string());
        let label = |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
        let mut custom: Vec<(DataKey, MetricSpec)> = Vec::new();
        for metric in &config.custom_metrics {
            let key = &metric.attribute_key;
            if key.is_empty() {
                return Err("custom metric attributeKey cannot be empty".into());
            }
            if custom.iter().any(|(other, _)| other.as_str() == key) {
                return Err(format!("custom metric attributeKey {key:?} is duplicated"));
            }
            let spec = spec(&metric.metric_spec)?
                .ok_or_else(|| format!("custom metric {key:?} spec cannot be empty"))?;
            custom.push((DataKey::plain(key), spec));
        }
        Ok(EngineMapping {
            queued: spec(&config.queued_requests_spec)?,
            running: spec(&config.running_requests_spec)?,
            kv_usage: spec(&config.kv_usage_spec)?,
            lora: spec(&config.lora_spec)?,
            cache_info: spec(&config.cache_info_spec)?,
            block_size_label: label(&config.cache_block_size_label_name, "block_size"),
            num_blocks_label: label(&config.cache_num_blocks_label_name, "num_gpu_blocks"),
            block_size: spec(&config.cache_block_size_spec)?,
            num_blocks: spec(&config.cache_num_blocks_spec)?,
            custom,
        })
    }

    /// Iterates over the families that the mapping reads.
    pub(super) fn families(&self) -> impl Iterator<Item = &str> {
        let fixed = [
            &self.queued,
            &self.running,
            &self.kv_usage,
            &self.lora,
            &self.cache_info,
            &self.block_size,
            &self.num_blocks,
        ];
        let custom = self.custom.iter().map(|(_, spec)| spec);
        fixed.into_iter().flatten().chain(custom).map(|spec| spec.name.as_str())
    }
}

/// Returns the engines that are known without configuration.
pub(super) fn built_in() -> Vec<EngineConfig> {
    vec![
        EngineConfig {
            name: "vllm".into(),
            queued_requests_spec: "vllm:num_requests_waiting".into(),
            running_requests_spec: "vllm:num_requests_running".into(),
            kv_usage_spec: "vllm:kv_cache_usage_perc".into(),
            lora_spec: "vllm:lora_requests_info".into(),
            cache_info_spec: "vllm:cache_config_info".into(),
            ..Default::default()
        },
        EngineConfig {
            name: "sglang".into(),
            queued_requests_spec: "sglang:num_queue_reqs".into(),
            running_requests_spec: "sglang:num_running_reqs".into(),
            kv_usage_spec: "sglang:token_usage".into(),
            cache_info_spec: "sglang:cache_config_info".into(),
            cache_block_size_label_name: "page_size".into(),
            cache_num_blocks_label_name: "num_pages".into(),
            ..Default::default()
        },
        EngineConfig {
            name: "trtllm-serve".into(),
            queued_requests_spec: "trtllm_num_requests_waiting".into(),
            running_requests_spec: "trtllm_num_requests_running".into(),
            kv_usage_spec: "trtllm_kv_cache_utilization".into(),
            cache_block_size_spec: "trtllm_kv_cache_tokens_per_block".into(),
            cache_num_blocks_spec: "trtllm_kv_cache_max_blocks".into(),
            ..Default::default()
        },
        EngineConfig {
            name: "triton-tensorrt-llm".into(),
            queued_requests_spec: "nv_trt_llm_request_metrics{request_type=waiting}".into(),
            running_requests_spec: "nv_trt_llm_request_metrics{request_type=scheduled}".into(),
            kv_usage_spec: "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}".into(),
            cache_block_size_spec: "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=tokens_per}".into(),
            cache_num_blocks_spec: "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}".into(),
            ..Default::default()
        },
        EngineConfig {
            name: "triton".into(),
            queued_requests_spec: "nv_inference_pending_request_count".into(),
            running_requests_spec: "nv_inference_exec_count".into(),
            ..Default::default()
        },
    ]
}
