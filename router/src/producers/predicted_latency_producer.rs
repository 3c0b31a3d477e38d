//! `predicted-latency-producer`: asks a predictor how long each candidate would take, and teaches it how long requests
//! took (request-control spec 8.5).

mod context;
mod contexts;
mod observe;
mod predict;
mod running;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::attributes::{EncoderCacheMatchInfo, InFlightLoad, LatencyPredictionInfo, PrefixCacheMatchInfo};
use crate::data_key::{DataKey, resolve, well_known};
use crate::endpoint::EndpointMetadata;
use crate::latency_predictor::{Client, LatencyPredictor, Settings};
use crate::metrics::Metric;
use crate::plugin::{
    DataFlow, FactoryError, Handle, Instance, ParameterError, Parameters, Periodic, Roles, StateDumper,
    TypedKey,
};
use crate::request::TokenizedPrompt;
use contexts::Contexts;
use running::Running;

/// Name of the type.
pub const TYPE: &str = "predicted-latency-producer";

/// How long a request is remembered that nobody mentions. Unit: nanoseconds.
const DEFAULT_CONTEXT_TTL: i64 = 300_000_000_000;

/// Every how long requests are looked for that nobody mentions any more; one is forgotten before that where it matters.
const CLEAN_UP_PERIOD: Duration = Duration::from_secs(60);

/// Most endpoints that a dump lists.
const MOST_DUMPED: usize = 100;

/// Parameters of the type.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PredictedLatencyParameters {
    /// Ignored.
    pub sampling_mean: f64,
    /// Ignored.
    pub max_decode_token_samples_for_prediction: i64,
    /// Factor on objectives of time an output token; above zero.
    pub slo_buffer_factor: f64,
    /// How long a request is remembered that nobody mentions; zero or less = for ever. Unit: nanoseconds.
    #[serde(rename = "contextTTL")]
    pub context_ttl: i64,
    /// Whether responses come in streams, so that their first chunk is their first token.
    pub streaming_mode: bool,
    /// Label whose value is the endpoint's role; empty = none.
    pub endpoint_role_label: String,
    /// Whether latencies are predicted, not only learned.
    pub predict_in_produce: bool,
    /// Whose prefix matches to read; empty = the approximate producer's.
    pub prefix_match_info_producer_name: String,
    /// Whose counts of requests in flight to read.
    pub in_flight_load_producer_name: String,
    /// Whether multimodal items count.
    pub use_encoder_cache_features: bool,
    /// Whose matches of encoder caches to read.
    pub encoder_cache_match_info_producer_name: String,
}

impl Default for PredictedLatencyParameters {
    fn default() -> Self {
        PredictedLatencyParameters {
            sampling_mean: 1000.0,
            max_decode_token_samples_for_prediction: 0,
            slo_buffer_factor: 1.0,
            context_ttl: DEFAULT_CONTEXT_TTL,
            streaming_mode: false,
            endpoint_role_label: String::new(),
            predict_in_produce: true,
            prefix_match_info_producer_name: String::new(),
            in_flight_load_producer_name: String::new(),
            use_encoder_cache_features: false,
            encoder_cache_match_info_producer_name: String::new(),
        }
    }
}

impl PredictedLatencyParameters {
    fn checked(self) -> Result<Self, ParameterError> {
        // Not a number is not above zero either.
        if self.slo_buffer_factor > 0.0 {
            return Ok(self);
        }
        let value = self.slo_buffer_factor;
        let message = format!("invalid PredictedLatency config: sloBufferFactor must be > 0, got {value:.6}");
        Err(ParameterError::at("sloBufferFactor", message))
    }
}

/// Builds an instance that asks the predictor of the environment.
///
/// # Errors
/// Parameters that do not decode or are out of range, an environment that names no server.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    // Decoded first: a wrong environment is no matter for whoever only asks for the shape of the parameters.
    parameters.decode::<PredictedLatencyParameters>()?.checked()?;
    let settings = Settings::from_environment().map_err(|error| FactoryError::Other(error.to_string()))?;
    build_with_settings(name, parameters, handle, settings)
}

/// Builds an instance that asks the predictor of these settings.
///
/// # Errors
/// Parameters that do not decode or are out of range.
pub fn build_with_settings(
    name: &str,
    parameters: &Parameters,
    handle: &Handle,
    settings: Settings,
) -> Result<Instance, FactoryError> {
    let client = Rc::new(Client::new(handle.rt().clone(), settings, &handle.stream(name)));
    let mut instance = build_with_predictor(name, parameters, handle, client.clone())?;
    instance.roles.startup = Some(client.clone());
    instance.roles.periodic.push(client);
    Ok(instance)
}

