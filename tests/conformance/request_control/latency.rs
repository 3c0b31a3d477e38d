//! `producers_latency.jsonl`: the latency producer over a scripted predictor, and the client of a real one.

mod wire;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use executor::{Instant, Rt, Sim};
use futures::future::LocalBoxFuture;
use router::attributes::{
    EncoderCacheMatchInfo, EncoderItem, InFlightLoad, LatencyPredictionInfo, PrefixCacheMatchInfo,
};
use router::candidates::Candidates;
use router::data_key::{resolve, well_known};
use router::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use router::headers::Headers;
use router::latency_predictor::{
    LatencyPredictor, Prediction, PredictionError, PredictionRow, TrainingEntry,
};
use router::plugin::{Handle, Instance};
use router::producers::predicted_latency_producer::{PredictedLatencyParameters, TYPE, build_with_predictor};
use router::request::{InferenceRequest, ParsedBody, TokenizedPrompt};
use router::request_control::{Produced, ResponseRecord};
use router::scheduling::{ProfileRunResult, SchedulingResult, Target};
use serde_json::{Map, Value, json};
use tests::compare::{Rules, float};

use super::{parameters, refused};
use crate::outcome::Outcome;

/// What the director grants a producer.
const DEADLINE: Duration = Duration::from_millis(400);

/// Floats of the vectors' README.
const TOLERANCE: f64 = 1e-9;

pub(super) fn run(case: &Value) -> Outcome {
    let id = case["id"].as_str().unwrap_or_default();
    if !id.starts_with("producers_latency-predicted-latency-producer-") {
        return wire::run(id, case);
    }
    let given = case["given"].clone();
    let run = Sim::new(1).run(move |rt| async move {
        let parameters = parameters(&given["parameters"]);
        let predictor = Rc::new(Scripted { rt: rt.clone(), state: RefCell::default() });
        match build_with_predictor(TYPE, &parameters, &Handle::new(rt.clone()), predictor.clone()) {
            Err(_) => refused::<PredictedLatencyParameters>(&parameters),
            Ok(instance) => {
                let mut script = Script { rt, predictor, instance, requests: BTreeMap::new() };
                script.run(&given["steps"]).await
            }
        }
    });
    Rules::within(TOLERANCE).outcome(&case["then"], &run.unwrap())
}

/// A predictor that answers as a step says, and keeps what it is asked and taught.
struct Scripted {
    rt: Rt,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// `None` = it fails.
    predictions: Option<Vec<Prediction>>,
    delay: Duration,
    asked: Vec<Value>,
    learned: Vec<Value>,
}

impl LatencyPredictor for Scripted {
    fn predict(
        &self,
        rows: Vec<PredictionRow>,
    ) -> LocalBoxFuture<'static, Result<Vec<Prediction>, PredictionError>> {
        let mut state = self.state.borrow_mut();
        state.asked.push(serde_json::to_value(&rows).expect("JSON"));
        let failed = || PredictionError::Server("it fails".to_owned());
        let (predictions, delay) = (state.predictions.clone().ok_or_else(failed), state.delay);
        let rt = self.rt.clone();
        Box::pin(async move {
            rt.sleep(delay).await;
            predictions
        })
    }

    fn learn(&self, entry: TrainingEntry) {
        let mut written = serde_json::to_value(&entry).expect("JSON");
        written["timestamp"] = json!((self.rt.now() - Instant::ZERO).as_millis());
        self.state.borrow_mut().learned.push(written);
    }
}

struct Script {
    rt: Rt,
    predictor: Rc<Scripted>,
    instance: Instance,
    /// Each request with its candidates, by name.
    requests: BTreeMap<String, (InferenceRequest, Vec<Rc<Endpoint>>)>,
}

