//! `core-metrics-extractor`: load, cache and adapters of a model server (configuration spec 6.3).

use std::collections::BTreeMap;
use std::rc::Rc;

use executor::Instant;
use serde::{Deserialize, Serialize};

use super::engine_mapping::{self, EngineConfig, EngineMapping};
use super::families::Families;
use super::metric_spec::{MetricSpec, NotFound};
use super::{ExtractError, Extractor, Payload, PayloadKind};
use crate::attributes::ScalarMetricValue;
use crate::endpoint::{Endpoint, EndpointMetadata, Metrics};
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};

/// The plugin type.
pub const TYPE: &str = "core-metrics-extractor";

/// Label that names the engine where `engineLabelKey` says nothing else.
const ENGINE_LABEL: &str = "llm-d.ai/engine-type";
/// Label that names the engine where the configured one does not.
const LEGACY_ENGINE_LABEL: &str = "inference.networking.k8s.io/engine-type";
/// Engine of an endpoint without label.
const DEFAULT_ENGINE: &str = "vllm";
/// No engine may have this name.
const RESERVED: &str = "default";

/// Parameters of [`TYPE`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct CoreMetricsParameters {
    /// Label of an endpoint that names its engine, empty = `llm-d.ai/engine-type`.
    pub engine_label_key: String,
    /// Engine of endpoints without that label, empty = `vllm`.
    pub default_engine: String,
    /// Further engines; one with the name of a built-in engine stands in its place.
    pub engine_configs: Vec<EngineConfig>,
}

/// Reads load, cache and adapters of a model server into [`Metrics`].
///
/// A value that a scrape does not have keeps its old value and is a problem; the others are taken. The update
/// time is set if anything was read.
#[derive(Clone, Debug)]
pub struct CoreMetricsExtractor {
    engine_label: String,
    engines: Vec<(String, EngineMapping)>,
    default_engine: usize,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let extractor = CoreMetricsExtractor::new(&parameters.decode()?).map_err(FactoryError::Other)?;
    Ok(Instance::new(TYPE, name, Roles { extractor: Some(Rc::new(extractor)), ..Roles::default() }))
}

impl CoreMetricsExtractor {
    /// Returns the extractor, or what is wrong with the parameters.
    pub fn new(parameters: &CoreMetricsParameters) -> Result<Self, String> {
        let or = |text: &str, default: &str| if text.is_empty() { default } else { text }.to_owned();
        let mut engines: Vec<(String, EngineMapping)> = Vec::new();
        for config in &parameters.engine_configs {
            if config.name.is_empty() {
                return Err("engine config name cannot be empty".into());
            }
            if config.name == RESERVED {
                return Err(format!("engine config name cannot be {RESERVED:?} (reserved)"));
            }
            if engines.iter().any(|(name, _)| *name == config.name) {
                return Err(format!("mapping for engine type {:?} already exists", config.name));
            }
            let mapping = EngineMapping::new(config)
                .map_err(|problem| format!("engine config {:?}: {problem}", config.name))?;
            engines.push((config.name.clone(), mapping));
        }
        for config in engine_mapping::built_in() {
            if !engines.iter().any(|(name, _)| *name == config.name) {
                let mapping = EngineMapping::new(&config)?;
                engines.push((config.name, mapping));
            }
        }
        let default = or(&parameters.default_engine, DEFAULT_ENGINE);
        let Some(default_engine) = engines.iter().position(|(name, _)| *name == default) else {
            let known: Vec<&str> = engines.iter().map(|(name, _)| name.as_str()).collect();
            return Err(format!(
                "defaultEngine {default:?} not found in engineConfigs; known: {}",
                known.join(", ")
            ));
        };
        Ok(CoreMetricsExtractor {
            engine_label: or(&parameters.engine_label_key, ENGINE_LABEL),
            engines,
            default_engine,
        })
    }

    fn mapping(&self, endpoint: &EndpointMetadata) -> &EngineMapping {
        let label = |key: &str| endpoint.labels.get(key).filter(|engine| !engine.is_empty());
        let engine = label(&self.engine_label).or_else(|| label(LEGACY_ENGINE_LABEL));
        let known = engine.and_then(|engine| self.engines.iter().find(|(name, _)| name == engine));
        &known.unwrap_or(&self.engines[self.default_engine]).1
    }
}

impl Extractor for CoreMetricsExtractor {
    fn payload(&self) -> PayloadKind {
        PayloadKind::Metrics
    }

    fn families(&self, endpoint: &EndpointMetadata) -> Vec<&str> {
        self.mapping(endpoint).families().collect()
    }

