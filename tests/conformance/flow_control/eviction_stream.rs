//! `eviction_stream.jsonl`: what a stream is sent whose request is evicted.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use router::admission::{Admission, Admitted, Asking, EndpointList};
use router::config::assembly::Assembly;
use router::config::loader::{Options, load};
use router::director::{Director, DirectorOptions, Pool, PoolLocator, RewriteRule};
use router::flow_control::eviction::RequestEvictor;
use router::request::{InferenceRequest, ParserRegistry};
use router::server::ext_proc::{Answer, Answers, Event, Exchange, Field, Message};
use router::support::Registry;
use serde_json::{Map, Value, json};

use super::given;
use crate::outcome::Outcome;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let case = given.clone();
    let answer = given::run(|handle| async move {
        let mut script = Script::new(&handle);
        let mut steps = Vec::new();
        for op in case["ops"].as_array().into_iter().flatten() {
            steps.push(script.step(op).await);
        }
        json!({ "steps": steps })
    });
    super::compare(then, &answer)
}

struct OneEndpoint(EndpointList);

impl Pool for OneEndpoint {
    fn endpoints(&self) -> EndpointList {
        Rc::clone(&self.0)
    }

    fn priority(&self, objective: &str) -> Option<i64> {
        [("shed", -1), ("shed5", -5), ("top", 5)]
            .into_iter()
            .find(|(name, _)| *name == objective)
            .map(|(_, p)| p)
    }

    fn rewrite_rule(&self, _: &str) -> Option<Rc<RewriteRule>> {
        None
    }
}

struct AdmitAll;

impl Admission for AdmitAll {
    fn admit<'a>(&'a self, _: &'a mut InferenceRequest, _: Asking<'a>) -> Admitted<'a> {
        Admitted::Ready(Ok(()))
    }
}

struct Script {
    director: Rc<Director>,
    parsers: ParserRegistry,
    evictor: Rc<RequestEvictor>,
    terminated: Rc<std::cell::RefCell<Vec<String>>>,
    open: BTreeMap<String, Exchange>,
    sent: Map<String, Value>,
}

impl Script {
    fn new(handle: &router::plugin::Handle) -> Self {
        let rt = handle.rt().clone();
        let assembly = load("", "", &Registry::default(), handle, &Options::default());
        let Assembly { scheduler, hooks, parsers, .. } = assembly.expect("the built-in configuration loads");
        let endpoint = json!([{"name": "ns/pod-a", "address": "10.0.0.1", "port": 8000}]);
        let pool = Rc::new(OneEndpoint(given::endpoints(&endpoint, rt.now())));
        let evictor = Rc::new(RequestEvictor::new(rt.clone()));
        let terminated: Rc<std::cell::RefCell<Vec<String>>> = Rc::default();
        let told = Rc::clone(&terminated);
        evictor.on_terminated(move |id| told.borrow_mut().push(id.to_owned()));
        let locator = Rc::new(PoolLocator::new(pool.clone(), false));
        let director = Director::new(rt, pool, scheduler, AdmitAll, hooks, DirectorOptions::default())
            .with_flow_control(locator, Some(Rc::clone(&evictor)));
        Script {
            director: Rc::new(director),
            parsers,
            evictor,
            terminated,
            open: BTreeMap::new(),
            sent: Map::new(),
        }
    }