/// Builds an instance that asks `predictor`.
///
/// # Errors
/// Parameters that do not decode or are out of range.
pub fn build_with_predictor(
    name: &str,
    parameters: &Parameters,
    handle: &Handle,
    predictor: Rc<dyn LatencyPredictor>,
) -> Result<Instance, FactoryError> {
    let parameters = parameters.decode::<PredictedLatencyParameters>()?.checked()?;
    let producer = Rc::new(PredictedLatencyProducer {
        rt: handle.rt().clone(),
        key: DataKey::new(well_known::LATENCY_PREDICTION_INFO.0, name),
        prefix_key: resolve(well_known::PREFIX_CACHE_MATCH_INFO, &parameters.prefix_match_info_producer_name),
        load_key: resolve(well_known::IN_FLIGHT_LOAD, &parameters.in_flight_load_producer_name),
        encoder_key: resolve(
            well_known::ENCODER_CACHE_MATCH_INFO,
            &parameters.encoder_cache_match_info_producer_name,
        ),
        metrics: LatencyMetrics::new(name, handle),
        core: RefCell::new(Core {
            contexts: Contexts::new(u64::try_from(parameters.context_ttl).unwrap_or(0)),
            running: Running::default(),
        }),
        parameters,
        predictor,
    });
    let mut requires = vec![
        TypedKey::of::<PrefixCacheMatchInfo>(&producer.prefix_key),
        TypedKey::of::<InFlightLoad>(&producer.load_key),
        TypedKey::of::<TokenizedPrompt>(&resolve(well_known::TOKENIZED_PROMPT, "")),
    ];
    if producer.parameters.use_encoder_cache_features {
        requires.push(TypedKey::of::<EncoderCacheMatchInfo>(&producer.encoder_key));
    }
    let data = DataFlow {
        produces: vec![TypedKey::of::<LatencyPredictionInfo>(&producer.key)],
        requires,
        declares: true,
        ..DataFlow::default()
    };
    let roles = Roles {
        producer: Some(producer.clone()),
        pre_request: Some(producer.clone()),
        response_header: Some(producer.clone()),
        response_body: Some(producer.clone()),
        periodic: vec![producer.clone()],
        state_dumper: Some(producer),
        ..Roles::default()
    };
    Ok(Instance::new(TYPE, name, roles).with_data(data))
}

struct PredictedLatencyProducer {
    rt: Rt,
    parameters: PredictedLatencyParameters,
    predictor: Rc<dyn LatencyPredictor>,
    key: DataKey,
    prefix_key: DataKey,
    load_key: DataKey,
    encoder_key: DataKey,
    metrics: LatencyMetrics,
    core: RefCell<Core>,
}

struct Core {
    contexts: Contexts,
    running: Running,
}

impl Core {
    /// Forgets requests that nobody has mentioned for too long.
    fn expire(&mut self, now: Instant) {
        for (id, context) in self.contexts.expired(now) {
            if let Some(sent) = &context.borrow().sent {
                self.running.remove(&sent.target.metadata.id, &id);
            }
        }
    }
}

impl PredictedLatencyProducer {
    /// Returns the role of an endpoint, empty where it has none.
    fn role<'a>(&self, endpoint: &'a EndpointMetadata) -> &'a str {
        match self.parameters.endpoint_role_label.as_str() {
            "" => "",
            label => endpoint.labels.get(label).map_or("", String::as_str),
        }
    }
}

/// What the producer measures. The incoming model is not known here: its label is empty.
struct LatencyMetrics {
    name: String,
    ttft: Metric,
    tpot: Metric,
    predicted_ttft: Metric,
    predicted_tpot: Metric,
    ttft_prediction: Metric,
    tpot_prediction: Metric,
    violations: Metric,
    last: Metric,
}

impl LatencyMetrics {
    fn new(name: &str, handle: &Handle) -> Self {
        let metric = |name: &str| handle.metrics().metric(name);
        LatencyMetrics {
            name: name.to_owned(),
            ttft: metric("inference_objective_request_ttft_seconds"),
            tpot: metric("inference_objective_request_tpot_seconds"),
            predicted_ttft: metric("llm_d_epp_request_predicted_ttft_seconds"),
            predicted_tpot: metric("llm_d_epp_request_predicted_tpot_seconds"),
            ttft_prediction: metric("llm_d_epp_request_ttft_prediction_duration_seconds"),
            tpot_prediction: metric("llm_d_epp_request_tpot_prediction_duration_seconds"),
            violations: metric("llm_d_epp_request_slo_violation_total"),
            last: metric("llm_d_epp_inference_request_metric"),
        }
    }

    /// Notes how long a prediction took; the two model labels stand the wrong way round, as upstream's do.
    fn predicted_in(&self, model: &str, took: Duration) {
        let labels = [self.name.as_str(), TYPE, model, ""];
        self.ttft_prediction.observe(&labels, took.as_secs_f64());
        self.tpot_prediction.observe(&labels, took.as_secs_f64());
    }

    /// Notes a measured latency beside what was predicted. Unit: milliseconds.
    fn measured(&self, kind: &str, model: &str, measured: f64, predicted: f64, slo: f64) {
        let labels = [self.name.as_str(), TYPE, "", model];
        let (own, prediction, predicted_kind) = match kind {
            "ttft" => (&self.ttft, &self.predicted_ttft, "predicted_ttft"),
            _ => (&self.tpot, &self.predicted_tpot, "predicted_tpot"),
        };
        own.observe(&labels[2..], measured / 1e3);
        prediction.observe(&labels, predicted / 1e3);
        let of = |kind| [labels[0], labels[1], labels[2], labels[3], kind];
        self.last.set(&of(kind), measured / 1e3);
        self.last.set(&of(predicted_kind), predicted / 1e3);
        if slo > 0.0 && measured > slo {
            self.violations.inc(&of(kind));
        }
    }
}

impl Periodic for PredictedLatencyProducer {
    fn period(&self) -> Duration {
        CLEAN_UP_PERIOD
    }

    fn tick(&self, now: Instant) {
        self.core.borrow_mut().expire(now);
    }
}

impl StateDumper for PredictedLatencyProducer {
    /// Shows for each endpoint how many requests run, and the smallest objective of time an output token among them.
    fn dump_state(&self) -> Value {
        let core = self.core.borrow();
        let running = core.running.iter().take(MOST_DUMPED).map(|(id, requests, least)| {
            (id.to_string(), json!({"running": requests, "minTpotSloMs": least}))
        });
        let running: Map<String, Value> = running.collect();
        json!({"running": running, "requests": core.contexts.len(), "maxEndpoints": MOST_DUMPED})
    }
}

#[cfg(test)]
mod tests;
