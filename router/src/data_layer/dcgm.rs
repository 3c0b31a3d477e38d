//! `dcgm-data-source` and `dcgm-extractor`: how busy a pod's GPUs are (configuration spec 6.5).

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use executor::Instant;
use serde::{Deserialize, Serialize};

use super::families::Families;
use super::http_source::{BODY_LIMIT, HttpSource};
use super::text_format::{Exposition, Kind};
use super::{ExtractError, Extractor, Payload, PayloadKind, PollingSource};
use crate::attributes::ScalarMetricValue;
use crate::data_key::DataKey;
use crate::endpoint::{Endpoint, EndpointMetadata};
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles, TypedKey};

/// The plugin type of the source.
pub const SOURCE_TYPE: &str = "dcgm-data-source";
/// The plugin type of the extractor.
pub const EXTRACTOR_TYPE: &str = "dcgm-extractor";

/// The family that is read. Unit: percent.
const UTILIZATION: &str = "DCGM_FI_DEV_GPU_UTIL";
/// Port of the exporter.
const DEFAULT_PORT: i64 = 9400;

/// Parameters of [`SOURCE_TYPE`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DcgmSourceParameters {
    /// `http` (default) or `https`.
    pub scheme: Option<String>,
    /// Default `/metrics`.
    pub path: Option<String>,
    /// Port of the exporter, default 9400; not above zero = poll the metrics host.
    pub port: Option<i64>,
    /// Whether a server's certificate goes unverified; default yes.
    pub insecure_skip_verify: Option<bool>,
    /// Whether the exporter listens on the node's address; needs a port.
    pub use_node_address: bool,
    /// Go duration; empty = every base tick.
    pub interval: String,
}

/// Polls the GPU exporter beside an endpoint.
#[derive(Clone, Debug)]
pub struct DcgmDataSource {
    http: HttpSource,
}

/// Builds an instance of [`SOURCE_TYPE`].
pub fn source_factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let parameters: DcgmSourceParameters = parameters.decode()?;
    let port = parameters.port.unwrap_or(DEFAULT_PORT);
    if parameters.use_node_address && port == 0 {
        return Err(FactoryError::Other("useNodeAddress requires a port".into()));
    }
    let mut http = HttpSource::new(
        parameters.scheme.as_deref().unwrap_or("http"),
        parameters.path.as_deref().unwrap_or("/metrics"),
        &parameters.interval,
    )
    .map_err(FactoryError::Other)?;
    if port > 0 {
        let port = u32::try_from(port).map_err(|_| FactoryError::Other(format!("invalid port {port}")))?;
        http = http.with_port(port);
    }
    if parameters.use_node_address {
        http = http.with_node_address();
    }
    let source = Rc::new(DcgmDataSource { http });
    Ok(Instance::new(SOURCE_TYPE, name, Roles { polling_source: Some(source), ..Roles::default() }))
}

impl PollingSource for DcgmDataSource {
    fn url(&self, endpoint: &EndpointMetadata) -> String {
        self.http.url(endpoint)
    }

    fn interval(&self) -> Duration {
        self.http.interval()
    }

    fn payload(&self) -> PayloadKind {
        PayloadKind::Metrics
    }

    fn body_limit(&self) -> usize {
        BODY_LIMIT
    }

    fn decode(&self, body: Bytes) -> Result<Payload, String> {
        let exposition = Exposition::parse(body).map_err(|error| error.to_string())?;
        Ok(Payload::Metrics(Families::Text(exposition)))
    }
}

/// Keeps the utilization of a pod's busiest GPU as an attribute, a fraction.
#[derive(Clone, Debug)]
pub struct DcgmExtractor {
    key: DataKey,
}

