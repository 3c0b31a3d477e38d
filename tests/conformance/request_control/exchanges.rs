//! `director.jsonl`, `headers.jsonl`: whole streams of a proxy through a configured director, on virtual time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use executor::{Instant, Rt, Sim};
use futures::future::{Either, select};
use router::admission::LegacyAdmission;
use router::attributes::InFlightLoad;
use router::config::assembly::Assembly;
use router::config::fault::Fault;
use router::config::loader::{Options, load};
use router::config::schema::Behavior;
use router::data_key::{resolve, well_known};
use router::data_layer::EndpointEvent;
use router::director::PoolLocator;
use router::director::{Director, DirectorOptions, Pool, RewriteRule};
use router::endpoint::Endpoint;
use router::flow_control::admission::FlowAdmission;
use router::flow_control::candidates::CachedLocator;
use router::flow_control::{FlowController, Parts};
use router::plugin::{Handle, run_periodic};
use router::request::ParserRegistry;
use router::server::ext_proc::{Answer, Answers, Event, Exchange, Failed, Field, Message, Outgoing};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::{parsers, vec_plugins};
use crate::outcome::Outcome;
use crate::scheduling::given;
use vec_plugins::Recorder;

/// Most bytes of a body.
const BODY_LIMIT: usize = 1 << 20;

/// Time between two messages of a proxy.
const STEP: Duration = Duration::from_millis(10);

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let got = Sim::new(1).run(move |rt| async move {
        rt.sleep_until(given::now()).await;
        let handle = Handle::new(rt.clone());
        let config = super::without_data_layer(&given["config"]).to_string();
        let options = Options { allow_experimental: true, ..Options::default() };
        let assembly = load("case.json", &config, &vec_plugins::registry(), &handle, &options);
        let assembly = assembly.map_err(|problems| match &problems.list()[0] {
            first if first.kind == Fault::NotBuilt => Outcome::NotBuilt(first.message.clone()),
            _ => Outcome::Failed(problems.to_string()),
        })?;
        run_periodic(&rt, &handle.instances());
        let bench = Bench::new(rt, &given, assembly, &handle);
        match given["concurrent"] == true {
            true => Ok(bench.side_by_side(&given["streams"]).await),
            false => Ok(bench.in_turn(&given["streams"]).await),
        }
    });
    match got.unwrap() {
        Ok(mut got) => {
            hide_generated_ids(&mut got);
            // When a producer that was given up ends is the producer's own affair.
            Rules::exact().ignore("producer_events").outcome(&case["then"], &got)
        }
        Err(outcome) => outcome,
    }
}

/// A director over the endpoints of a case.
struct Bench {
    rt: Rt,
    director: Rc<Director>,
    parsers: ParserRegistry,
    pool: Rc<CasePool>,
}

impl Bench {
    fn new(rt: Rt, given: &Value, assembly: Assembly, handle: &Handle) -> Self {
        let endpoint = |value: &Value| {
            let mut endpoint = given::endpoint(value);
            let event = EndpointEvent::AddOrUpdate(Rc::clone(&endpoint.metadata));
            for listener in assembly.data_layer.all_endpoint_listeners() {
                listener.plugin.on_event(&event, Some(&mut endpoint));
            }
            let age = given::now().since(endpoint.metrics.update_time.unwrap_or_else(given::now));
            (Rc::new(endpoint), age)
        };
        let endpoints: Vec<_> = given["endpoints"].as_array().into_iter().flatten().map(endpoint).collect();
        let objectives = given["objectives"].as_object().into_iter().flatten();
        let priority = |(name, priority): (&String, &Value)| (name.clone(), priority.as_i64().unwrap_or(0));
        let pool = Rc::new(CasePool {
            now: RefCell::default(),
            ages: endpoints.iter().map(|(_, age)| *age).collect(),
            endpoints: endpoints.into_iter().map(|(endpoint, _)| endpoint).collect(),
            objectives: objectives.map(priority).collect(),
        });
        let options = DirectorOptions {
            emit_endpoint_scores: given["emit_endpoint_scores"] == true,
            disable_endpoint_subset_filter: given["disable_endpoint_subset_filter"] == true,
        };
        let Assembly { scheduler, hooks, parsers, detector, flow_control, .. } = assembly;
        let shared = Rc::clone(&pool) as Rc<dyn Pool>;
        let director = match flow_control {
            None => {
                let admission = LegacyAdmission::new(detector.plugin);
                Director::new(rt.clone(), shared, scheduler, admission, hooks, options)
            }
            Some(settings) => {
                let locator = PoolLocator::new(Rc::clone(&shared), options.disable_endpoint_subset_filter);
                let cached = Rc::new(CachedLocator::new(rt.clone(), Rc::new(locator), Duration::ZERO));
                let parts = Parts {
                    settings,
                    detector: detector.plugin,
                    pool: Rc::clone(&cached),
                    evictor: None,
                    metrics: handle.metrics().clone(),
                    pool_name: "pool".to_owned(),
                    behavior: Behavior::Parity,
                    elides_ticks: true,
                };
                let controller = FlowController::start(&rt, parts);
                let admission = FlowAdmission::new(controller, Rc::clone(&cached), Behavior::Parity);
                Director::new(rt.clone(), shared, scheduler, admission, hooks, options)
                    .with_flow_control(cached, None)
            }
        };
        Bench { rt, director: Rc::new(director), parsers, pool }
    }