impl Script {
    async fn run(&mut self, steps: &Value) -> Value {
        let mut answers = Vec::new();
        for step in steps.as_array().into_iter().flatten() {
            let mut answer = json!({});
            match step["op"].as_str().unwrap_or_default() {
                "produce" => answer = self.produce(step).await,
                "pre_request" => self.pre_request(step),
                "response" => {
                    self.response(step);
                    let learned = std::mem::take(&mut self.predictor.state.borrow_mut().learned);
                    answer["training"] = learned.into();
                }
                "advance" => self.rt.sleep(Duration::from_millis(step["ms"].as_u64().unwrap_or(0))).await,
                other => panic!("unknown step {other}"),
            }
            answer["queues"] = self.queues();
            answers.push(answer);
        }
        json!({"steps": answers})
    }

    async fn produce(&mut self, step: &Value) -> Value {
        {
            let state = &mut *self.predictor.state.borrow_mut();
            state.delay = Duration::from_millis(step["predictor_delay_ms"].as_u64().unwrap_or(0));
            let fails = step["predictor_fails"].as_bool().unwrap_or(false);
            let prediction =
                |p: &Value| Prediction { ttft_ms: number(&p["ttft_ms"]), tpot_ms: number(&p["tpot_ms"]) };
            let predictions = step["predictions"].as_array().into_iter().flatten().map(prediction).collect();
            state.predictions = Some(predictions).filter(|_| !fails);
        }
        let mut request = request(step);
        let endpoints: Vec<_> = step["candidates"].as_array().into_iter().flatten().map(endpoint).collect();
        let mut candidates = Candidates::new(Rc::new(endpoints.clone()));
        let producer = self.instance.roles.producer.as_ref().expect("a producer");
        let outcome = match producer.produce(&mut request, &mut candidates) {
            Produced::Ready(outcome) => Some(outcome),
            Produced::Pending(pending) => self.rt.timeout(DEADLINE, pending).await.ok(),
        };
        let mut answer = json!({
            "attribute": attributes(&self.instance, &candidates),
            "bulk_calls": std::mem::take(&mut self.predictor.state.borrow_mut().asked),
        });
        if outcome.is_none() {
            answer["error"] = json!({"kind": "deadline"});
        }
        self.requests.insert(text(&step["request"]), (request, endpoints));
        answer
    }

    fn pre_request(&mut self, step: &Value) {
        let (request, endpoints) = self.requests.get_mut(&text(&step["request"])).expect("a request");
        let mut result =
            SchedulingResult { primary: text(&step["primary"]).into(), ..SchedulingResult::default() };
        for (profile, names) in step["profiles"].as_object().into_iter().flatten() {
            let target = |name: &str| {
                let endpoint = endpoints.iter().find(|e| e.metadata.id.to_string() == name);
                Target { endpoint: Rc::clone(endpoint.expect("a candidate")), scored: None }
            };
            let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            let run = ProfileRunResult { targets: names.map(target).collect(), scored: Vec::new() };
            result.profiles.insert(profile.as_str().into(), Some(run));
        }
        let hook = self.instance.roles.pre_request.as_ref().expect("a PreRequest plugin");
        hook.pre_request(request, &result, &Candidates::default()).expect("never fails");
        request.scheduling_result = Some(Rc::new(result));
    }

    fn response(&self, step: &Value) {
        let (request, endpoints) = &self.requests[&text(&step["request"])];
        let flag = |name: &str| step[name].as_bool().unwrap_or(false);
        let mut response = ResponseRecord {
            start_of_stream: flag("start_of_stream"),
            end_of_stream: flag("end_of_stream"),
            ..ResponseRecord::default()
        };
        let hook = self.instance.roles.response_body.as_ref().expect("it sees bodies");
        let target = endpoints.first().map(|endpoint| &endpoint.metadata);
        hook.response_body(Some(request), &mut response, target);
    }

    fn queues(&self) -> Value {
        let state = self.instance.roles.state_dumper.as_ref().expect("a dumper").dump_state();
        let queue = |(id, queue): (&String, &Value)| {
            (id.clone(), json!({"running": queue["running"], "min_tpot_slo": queue["minTpotSloMs"]}))
        };
        state["running"].as_object().into_iter().flatten().map(queue).collect::<Map<_, _>>().into()
    }
}

