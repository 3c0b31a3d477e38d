//! `multicluster-metrics-extractor`: load of another cluster, from its router (configuration spec 6.3).

use std::rc::Rc;

use executor::Instant;
use serde::{Deserialize, Serialize};

use super::metric_spec::MetricSpec;
use super::{ExtractError, Extractor, Payload, PayloadKind};
use crate::attributes::ScalarMetricValue;
use crate::data_key::DataKey;
use crate::endpoint::{Endpoint, EndpointMetadata};
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles, TypedKey};

/// The plugin type.
pub const TYPE: &str = "multicluster-metrics-extractor";

/// Attribute with the KV cache in use.
pub const KV_CACHE_UTILIZATION: &str = "llm-d.ai/multicluster-kv-cache-utilization";
/// Attribute with the waiting requests.
pub const QUEUE_SIZE: &str = "llm-d.ai/multicluster-queue-size";

/// Parameters of [`TYPE`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct MulticlusterParameters {
    /// Metric specification, empty = `llm_d_epp_average_kv_cache_utilization`.
    pub kv_cache_utilization_metric: String,
    /// Metric specification, empty = `llm_d_epp_average_queue_size`.
    pub queue_size_metric: String,
}

/// Keeps two means of another cluster's router as attributes.
#[derive(Clone, Debug)]
pub struct MulticlusterMetricsExtractor {
    specs: [(DataKey, MetricSpec); 2],
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let parameters: MulticlusterParameters = parameters.decode()?;
    let spec = |text: &str, default: &str| {
        let text = if text.is_empty() { default } else { text };
        match MetricSpec::parse(text) {
            Ok(Some(spec)) => Ok(spec),
            Ok(None) => Err(FactoryError::Other("metric specification cannot be empty".into())),
            Err(error) => Err(FactoryError::Other(error.to_string())),
        }
    };
    let specs = [
        (
            DataKey::plain(KV_CACHE_UTILIZATION),
            spec(&parameters.kv_cache_utilization_metric, "llm_d_epp_average_kv_cache_utilization")?,
        ),
        (DataKey::plain(QUEUE_SIZE), spec(&parameters.queue_size_metric, "llm_d_epp_average_queue_size")?),
    ];
    let extractor = Rc::new(MulticlusterMetricsExtractor { specs });
    let mut instance = Instance::new(TYPE, name, Roles { extractor: Some(extractor), ..Roles::default() });
    // The data graph names the attributes as values without a producer.
    instance.data.produces = [KV_CACHE_UTILIZATION, QUEUE_SIZE]
        .map(|name| TypedKey::of::<ScalarMetricValue>(&DataKey::new(name, "")))
        .into();
    Ok(instance)
}

impl Extractor for MulticlusterMetricsExtractor {
    fn payload(&self) -> PayloadKind {
        PayloadKind::Metrics
    }

    fn families(&self, _: &EndpointMetadata) -> Vec<&str> {
        self.specs.iter().map(|(_, spec)| spec.name.as_str()).collect()
    }

    fn extract(&self, payload: &Payload, endpoint: &mut Endpoint, _: Instant) -> Result<(), ExtractError> {
        let families = payload.metrics()?;
        let mut problems = Vec::new();
        for (key, spec) in &self.specs {
            match spec.select(families) {
                Ok(sample) => endpoint.attributes.put(key.clone(), Rc::new(ScalarMetricValue(sample.value))),
                Err(not_found) => problems.push(not_found.to_string()),
            }
        }
        ExtractError::unless_empty(problems)
    }
}

#[cfg(test)]
mod tests {
    use executor::Real;

    use super::*;
    use crate::data_layer::families::Families;
    use crate::data_layer::text_format::Exposition;

    /// Configuration spec 6.3: of two metrics, each is kept that is there.
    #[test]
    fn a_clusters_means_become_attributes() {
        let runtime = Real::builder().current_thread().build().expect("the runtime starts");
        let handle = Handle::new(runtime.rt());
        let renamed = serde_json::json!({ "queueSizeMetric": "depth{pool=\"a\"}" });
        let (kv, queue) = ("llm_d_epp_average_kv_cache_utilization 0.25", "llm_d_epp_average_queue_size 3");
        for (parameters, lines, want, problems) in [
            (Parameters::absent(), vec![kv, queue], (Some(0.25), Some(3.0)), 0),
            (Parameters::absent(), vec![queue], (None, Some(3.0)), 1),
            (Parameters::absent(), vec![], (None, None), 2),
            (
                Parameters::new(renamed),
                vec![kv, "depth 9", "depth{pool=\"a\"} 7"],
                (Some(0.25), Some(7.0)),
                0,
            ),
        ] {
            let instance = factory("m", &parameters, &handle).expect("the parameters are accepted");
            let typed = |line: &&str| {
                let name = line.split([' ', '{']).next().unwrap_or_default().to_owned();
                (name, format!("{line}\n"))
            };
            let mut body = String::new();
            for (name, line) in lines.iter().map(typed) {
                if !body.contains(&format!("# TYPE {name} ")) {
                    body += &format!("# TYPE {name} gauge\n");
                }
                body += &line;
            }
            let payload = Payload::Metrics(Families::Text(Exposition::parse(body.into()).expect("parses")));
            let mut endpoint = Endpoint::default();
            let extractor = instance.roles.extractor.expect("it is an extractor");
            let extracted = extractor.extract(&payload, &mut endpoint, Instant::ZERO);
            let value = |key| endpoint.attributes.get::<ScalarMetricValue>(&DataKey::plain(key)).map(|v| v.0);
            assert_eq!((value(KV_CACHE_UTILIZATION), value(QUEUE_SIZE)), want, "{lines:?}");
            assert_eq!(extracted.map_or_else(|error| error.problems.len(), |()| 0), problems, "{lines:?}");
            assert_eq!(endpoint.metrics.update_time, None, "metrics are not touched");
            let produced: Vec<_> = instance.data.produces.iter().map(|p| p.key.as_str().to_owned()).collect();
            assert_eq!(produced, [KV_CACHE_UTILIZATION, QUEUE_SIZE].map(|name| format!("{name}/")));
        }
    }
}