    /// Runs one stream after the other.
    async fn in_turn(&self, streams: &Value) -> Value {
        let mut answers = Vec::new();
        for stream in streams.as_array().into_iter().flatten() {
            self.pool.scraped(self.rt.now());
            let recorder = self.rt.local::<Recorder>();
            recorder.start(self.rt.now());
            let Ended { outgoing, failed, took } = self.stream(&stream["messages"]).await;
            let mut answer = json!({
                "responses": outgoing.iter().map(described).collect::<Vec<_>>(),
                "hooks": recorder.calls(),
                "took_ms": took.as_millis() as u64,
            });
            if failed {
                answer["stream_error"] = json!({"grpc_code": "Unknown"});
            }
            answers.push(answer);
        }
        json!({"streams": answers})
    }

    /// Runs streams beside each other, each from its own start on.
    async fn side_by_side(self, streams: &Value) -> Value {
        let start = self.rt.now();
        self.pool.scraped(start);
        let this = Rc::new(self);
        let mut running = Vec::new();
        for stream in streams.as_array().cloned().into_iter().flatten() {
            let bench = Rc::clone(&this);
            running.push(this.rt.spawn_local("stream", async move {
                let delay = Duration::from_millis(stream["start_ms"].as_u64().unwrap_or(0));
                bench.rt.sleep_until(start + delay).await;
                let ended = bench.stream(&stream["messages"]).await;
                let mut answer = json!({"ended_at_ms": (delay + ended.took).as_millis() as u64});
                match ended.outgoing.first().map(described) {
                    Some(first) if first.get("immediate").is_some() => {
                        answer["immediate"] = first["immediate"].clone();
                    }
                    Some(first) => {
                        let named = &first["dynamic_metadata"]["envoy.lb"]["x-gateway-destination-endpoint"];
                        answer["destination"] = named.clone();
                    }
                    None => {}
                }
                answer
            }));
        }
        let mut answers = Vec::new();
        for stream in running {
            answers.push(stream.await.expect("a stream ends"));
        }
        let key = resolve(well_known::IN_FLIGHT_LOAD, "");
        let load = |endpoint: &Rc<Endpoint>| {
            let load = endpoint.attributes.get::<InFlightLoad>(&key)?;
            let load = json!({"requests": load.requests.get(), "tokens": load.tokens.get()});
            Some((endpoint.metadata.id.to_string(), load))
        };
        let loads: Map<String, Value> = this.pool.endpoints().iter().filter_map(load).collect();
        json!({"streams": answers, "in_flight_after": loads})
    }

    /// Plays the proxy's part of a stream and returns what it was answered.
    async fn stream(&self, messages: &Value) -> Ended {
        let start = self.rt.now();
        let messages = messages.as_array().map_or(&[][..], Vec::as_slice);
        let mut arrivals = Vec::new();
        let mut at = Duration::ZERO;
        for message in messages {
            at += STEP + Duration::from_millis(message["wait_ms"].as_u64().unwrap_or(0));
            arrivals.push(at);
        }
        let cancelled = messages.iter().position(|message| message.get("close").is_some());
        let cancelled = cancelled.map(|place| start + arrivals[place]);
        let mut exchange = Exchange::new(Rc::clone(&self.director), self.parsers.clone(), BODY_LIMIT);
        let mut ended = Ended { outgoing: Vec::new(), failed: false, took: Duration::ZERO };
        for (message, at) in messages.iter().zip(&arrivals) {
            self.rt.sleep_until(start + *at).await;
            let Some(message) = read(message) else { break };
            let taken = match cancelled {
                None => Some(exchange.take(message).await),
                Some(cancelled) => {
                    let taking = std::pin::pin!(exchange.take(message));
                    match select(taking, self.rt.sleep_until(cancelled)).await {
                        Either::Left((taken, _)) => Some(taken),
                        Either::Right(_) => None,
                    }
                }
            };
            match taken {
                Some(Ok(Answers { outgoing, closes })) => {
                    ended.outgoing.extend(outgoing);
                    if closes {
                        ended.took = self.rt.now().since(start);
                        return ended;
                    }
                }
                Some(Err(Failed(_))) => {
                    ended.failed = true;
                    ended.took = self.rt.now().since(start);
                    return ended;
                }
                None => break,
            }
        }
        // A proxy that breaks the stream off with an error gets one back.
        ended.failed = messages.iter().any(|message| message["close"] == "error");
        let end = cancelled.unwrap_or(start + at + STEP);
        self.rt.sleep_until(end).await;
        drop(exchange);
        ended.took = self.rt.now().since(start);
        ended
    }
}

