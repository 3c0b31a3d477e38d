//! The cases of `producers_latency.jsonl` that go over the client: what is sent, together with what, and when.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::http::{Body, Endpoint as Address};
use executor::{Instant, Rt, Sim};
use http::{Request, Response};
use router::candidates::Candidates;
use router::endpoint::{Endpoint, EndpointMetadata};
use router::latency_predictor::Settings;
use router::plugin::{Handle, Instance, run_periodic};
use router::producers::predicted_latency_producer::{PredictedLatencyParameters, TYPE, build_with_settings};
use router::request::InferenceRequest;
use router::request_control::{Produced, ResponseRecord};
use router::scheduling::{ProfileRunResult, SchedulingResult, Target};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::{DEADLINE, TOLERANCE, attributes, endpoint, number, request};
use crate::outcome::Outcome;
use crate::request_control::{parameters, refused};

pub(super) fn run(id: &str, case: &Value) -> Outcome {
    let given = case["given"].clone();
    let kind =
        id.trim_start_matches("producers_latency-").rsplit_once('-').map_or("", |(kind, _)| kind).to_owned();
    let run = Sim::new(1).run(move |rt| async move {
        let parameters = parameters(&given["parameters"]);
        let variable = |name: &str| given["environment"][name].as_str().map(str::to_owned);
        let settings = Settings::from_lookup(variable).expect("settings");
        let calls = listen(&rt, &given["server_answer"]);
        let Ok(instance) = build_with_settings(TYPE, &parameters, &Handle::new(rt.clone()), settings) else {
            return Ok(refused::<PredictedLatencyParameters>(&parameters));
        };
        run_periodic(&rt, std::slice::from_ref(&instance));
        let mut session = Session { rt, instance: Rc::new(instance), calls };
        match kind.as_str() {
            "predictor-wire" => Ok(session.wire(&given).await),
            "predictor-training-wire" => Ok(session.training(&given).await),
            "predictor-coalesce" => Ok(session.coalesce(&given).await),
            other => Err(format!("no adapter for {other}")),
        }
    });
    match run.unwrap() {
        Ok(answer) => Rules::within(TOLERANCE).outcome(&case["then"], &answer),
        Err(error) => Outcome::Failed(error),
    }
}

/// A call that the predictor took.
struct Call {
    method: String,
    path: String,
    content_type: String,
    body: String,
}

type Calls = Rc<RefCell<Vec<Call>>>;

/// Lets both servers of the predictor listen. Without an answer of its own a prediction of row k is 40.5 + 50 k.
fn listen(rt: &Rt, answer: &Value) -> Calls {
    let calls = Calls::default();
    for address in ["localhost:8000", "localhost:8001"] {
        let (log, answer) = (Rc::clone(&calls), answer.clone());
        let service = move |request: Request<Body>| {
            let (log, answer) = (Rc::clone(&log), answer.clone());
            async move {
                let content_type =
                    request.headers().get("content-type").and_then(|value| value.to_str().ok());
                let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
                let content_type = content_type.unwrap_or_default().to_owned();
                let body = request.into_body().bytes(1 << 20).await?;
                let body = String::from_utf8(body.to_vec()).expect("UTF-8");
                let (status, reply) = match path.as_str() {
                    "/add_training_data_bulk" => (202, String::new()),
                    "/predict/bulk/strict" if answer.is_object() => {
                        (answer["status"].as_u64().unwrap_or(200) as u16, super::text(&answer["body"]))
                    }
                    "/predict/bulk/strict" => (200, counted(&body)),
                    _ => (200, "{}".to_owned()),
                };
                if method == "POST" {
                    log.borrow_mut().push(Call { method, path, content_type, body });
                }
                Ok(Response::builder().status(status).body(Body::from(reply)).expect("a response"))
            }
        };
        let address: Address = address.parse().expect("an address");
        rt.simulation().expect("a simulation").listen(address, service).expect("nothing listens there yet");
    }
    calls
}

fn counted(body: &str) -> String {
    let asked: Value = serde_json::from_str(body).expect("JSON");
    let rows = asked["requests"].as_array().map_or(0, Vec::len);
    let prediction = |row| json!({"ttft_ms": 40.5 + 50.0 * row as f64, "tpot_ms": 10});
    json!({"predictions": (0..rows).map(prediction).collect::<Vec<_>>()}).to_string()
}

struct Session {
    rt: Rt,
    instance: Rc<Instance>,
    calls: Calls,
}

/// Returns an endpoint as these cases have them: its role is `decode`, and nothing is in flight.
fn decoding(given: &Value) -> Rc<Endpoint> {
    let mut given = given.clone();
    given.as_object_mut().expect("an endpoint").remove("in_flight");
    given["labels"] = json!({"role": "decode"});
    endpoint(&given)
}

async fn produce(rt: &Rt, instance: &Instance, request: &mut InferenceRequest, candidates: &mut Candidates) {
    let producer = instance.roles.producer.as_ref().expect("a producer");
    if let Produced::Pending(pending) = producer.produce(request, candidates) {
        let _ = rt.timeout(DEADLINE, pending).await;
    }
}

