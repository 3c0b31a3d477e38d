//! `producers_render.jsonl`: the token producer before a scripted render server.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::http::{Body, Endpoint as Address, SendError};
use executor::{Rt, Sim};
use http::{Request, Response};
use router::candidates::Candidates;
use router::plugin::{Handle, Instance, Parameters, run_periodic};
use router::producers::token_producer::factory;
use router::request::{InferenceRequest, ParserRegistry};
use router::request_control::Produced;
use serde_json::{Value, json};
use tests::compare::Rules;

use super::{parsers, token_producer};
use crate::outcome::Outcome;

/// Where the scripted server listens.
const SERVER: &str = "server:8000";

/// A call that the server took.
struct Call {
    method: String,
    path: String,
    content_type: String,
    body: String,
}

type Calls = Rc<RefCell<Vec<Call>>>;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let is_warm_up = given.get("observe_ms").is_some();
    let run = Sim::new(1).run(move |rt| async move {
        let calls = listen(&rt, &given);
        let url = format!("http://{SERVER}");
        let parameters = given["parameters"].to_string().replace("$SERVER", &url);
        let parameters = Parameters::new(serde_json::from_str(&parameters).expect("JSON"));
        let name = given["type"].as_str().unwrap_or_default();
        let instance = factory(name, &parameters, &Handle::new(rt.clone())).expect("it is built");
        let mut answer = json!({});
        if let Some(ms) = given["observe_ms"].as_u64() {
            run_periodic(&rt, std::slice::from_ref(&instance));
            rt.sleep(Duration::from_millis(ms)).await;
        } else {
            answer = tokenized(&instance, &given["request"]).await;
        }
        let calls = std::mem::take(&mut *calls.borrow_mut());
        (answer, calls)
    });
    let (mut answer, calls) = run.unwrap();
    let mut then = case["then"].clone();
    // A rebuilt chat counts byte for byte, a forwarded body as JSON.
    let is_rebuilt = is_warm_up || case["given"]["request"]["path"] == "/v1/messages";
    let body = |text: &str| match is_rebuilt {
        true => text.into(),
        false => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
    };
    if let Some(expected) = then.get_mut("calls").and_then(Value::as_array_mut) {
        for call in expected {
            call["body"] = body(call["body"].as_str().unwrap_or_default());
        }
        let call = |c: &Call| json!({"method": c.method, "path": c.path, "content_type": c.content_type, "body": body(&c.body)});
        answer["calls"] = calls.iter().map(call).collect();
    } else if !calls.is_empty() {
        return Outcome::Failed(format!("{} calls of a server that is not asked", calls.len()));
    }
    // What a warm-up says it sends is not recorded.
    let rules = if is_warm_up { Rules::exact().ignore("content_type") } else { Rules::exact() };
    rules.outcome(&then, &answer)
}

/// Lets the server of a case listen.
fn listen(rt: &Rt, given: &Value) -> Calls {
    let calls = Calls::default();
    let (own_rt, log) = (rt.clone(), Rc::clone(&calls));
    let answer = given["server_answer"].clone();
    let failing = given["server_fails_first_calls"].as_u64().unwrap_or(0);
    let service = move |request: Request<Body>| {
        let (rt, log, answer) = (own_rt.clone(), Rc::clone(&log), answer.clone());
        async move {
            let content_type = request.headers().get("content-type").and_then(|value| value.to_str().ok());
            let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
            let content_type = content_type.unwrap_or_default().to_owned();
            let body = request.into_body().bytes(1 << 20).await?;
            let body = String::from_utf8(body.to_vec()).map_err(SendError::body)?;
            log.borrow_mut().push(Call { method, path, content_type, body });
            rt.sleep(Duration::from_millis(answer["delay_ms"].as_u64().unwrap_or(0))).await;
            let fails = (log.borrow().len() as u64) <= failing;
            let status = if fails { 500 } else { answer["status"].as_u64().unwrap_or(200) as u16 };
            let body = answer["body"].as_str().unwrap_or("{}").to_owned();
            Ok(Response::builder().status(status).body(Body::from(body)).expect("a response"))
        }
    };
    let address: Address = SERVER.parse().expect("an address");
    rt.simulation().expect("a simulation").listen(address, service).expect("nothing listens there yet");
    calls
}

async fn tokenized(instance: &Instance, given: &Value) -> Value {
    let producer = instance.roles.producer.as_ref().expect("a producer");
    let declared = producer.timeout().map(|timeout| timeout.as_millis());
    let mut headers = parsers::headers(&given["headers"]);
    headers.insert(":path", given["path"].as_str().unwrap_or_default());
    let registry = ParserRegistry::default();
    let body = match registry.parse(&headers, parsers::bytes(given, "body")) {
        Ok((body, _)) => body,
        Err(_) => router::request::ParsedBody::default(),
    };
    let mut request = InferenceRequest { headers, body: Some(body), ..InferenceRequest::default() };
    let mut candidates = Candidates::default();
    let outcome = match producer.produce(&mut request, &mut candidates) {
        Produced::Ready(outcome) => outcome,
        Produced::Pending(pending) => pending.await,
    };
    match outcome {
        Ok(()) => {
            let prompt = request.tokenized_prompt().map(token_producer::tokenized);
            json!({"declared_timeout_ms": declared, "tokenized_prompt": prompt})
        }
        Err(error) => {
            json!({"declared_timeout_ms": declared, "error": {"kind": kind(&error.to_string())}})
        }
    }
}

/// Returns what the vectors call an error.
fn kind(error: &str) -> &'static str {
    let kinds = [
        ("returned status", "answer-status"),
        ("no answer within", "timeout"),
        ("cannot read the answer", "answer-undecodable"),
        ("returned empty response", "empty-answer"),
        ("unsupported request body type", "unsupported-body"),
    ];
    kinds.iter().find(|(text, _)| error.contains(text)).map_or("render-failed", |(_, kind)| kind)
}