struct Ended {
    outgoing: Vec<Outgoing>,
    failed: bool,
    took: Duration,
}

/// The endpoints of a case, scraped whenever a stream starts.
struct CasePool {
    now: RefCell<Rc<Vec<Rc<Endpoint>>>>,
    endpoints: Vec<Rc<Endpoint>>,
    ages: Vec<Duration>,
    objectives: BTreeMap<String, i64>,
}

impl CasePool {
    fn scraped(&self, now: Instant) {
        let scraped = |(endpoint, age): (&Rc<Endpoint>, &Duration)| {
            let mut endpoint = Endpoint::clone(endpoint);
            let at = now.since(Instant::ZERO).saturating_sub(*age);
            endpoint.metrics.update_time = Some(Instant::ZERO + at);
            Rc::new(endpoint)
        };
        *self.now.borrow_mut() = Rc::new(self.endpoints.iter().zip(&self.ages).map(scraped).collect());
    }
}

impl Pool for CasePool {
    fn endpoints(&self) -> Rc<Vec<Rc<Endpoint>>> {
        Rc::clone(&self.now.borrow())
    }

    fn priority(&self, objective: &str) -> Option<i64> {
        self.objectives.get(objective).copied()
    }

    fn rewrite_rule(&self, _: &str) -> Option<Rc<RewriteRule>> {
        None
    }
}

/// Reads a message; `None` = the proxy closes the stream.
fn read(message: &Value) -> Option<Message> {
    let end_of_stream = message["end_of_stream"] == true;
    let headers = |list: &Value| list.as_array().into_iter().flatten().map(field).collect();
    let event = if message.get("close").is_some() {
        return None;
    } else if let Some(list) = message.get("request_headers") {
        Event::RequestHeaders { headers: headers(list), end_of_stream }
    } else if let Some(list) = message.get("response_headers") {
        Event::ResponseHeaders { headers: headers(list) }
    } else if message.get("request_trailers").is_some() {
        Event::RequestTrailers
    } else if message.get("response_trailers").is_some() {
        Event::ResponseTrailers
    } else if message.get("response_body").is_some() || message.get("response_body_base64").is_some() {
        Event::ResponseBody { chunk: parsers::bytes(message, "response_body"), end_of_stream }
    } else {
        Event::RequestBody { chunk: parsers::bytes(message, "request_body"), end_of_stream }
    };
    let fields =
        |(namespace, fields): (&String, &Value)| Some((namespace.clone(), fields.as_object()?.clone()));
    let metadata = message["metadata"].as_object().into_iter().flatten().filter_map(fields).collect();
    Some(Message { event, metadata })
}

fn field(given: &Value) -> Field {
    let raw = match given.get("raw_value_base64") {
        Some(_) => parsers::bytes(given, "raw_value"),
        None => Bytes::from(given["raw_value"].as_str().unwrap_or_default().to_owned()),
    };
    let text = |name: &str| given[name].as_str().unwrap_or_default().to_owned();
    Field { key: text("key"), value: text("value"), raw_value: raw }
}

/// Describes an answer as the vectors do.
fn described(outgoing: &Outgoing) -> Value {
    let map = |headers: &[(String, String)]| -> Map<String, Value> {
        headers.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect()
    };
    let body = |chunk: &Bytes, end_of_stream: &bool| json!({"body": String::from_utf8_lossy(chunk), "end_of_stream": end_of_stream});
    let mut value = match &outgoing.answer {
        Answer::RequestHeaders(set) => {
            json!({"request_headers": {"set_headers": map(set), "clear_route_cache": true}})
        }
        Answer::RequestBody { chunk, end_of_stream } => json!({"request_body": body(chunk, end_of_stream)}),
        Answer::ResponseHeaders(set) => json!({"response_headers": {"set_headers": map(set)}}),
        Answer::ResponseBody { chunk, end_of_stream } => json!({"response_body": body(chunk, end_of_stream)}),
        Answer::RequestTrailers => json!({"request_trailers": {}}),
        Answer::ResponseTrailers => json!({"response_trailers": {}}),
        Answer::Immediate { status, headers, body } => {
            let code = body.strip_prefix("inference error: ").and_then(|rest| rest.split(' ').next());
            json!({"immediate": {"status": status, "headers": map(headers), "code": code}})
        }
    };
    if !outgoing.dynamic_metadata.is_empty() {
        value["dynamic_metadata"] = json!(outgoing.dynamic_metadata);
    }
    value
}

/// Writes generated ids as the vectors do.
fn hide_generated_ids(value: &mut Value) {
    match value {
        Value::String(text) if is_uuid4(text) => *text = "<uuid4>".to_owned(),
        Value::Array(items) => items.iter_mut().for_each(hide_generated_ids),
        Value::Object(members) => members.values_mut().for_each(hide_generated_ids),
        _ => {}
    }
}

fn is_uuid4(text: &str) -> bool {
    let hexadecimal = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        14 => byte == b'4',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(hexadecimal)
}