    fn extract(&self, payload: &Payload, endpoint: &mut Endpoint, now: Instant) -> Result<(), ExtractError> {
        let families = payload.metrics()?;
        let mapping = self.mapping(&endpoint.metadata);
        let mut reading =
            Reading { families, metrics: endpoint.metrics.clone(), any: false, problems: vec![] };
        if let Some(queued) = reading.value(&mapping.queued) {
            reading.metrics.waiting_queue_size = integer(queued);
        }
        if let Some(running) = reading.value(&mapping.running) {
            reading.metrics.running_requests_size = integer(running);
        }
        if let Some(usage) = reading.value(&mapping.kv_usage) {
            reading.metrics.kv_cache_usage_percent = usage;
        }
        reading.adapters(&mapping.lora);
        reading.cache_info(mapping);
        if let Some(block_size) = reading.value(&mapping.block_size) {
            reading.metrics.cache_block_size = integer(block_size);
        }
        if let Some(num_blocks) = reading.value(&mapping.num_blocks) {
            reading.metrics.cache_num_blocks = integer(num_blocks);
        }
        for (key, spec) in &mapping.custom {
            if let Some(value) = reading.select(spec, |sample| sample.value) {
                endpoint.attributes.put(key.clone(), Rc::new(ScalarMetricValue(value)));
            }
        }
        let Reading { mut metrics, any, problems, .. } = reading;
        if any {
            metrics.update_time = Some(now);
            endpoint.metrics = metrics;
        }
        ExtractError::unless_empty(problems)
    }
}

/// One extraction under way.
struct Reading<'a> {
    families: &'a Families,
    metrics: Metrics,
    any: bool,
    problems: Vec<String>,
}

impl<'a> Reading<'a> {
    fn value(&mut self, spec: &Option<MetricSpec>) -> Option<f64> {
        spec.as_ref().and_then(|spec| self.select(spec, |sample| sample.value))
    }

    fn select<T>(
        &mut self,
        spec: &MetricSpec,
        read: impl FnOnce(super::families::Sample<'a>) -> T,
    ) -> Option<T> {
        match spec.select(self.families) {
            Ok(sample) => {
                self.any = true;
                Some(read(sample))
            }
            Err(not_found @ (NotFound::Family(_) | NotFound::Sample(_))) => {
                self.problems.push(not_found.to_string());
                None
            }
        }
    }

    /// Reads the adapters; a server without adapters does not have the family, which is no problem.
    fn adapters(&mut self, spec: &Option<MetricSpec>) {
        let Some(spec) = spec else { return };
        let Some(sample) = spec.select_largest(self.families) else { return };
        self.any = true;
        let names = |label: &str| -> Rc<BTreeMap<String, i64>> {
            let text = sample.label(label).unwrap_or_default();
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            Rc::new(names.map(|name| (name.to_owned(), 0)).collect())
        };
        self.metrics.active_models = names("running_lora_adapters");
        self.metrics.waiting_models = names("waiting_lora_adapters");
        if let Some(max) = self.label_integer(&spec.name, "max_lora", sample.label("max_lora").as_deref()) {
            self.metrics.max_active_models = max;
        }
    }

    /// Reads the cache's sizes from labels. The block size is reset first, the number of blocks is not.
    fn cache_info(&mut self, mapping: &EngineMapping) {
        let Some(spec) = &mapping.cache_info else { return };
        let labels = [mapping.block_size_label.as_str(), mapping.num_blocks_label.as_str()];
        let Some([block_size, num_blocks]) =
            self.select(spec, |sample| labels.map(|label| sample.label(label)))
        else {
            return;
        };
        let block_size = self.label_integer(&spec.name, labels[0], block_size.as_deref());
        self.metrics.cache_block_size = block_size.unwrap_or(0);
        if let Some(num_blocks) = self.label_integer(&spec.name, labels[1], num_blocks.as_deref()) {
            self.metrics.cache_num_blocks = num_blocks;
        }
    }

    fn label_integer(&mut self, family: &str, label: &str, text: Option<&str>) -> Option<i64> {
        let text = text.filter(|text| !text.is_empty())?;
        let value = text.parse().ok();
        if value.is_none() {
            self.problems.push(format!("label {label:?} of {family:?}: {text:?} is not an integer"));
        }
        value
    }
}

/// Truncates to an integer. What no 64-bit integer holds becomes the smallest one, as on the machines that the
/// pinned release runs on.
fn integer(value: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&value) { value as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests;