impl Session {
    async fn wire(&mut self, given: &Value) -> Value {
        let endpoints = given["candidates"].as_array().into_iter().flatten().map(decoding).collect();
        let mut candidates = Candidates::new(Rc::new(endpoints));
        produce(&self.rt, &self.instance, &mut request(&given["request"]), &mut candidates).await;
        let mut attribute = attributes(&self.instance, &candidates);
        for (_, info) in attribute.as_object_mut().into_iter().flatten() {
            if let Some(info) = info.as_object_mut() {
                info.retain(|name, _| ["ttft", "tpot", "ttft_valid", "tpot_valid"].contains(&name.as_str()));
            }
        }
        let written = |c: &Call| json!({"method": c.method, "path": c.path, "content_type": c.content_type, "body": c.body});
        json!({"attribute": attribute, "calls": self.calls.borrow().iter().map(written).collect::<Vec<_>>()})
    }

    async fn training(&mut self, given: &Value) -> Value {
        let spacing = Duration::from_millis(given["chunk_spacing_ms"].as_u64().unwrap_or(0));
        let chunks = given["intermediate_chunks"].as_u64().unwrap_or(0);
        for number in 0..given["requests"].as_u64().unwrap_or(0) {
            let endpoints: Vec<_> =
                given["candidates"].as_array().into_iter().flatten().map(decoding).collect();
            let mut candidates = Candidates::new(Rc::new(endpoints.clone()));
            let mut request = request(&json!({"request_id": format!("r{number}"), "prompt_tokens": 12}));
            produce(&self.rt, &self.instance, &mut request, &mut candidates).await;
            self.send(&mut request, &endpoints[0]);
            for chunk in 0..=chunks {
                self.rt.sleep(spacing).await;
                self.chunk(&request, chunk == chunks, &endpoints[0].metadata);
            }
        }
        self.rt.sleep(Duration::from_millis(given["observe_ms"].as_u64().unwrap_or(0))).await;
        let calls = self.calls.borrow();
        let taught: Vec<&Call> = calls.iter().filter(|call| call.path == "/add_training_data_bulk").collect();
        let entries = taught.iter().flat_map(|call| {
            let posted: Value = serde_json::from_str(&call.body).expect("JSON");
            posted["entries"].as_array().cloned().unwrap_or_default()
        });
        let entries = entries.map(|mut entry| {
            entry.as_object_mut().expect("an entry").remove("timestamp");
            for measured in ["actual_ttft_ms", "actual_tpot_ms"] {
                if number(&entry[measured]) > 0.0 {
                    entry[measured] = json!("<positive>");
                }
            }
            entry
        });
        let first = taught.first().expect("something was taught");
        json!({
            "method": first.method,
            "path": first.path,
            "content_type": first.content_type,
            "entries": entries.collect::<Vec<_>>(),
        })
    }

    fn send(&self, request: &mut InferenceRequest, endpoint: &Rc<Endpoint>) {
        let target = Target { endpoint: Rc::clone(endpoint), scored: None };
        let run = ProfileRunResult { targets: vec![target], scored: Vec::new() };
        let mut result = SchedulingResult { primary: "d".into(), ..SchedulingResult::default() };
        result.profiles.insert("d".into(), Some(run));
        let hook = self.instance.roles.pre_request.as_ref().expect("a PreRequest plugin");
        hook.pre_request(request, &result, &Candidates::default()).expect("never fails");
    }

    fn chunk(&self, request: &InferenceRequest, end: bool, target: &Rc<EndpointMetadata>) {
        let mut response = ResponseRecord { end_of_stream: end, ..ResponseRecord::default() };
        let hook = self.instance.roles.response_body.as_ref().expect("it sees bodies");
        hook.response_body(Some(request), &mut response, Some(target));
    }

    async fn coalesce(&mut self, given: &Value) -> Value {
        let list = |name: &str| {
            given[name].as_array().into_iter().flatten().filter_map(Value::as_u64).collect::<Vec<_>>()
        };
        let mut submissions = Vec::new();
        for (at, rows) in list("submissions_at_ms").into_iter().zip(list("rows_per_submission")) {
            self.rt.sleep_until(Instant::ZERO + Duration::from_millis(at)).await;
            let (rt, instance) = (self.rt.clone(), Rc::clone(&self.instance));
            submissions.push(self.rt.spawn_local("submission", async move {
                let named = |row| decoding(&json!({"name": format!("ns/p{row}")}));
                let mut candidates = Candidates::new(Rc::new((0..rows).map(named).collect()));
                let mut request = request(&json!({"request_id": format!("at{at}")}));
                produce(&rt, &instance, &mut request, &mut candidates).await;
                attributes(&instance, &candidates)["ns/p0"]["ttft"].clone()
            }));
        }
        let mut first = Vec::new();
        for submission in submissions {
            first.push(submission.await.expect("a submission does not panic"));
        }
        let rows = |call: &Call| {
            let asked: Map<String, Value> = serde_json::from_str(&call.body).expect("JSON");
            asked["requests"].as_array().map_or(0, Vec::len)
        };
        let calls = self.calls.borrow();
        json!({"first_row_ttft": first, "rows_per_call": calls.iter().map(rows).collect::<Vec<_>>()})
    }
}