    async fn step(&mut self, op: &Value) -> Value {
        let text = |name: &str| op[name].as_str().unwrap_or_default();
        let stream = text("stream").to_owned();
        let mut answer = json!({});
        match text("op") {
            "request" => self.request(&stream, op).await,
            "response_headers" => {
                let content_type =
                    if op["streaming"] == true { "text/event-stream" } else { "application/json" };
                let headers = vec![field(":status", "200"), field("content-type", content_type)];
                self.tell(&stream, Event::ResponseHeaders { headers }).await;
            }
            "response_body" => {
                let end_of_stream = op["end_of_stream"] == true;
                self.tell(&stream, Event::ResponseBody { chunk: Bytes::from_static(b"{}"), end_of_stream })
                    .await;
            }
            "close" | "client_cancel" => drop(self.open.remove(&stream)),
            "evict_n" => {
                let bound = op["priority_bound"].as_i64().unwrap_or_default();
                let evicted = self.evictor.evict(op["n"].as_u64().unwrap_or_default() as usize, bound);
                answer["evicted"] = evicted.iter().map(|id| json!(**id)).collect();
                self.break_off();
            }
            other => panic!("unknown step {other}"),
        }
        let (in_flight, evictable) = self.evictor.counts();
        let mut terminated = self.terminated.take();
        terminated.sort();
        answer["sent"] = Value::Object(std::mem::take(&mut self.sent));
        answer["open_streams"] = json!(self.open.keys().collect::<Vec<_>>());
        answer["terminated"] = json!(terminated);
        answer["in_flight"] = json!(in_flight);
        answer["evictable"] = json!(evictable);
        answer
    }

    async fn request(&mut self, stream: &str, op: &Value) {
        self.open.insert(
            stream.to_owned(),
            Exchange::new(Rc::clone(&self.director), self.parsers.clone(), 1 << 20),
        );
        let mut headers = vec![field(":path", "/v1/completions"), field(":method", "POST")];
        if let Some(id) = op["request_id"].as_str() {
            headers.push(field("x-request-id", id));
        }
        if let Some(objective) = op["objective"].as_str() {
            headers.push(field("x-llm-d-inference-objective", objective));
        }
        self.tell(stream, Event::RequestHeaders { headers, end_of_stream: false }).await;
        let chunk = Bytes::from_static(br#"{"model":"m","prompt":"hello"}"#);
        self.tell(stream, Event::RequestBody { chunk, end_of_stream: true }).await;
        // A stream that was evicted before it looked breaks off as soon as it does.
        self.break_off();
    }

    async fn tell(&mut self, stream: &str, event: Event) {
        // What is sent to a stream that has ended is lost.
        let Some(exchange) = self.open.get_mut(stream) else { return };
        let answers =
            exchange.take(Message { event, metadata: Default::default() }).await.expect("no stream fails");
        self.send(stream, &answers);
    }

    fn break_off(&mut self) {
        let fired: Vec<String> = self
            .open
            .iter()
            .filter(|(_, exchange)| exchange.eviction().is_some_and(|signal| signal.has_fired()))
            .map(|(stream, _)| stream.clone())
            .collect();
        for stream in fired {
            if let Some(answers) = self.open.get_mut(&stream).and_then(Exchange::evict) {
                self.send(&stream, &answers);
            }
        }
    }

    fn send(&mut self, stream: &str, answers: &Answers) {
        for outgoing in &answers.outgoing {
            let sent = match &outgoing.answer {
                Answer::RequestHeaders(_) => json!("request_headers"),
                Answer::RequestBody { .. } => json!("request_body"),
                Answer::ResponseHeaders(_) => json!("response_headers"),
                Answer::ResponseBody { .. } => json!("response_body"),
                Answer::RequestTrailers => json!("request_trailers"),
                Answer::ResponseTrailers => json!("response_trailers"),
                Answer::Immediate { status, headers, .. } => {
                    let headers: Map<String, Value> =
                        headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
                    json!({"immediate": {"status": status, "headers": headers}})
                }
            };
            let list = self.sent.entry(stream.to_owned()).or_insert_with(|| json!([]));
            list.as_array_mut().expect("a list").push(sent);
        }
        if answers.closes {
            self.open.remove(stream);
        }
    }
}

fn field(key: &str, value: &str) -> Field {
    let raw_value = Bytes::copy_from_slice(value.as_bytes());
    Field { key: key.to_owned(), raw_value, ..Field::default() }
}