/// Builds an instance of [`EXTRACTOR_TYPE`]; parameters are not looked at.
pub fn extractor_factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let key = DataKey::new("GPUUtilization", EXTRACTOR_TYPE);
    let extractor = Rc::new(DcgmExtractor { key: key.clone() });
    let roles = Roles { extractor: Some(extractor), ..Roles::default() };
    let mut instance = Instance::new(EXTRACTOR_TYPE, name, roles);
    instance.data.produces.push(TypedKey::of::<ScalarMetricValue>(&key));
    Ok(instance)
}

impl Extractor for DcgmExtractor {
    fn payload(&self) -> PayloadKind {
        PayloadKind::Metrics
    }

    fn families(&self, _: &EndpointMetadata) -> Vec<&str> {
        vec![UTILIZATION]
    }

    fn extract(&self, payload: &Payload, endpoint: &mut Endpoint, _: Instant) -> Result<(), ExtractError> {
        let Some(family) = payload.metrics()?.family(UTILIZATION) else {
            return Err(ExtractError::new(format!("metric {UTILIZATION} not found in DCGM response")));
        };
        let pod = endpoint.metadata.name.as_str();
        let mut samples = family
            .samples()
            .filter(|sample| pod.is_empty() || sample.label("pod").is_none_or(|label| label == pod))
            .peekable();
        if samples.peek().is_none() {
            return Err(ExtractError::new(format!("no sample of {UTILIZATION} for pod {pod:?}")));
        }
        if family.kind() != Kind::Gauge {
            return Err(ExtractError::new(format!("expected gauge metric, {UTILIZATION} is none")));
        }
        // NaN never wins, nothing lies below 0.
        let busiest =
            samples.fold(0.0, |max: f64, sample| if sample.value > max { sample.value } else { max });
        endpoint.attributes.put(self.key.clone(), Rc::new(ScalarMetricValue(busiest / 100.0)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Configuration spec 6.5, the facts.
    #[test]
    fn the_busiest_gpu_of_the_pod_is_its_utilization() {
        let of = |pod: &str, lines: &[&str], kind: &str| {
            let lines = lines.iter().map(|line| format!("DCGM_FI_DEV_GPU_UTIL{line}\n")).collect::<String>();
            let body = format!("# TYPE DCGM_FI_DEV_GPU_UTIL {kind}\n{lines}");
            let exposition = Exposition::parse(body.into()).expect("an exposition");
            let metadata = EndpointMetadata { name: pod.to_owned(), ..EndpointMetadata::default() };
            let mut endpoint = Endpoint { metadata: metadata.into(), ..Endpoint::default() };
            let key = DataKey::plain("GPUUtilization/dcgm-extractor");
            let extractor = DcgmExtractor { key: key.clone() };
            let payload = Payload::Metrics(Families::Text(exposition));
            let extracted = extractor.extract(&payload, &mut endpoint, Instant::ZERO);
            extracted.map(|()| endpoint.attributes.get::<ScalarMetricValue>(&key).expect("it was put").0)
        };
        let pods = &["{pod=\"vllm-pod-1\"} 25", "{pod=\"vllm-pod-2\"} 80", "{pod=\"vllm-pod-3\"} 10"][..];
        for (pod, lines, want) in [
            ("", &[" 73"][..], 0.73),
            ("", &["{gpu=\"0\"} 73", "{gpu=\"1\"} 81"], 0.81),
            ("vllm-pod-2", pods, 0.80),
            ("", pods, 0.80),
            ("vllm-pod-3", &["{pod=\"vllm-pod-3\"} 10", "{gpu=\"1\"} 40"], 0.40),
            ("", &[" NaN", " -5"], 0.0),
            ("", &[" 250"], 2.5),
        ] {
            assert_eq!(of(pod, lines, "gauge").ok(), Some(want), "{pod:?} {lines:?}");
        }
        assert!(of("vllm-pod-9", pods, "gauge").unwrap_err().to_string().contains("vllm-pod-9"));
        assert!(of("", &[" 1"], "counter").unwrap_err().to_string().contains("expected gauge metric"));
        assert!(of("", &[], "gauge").unwrap_err().to_string().contains("not found in DCGM response"));
    }
}