/// Writes what is attached to each candidate.
fn attributes(instance: &Instance, candidates: &Candidates) -> Value {
    let found = candidates.read::<LatencyPredictionInfo>(&instance.data.produces[0].key);
    let attribute = |info: &LatencyPredictionInfo| {
        json!({
            "ttft_valid": info.ttft_valid,
            "tpot_valid": info.tpot_valid,
            "ttft_headroom": float(info.ttft_headroom),
            "tpot_headroom": float(info.tpot_headroom),
            "ttft": float(info.ttft),
            "tpot": float(info.tpot),
            "dispatched_request_count": info.dispatched_request_count,
        })
    };
    let named = |candidate| {
        let id = candidates.endpoint(candidate).metadata.id.to_string();
        (id, found.get(candidate).map_or(Value::Null, attribute))
    };
    candidates.all().map(named).collect::<Map<_, _>>().into()
}

fn request(given: &Value) -> InferenceRequest {
    let headers = given["headers"].as_object().into_iter().flatten();
    let headers: Headers = headers.map(|(name, value)| (name.as_str(), text(value))).collect();
    let body = given["prompt_tokens"].as_u64().map(|tokens| {
        let prompts = vec![vec![0; tokens as usize].into()];
        let prompt = TokenizedPrompt { prompts, ..TokenizedPrompt::default() };
        ParsedBody { tokenized_prompt: Some(Arc::new(prompt)), ..ParsedBody::default() }
    });
    InferenceRequest { request_id: text(&given["request_id"]), headers, body, ..InferenceRequest::default() }
}

fn endpoint(given: &Value) -> Rc<Endpoint> {
    let name = text(&given["name"]);
    let (namespace, short) = name.split_once('/').unwrap_or(("", &name));
    let labels = given["labels"].as_object().into_iter().flatten();
    let metadata = EndpointMetadata {
        id: EndpointId::new(namespace, short),
        labels: labels.map(|(label, value)| (label.clone(), text(value))).collect(),
        ..EndpointMetadata::default()
    };
    let mut endpoint = Endpoint { metadata: Rc::new(metadata), ..Endpoint::default() };
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    let metrics = &given["metrics"];
    endpoint.metrics.kv_cache_usage_percent = number(&metrics["kv_cache_usage_percent"]);
    endpoint.metrics.running_requests_size = count(&metrics["running_requests_size"]);
    endpoint.metrics.waiting_queue_size = count(&metrics["waiting_queue_size"]);
    let producer = |of: &Value| text(&of["producer"]);
    let prefix = &given["prefix_match"];
    if prefix.is_object() {
        let info =
            PrefixCacheMatchInfo::new(count(&prefix["match_blocks"]), count(&prefix["total_blocks"]), 16);
        let key = resolve(well_known::PREFIX_CACHE_MATCH_INFO, &producer(prefix));
        endpoint.attributes.put(key, Rc::new(info));
    }
    let load = &given["in_flight"];
    if load.is_object() {
        let info = InFlightLoad::default();
        info.requests.set(count(&load["requests"]));
        info.tokens.set(count(&load["tokens"]));
        endpoint.attributes.put(resolve(well_known::IN_FLIGHT_LOAD, &producer(load)), Rc::new(info));
    }
    let encoder = &given["encoder"];
    if encoder.is_object() {
        let items = |name: &str| {
            vec![EncoderItem { size: 1, ..EncoderItem::default() }; count(&encoder[name]) as usize]
        };
        let info = EncoderCacheMatchInfo { matched_items: items("matched"), request_items: items("request") };
        let key = resolve(well_known::ENCODER_CACHE_MATCH_INFO, &producer(encoder));
        endpoint.attributes.put(key, Rc::new(info));
    }
    Rc::new(endpoint)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
