//! `precise_producer.jsonl`.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::{Rt, Sim};
use indexmap::IndexMap;
use router::candidates::Candidates;
use router::data_layer::{EndpointEvent, EndpointListener as _};
use router::plugin::{Handle, Instance, Roles, run_periodic};
use router::prefix::kv_events::{KvEventSink as _, SubscriberSpec, Subscribers};
use router::producers::PrecisePrefixCacheProducer;
use router::request::InferenceRequest;
use router::request_control::PreRequest as _;
use serde_json::{Value, json};
use tests::compare::Rules;

use super::given::{self, Endpoints};
use super::{content_by_key, unhex};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let run = Sim::new(1).run(move |rt| async move {
        let name = given["plugin_name"].as_str().unwrap_or_default();
        let parameters = given::parameters(&given["parameters"]);
        match PrecisePrefixCacheProducer::build(name, &parameters, &Handle::new(rt.clone())) {
            Err(_) => json!({"error": {"kind": "bad-parameter"}}),
            Ok(producer) => Script::new(rt, producer, &given).run(&given["steps"]).await,
        }
    });
    Rules::exact().set("entries").outcome(&case["then"], &run.unwrap())
}

/// The calls of a plugin that wants to subscribe.
#[derive(Clone, Default)]
struct Calls(Rc<RefCell<Vec<Value>>>);

impl Subscribers for Calls {
    fn ensure(&self, spec: SubscriberSpec) {
        self.0.borrow_mut().push(json!({
            "call": "ensure",
            "id": spec.id,
            "source": spec.source,
            "endpoint": spec.endpoint,
            "replay": spec.replay,
            "filter": spec.filter,
            "dial": spec.dial,
        }));
    }

    fn remove(&self, id: &str) {
        self.0.borrow_mut().push(json!({"call": "remove", "id": id}));
    }
}

struct Script {
    rt: Rt,
    producer: Rc<PrecisePrefixCacheProducer>,
    instance: Instance,
    calls: Calls,
    endpoints: Endpoints,
    requests: IndexMap<String, InferenceRequest>,
}

impl Script {
    fn new(rt: Rt, producer: Rc<PrecisePrefixCacheProducer>, given: &Value) -> Self {
        let roles =
            Roles { producer: Some(producer.clone()), periodic: vec![producer.clone()], ..Roles::default() };
        let instance = Instance::new(PrecisePrefixCacheProducer::TYPE, "p", roles);
        run_periodic(&rt, std::slice::from_ref(&instance));
        let calls = Calls::default();
        producer.subscribe_with(Box::new(calls.clone()));
        calls.0.borrow_mut().clear();
        let endpoints = given::endpoints(&given["endpoints"]);
        Script { rt, producer, instance, calls, endpoints, requests: IndexMap::new() }
    }

    async fn run(mut self, steps: &Value) -> Value {
        let mut answers = Vec::new();
        for step in steps.as_array().into_iter().flatten() {
            let answer = match step["op"].as_str().unwrap_or_default() {
                "request" => self.request(step),
                "route" => {
                    self.route(step);
                    json!({})
                }
                "advance" => {
                    self.rt.sleep(Duration::from_millis(step["ms"].as_u64().unwrap_or(0))).await;
                    json!({})
                }
                "kv_message" => {
                    let (source, topic) = (given::text(&step["source"]), given::text(&step["topic"]));
                    self.producer.ingest(&source, &topic, &unhex(&step["payload_hex"]));
                    json!({})
                }
                "endpoint_add" | "endpoint_delete" => self.endpoint(step),
                other => panic!("unknown step {other}"),
            };
            answers.push(self.with_state(answer));
        }
        json!({
            "key": self.producer.key().as_str(),
            "block_size": self.producer.parameters().hasher.block_size(),
            "speculative_ttl_ms": self.producer.parameters().speculative_ttl.map_or(0, |ttl| ttl.as_millis()),
            "steps": answers,
        })
    }

    /// Adds what every step answers.
    fn with_state(&self, mut answer: Value) -> Value {
        answer["speculative_requests"] = json!(self.producer.guessed_requests());
        if answer.get("attributes").is_none() {
            answer["content"] = self.producer.with_index(|index| content_by_key(index));
        }
        answer
    }

    fn request(&mut self, step: &Value) -> Value {
        let mut request = given::request(&step["request"]);
        let names = given::names(&step["candidates"]);
        let mut candidates = given::candidates(&self.endpoints, &names);
        given::produce(&self.instance, &mut request, &mut candidates);
        let attributes = given::attributes(&self.endpoints, &names, &candidates, self.producer.key());
        self.requests.insert(request.request_id.clone(), request);
        json!({"attributes": attributes})
    }

    fn route(&mut self, step: &Value) {
        let id = given::text(&step["request_id"]);
        let result = given::scheduling_result(&self.endpoints, step);
        let mut unknown = InferenceRequest { request_id: id.clone(), ..InferenceRequest::default() };
        let request = self.requests.get_mut(&id).unwrap_or(&mut unknown);
        self.producer.pre_request(request, &result, &Candidates::default()).expect("never fails");
    }

    fn endpoint(&mut self, step: &Value) -> Value {
        self.calls.0.borrow_mut().clear();
        let given = &step["endpoint"];
        let endpoint = match given.as_str() {
            Some(name) => self.endpoints[name].clone(),
            None => given::endpoint(given),
        };
        let metadata = endpoint.expect("an endpoint with metadata").metadata.clone();
        let event = match step["op"].as_str() {
            Some("endpoint_add") => EndpointEvent::AddOrUpdate(metadata),
            _ => EndpointEvent::Delete(metadata),
        };
        self.producer.on_event(&event, None);
        json!({"subscriber_calls": self.calls.0.borrow().clone()})
    }
}
