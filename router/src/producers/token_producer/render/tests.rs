use std::cell::RefCell;
use std::rc::Rc;

use executor::http::{Body, Endpoint as Address};
use executor::{Instant, Sim};
use http::Response;
use serde_json::{Value, json};

use crate::candidates::Candidates;
use crate::headers::Headers;
use crate::plugin::{Handle, Instance, Parameters, run_periodic};
use crate::producers::token_producer::{TokenProducer, factory};
use crate::request::{InferenceRequest, ParserRegistry};
use crate::request_control::Produced;

use super::*;

/// What the scripted server says, and when.
#[derive(Clone, Copy)]
struct Says {
    status: u16,
    body: &'static str,
    after: Duration,
}

const RENDERED: Says = Says { status: 200, body: r#"[{"token_ids":[1,2,3]}]"#, after: Duration::ZERO };

/// Lets a server listen, and returns what it is asked: path and body.
fn listen(rt: &Rt, says: Says) -> Rc<RefCell<Vec<(String, Value)>>> {
    let asked: Rc<RefCell<Vec<(String, Value)>>> = Rc::default();
    let (own_rt, log) = (rt.clone(), Rc::clone(&asked));
    let service = move |request: http::Request<Body>| {
        let (rt, log) = (own_rt.clone(), Rc::clone(&log));
        async move {
            let path = request.uri().path().to_owned();
            let body = request.into_body().bytes(1 << 20).await?;
            log.borrow_mut().push((path, serde_json::from_slice(&body).expect("JSON")));
            rt.sleep(says.after).await;
            Ok(Response::builder().status(says.status).body(Body::from(says.body)).expect("a response"))
        }
    };
    let address: Address = "render:8000".parse().expect("an address");
    rt.simulation().expect("a simulation").listen(address, service).expect("nothing listens there yet");
    asked
}

fn producer(rt: &Rt) -> Instance {
    let vllm = json!({ "url": "http://render:8000/", "timeout": "150ms", "mmTimeout": "900ms" });
    let parameters = Parameters::new(json!({ "modelName": "base", "vllm": vllm }));
    factory(TokenProducer::TYPE, &parameters, &Handle::new(rt.clone())).expect("builds")
}

/// Lets the producer run over a body, and returns the token ids or the error.
async fn tokenized(instance: &Instance, path: &str, body: Value) -> Result<Vec<Vec<u32>>, String> {
    let mut headers = Headers::default();
    headers.insert(":path", path);
    let (body, _) = ParserRegistry::default().parse(&headers, body.to_string().into()).expect("it parses");
    let mut request = InferenceRequest { headers, body: Some(body), ..InferenceRequest::default() };
    let mut candidates = Candidates::default();
    let producer = instance.roles.producer.as_ref().expect("a producer");
    let outcome = match producer.produce(&mut request, &mut candidates) {
        Produced::Ready(outcome) => outcome,
        Produced::Pending(pending) => pending.await,
    };
    outcome.map_err(|error| error.to_string())?;
    Ok(request.tokenized_prompt().map_or_else(Vec::new, |t| t.prompts.iter().map(|p| p.to_vec()).collect()))
}

fn completion() -> Value {
    json!({ "model": "m", "prompt": "hello" })
}

#[test]
fn a_prompt_is_forwarded_under_the_servers_model() {
    let run = Sim::new(1).run(|rt| async move {
        let asked = listen(&rt, RENDERED);
        let instance = producer(&rt);
        assert_eq!(tokenized(&instance, "/v1/completions", completion()).await, Ok(vec![vec![1, 2, 3]]));
        let expected = json!({ "model": "base", "prompt": "hello" });
        assert_eq!(*asked.borrow(), [("/v1/completions/render".to_owned(), expected)]);
        // Token ids need no server.
        let ids = json!({ "model": "m", "prompt": [7, 8] });
        assert_eq!(tokenized(&instance, "/v1/completions", ids).await, Ok(vec![vec![7, 8]]));
        assert_eq!(asked.borrow().len(), 1);
        assert_eq!(instance.roles.producer.expect("one").timeout(), Some(Duration::from_millis(900)));
    });
    run.unwrap();
}

#[test]
fn a_slow_server_costs_the_request_its_limit_and_no_more() {
    let run = Sim::new(1).run(|rt| async move {
        listen(&rt, Says { after: Duration::from_secs(3600), ..RENDERED });
        let error = tokenized(&producer(&rt), "/v1/completions", completion()).await.expect_err("too slow");
        assert!(error.contains("no answer within 150ms"), "{error}");
        assert_eq!(rt.now() - Instant::ZERO, Duration::from_millis(150));
        let blocks = json!([{ "type": "text", "text": "a" }]);
        let chat = json!({ "model": "m", "messages": [{ "role": "user", "content": blocks }] });
        let error = tokenized(&producer(&rt), "/v1/chat/completions", chat).await.expect_err("too slow");
        assert!(error.contains("no answer within 900ms"), "{error}");
    });
    run.unwrap();
}

#[test]
fn a_dead_server_is_an_error_at_once() {
    let run = Sim::new(1).run(|rt| async move {
        let error =
            tokenized(&producer(&rt), "/v1/completions", completion()).await.expect_err("nobody there");
        assert!(error.contains("connection refused"), "{error}");
        assert_eq!(rt.now(), Instant::ZERO);
    });
    run.unwrap();
}

#[test]
fn a_server_that_refuses_is_quoted_and_a_closed_one_has_a_remedy() {
    let run = Sim::new(1).run(|rt| async move {
        let body = r#"{"error":{"type":"PermissionDeniedError"}}"#;
        listen(&rt, Says { status: 403, body, ..RENDERED });
        let error = tokenized(&producer(&rt), "/v1/completions", completion()).await.expect_err("closed");
        let expected = format!("tokenization failed: vLLM render returned status 403: {body}");
        assert!(error.starts_with(&expected) && error.contains("--enable-scale-out"), "{error}");
    });
    run.unwrap();
}

#[test]
fn a_server_is_warmed_up_once_it_answers() {
    let run = Sim::new(1).run(|rt| async move {
        let instance = producer(&rt);
        run_periodic(&rt, std::slice::from_ref(&instance));
        rt.sleep(Duration::from_secs(12)).await;
        let asked = listen(&rt, Says { body: "{}", ..RENDERED });
        rt.sleep(Duration::from_secs(60)).await;
        let parts: Vec<usize> = asked
            .borrow()
            .iter()
            .map(|(_, body)| body["messages"][0]["content"].as_array().map_or(0, Vec::len))
            .collect();
        assert_eq!(parts, [1, 2], "a text, then a text with an image");
    });
    run.unwrap();
}

#[test]
fn a_url_that_leads_nowhere_is_refused_at_the_start() {
    let refused = |vllm: Value| {
        let parameters = Parameters::new(json!({ "modelName": "m", "vllm": vllm }));
        let handle = crate::scheduling::testing::handle();
        factory(TokenProducer::TYPE, &parameters, &handle).expect_err("refused").to_string()
    };
    assert!(refused(json!({ "url": "https://render" })).contains("invalid 'url'"));
    assert!(refused(json!({ "timeout": "5" })).contains("invalid 'timeout'"));
}
