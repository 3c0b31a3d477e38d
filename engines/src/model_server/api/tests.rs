use std::sync::Arc;
use std::time::Duration;

use executor::http::{Body, Endpoint};
use executor::{Real, Rt, Server};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use router::data_layer::engine_gauges::{AcceptGauges, CacheConfig, EngineGauges};
use serde_json::{Value, json};

use super::{InProcessCall, ModelServer, ServerOptions};
use crate::engine::latency::Latency;
use crate::engine::{EngineConfig, Profile, Token};
use crate::model_server::{Driver, EngineHandle, Tokens};

/// Runs `test` beside a server named tiny whose engine has 63 usable blocks of 16 and steps of 1 ms.
fn with_server<F: Future<Output = ()>>(test: impl FnOnce(Rt, ModelServer, EngineHandle) -> F) {
    let real = Real::builder().current_thread().seed(1).build().unwrap();
    real.run(|rt| async move {
        let config = EngineConfig::new(Profile::VLLM_0_21, 64, 1024);
        let (driver, handle) = Driver::new(&rt, config, Latency::Fixed(1_000)).unwrap();
        drop(rt.daemon("engine", driver.run()));
        let server = ModelServer::new(&rt, "0", vec![handle.clone()], ServerOptions::new("tiny", 1024));
        rt.timeout(Duration::from_secs(30), test(rt.clone(), server, handle)).await.unwrap();
    });
}

fn completion(body: &Value) -> Request<Body> {
    let request = Request::post("/v1/completions").header("content-type", "application/json");
    request.body(Body::from(body.to_string())).unwrap()
}

async fn text(response: Response<Body>) -> String {
    String::from_utf8(response.into_body().bytes(1 << 20).await.unwrap().to_vec()).unwrap()
}

async fn json_of(response: Response<Body>) -> Value {
    serde_json::from_str(&text(response).await).unwrap()
}

async fn until_idle(rt: &Rt, handle: &EngineHandle) {
    while handle.published().lock().gauges.running > 0 {
        rt.sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn text_is_a_function_of_the_request() {
    with_server(|_, server, _| async move {
        let asked = |seed: u64| completion(&json!({"prompt": "the router", "max_tokens": 20, "seed": seed}));
        let written = async |request| {
            let answer = json_of(server.handle(request).await).await;
            assert_eq!(answer["usage"]["completion_tokens"], 20, "a limit is written up to");
            answer["choices"][0]["text"].as_str().unwrap().to_owned()
        };
        let first = written(asked(1)).await;
        assert!(first.len() > 20 && first.is_ascii(), "{first:?}");
        assert_eq!(written(asked(1)).await, first);
        assert_ne!(written(asked(2)).await, first);
    });
}

#[test]
fn a_request_without_a_limit_comes_to_an_end_of_its_own() {
    with_server(|_, server, handle| async move {
        let asked = completion(&json!({"prompt": "abc", "max_tokens": null, "stream": true, "seed": 4}));
        let events = text(server.handle(asked).await).await;
        assert!(events.contains("\"finish_reason\":\"stop\""), "{events}");
        assert_eq!(handle.published().lock().stopped, 1);
    });
}

/// vLLM 0.21 fails once it has the whole answer, and only where it does not stream (model-server spec 1.2; vector
/// `http-completions-max-null`).
#[test]
fn a_limit_of_null_fails_without_a_stream() {
    with_server(|_, server, handle| async move {
        let response =
            server.handle(completion(&json!({"prompt": "abc", "max_tokens": null, "seed": 4}))).await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(json_of(response).await["error"]["type"], "InternalServerError");
        assert_eq!(handle.published().lock().stopped, 1, "the answer was generated");
    });
}

#[test]
fn dropping_the_body_aborts_every_choice() {
    with_server(|rt, server, handle| async move {
        let body = json!({"prompt": ["abc", "de"], "n": 2, "max_tokens": 1000, "stream": true});
        let mut response = server.handle(completion(&body)).await;
        response.body_mut().frame().await.unwrap().unwrap();
        assert_eq!(handle.published().lock().gauges.running, 4);
        drop(response);
        until_idle(&rt, &handle).await;
        assert_eq!(handle.published().lock().aborted, 4);
    });
}

#[test]
fn dropping_the_handler_aborts() {
    with_server(|rt, server, handle| async move {
        let asked = completion(&json!({"prompt": "abc", "max_tokens": 1000}));
        let outcome = rt.timeout(Duration::from_millis(20), server.handle(asked)).await;
        assert!(outcome.is_err());
        until_idle(&rt, &handle).await;
        assert_eq!(handle.published().lock().aborted, 1);
    });
}

#[test]
fn a_stop_string_is_a_stop_not_an_abort() {
    with_server(|rt, server, handle| async move {
        let body = json!({"prompt": "abc", "max_tokens": 900, "logit_bias": {"67": 100}, "stop": "aaa"});
        let answer = json_of(server.handle(completion(&body)).await).await;
        assert_eq!(answer["choices"][0]["stop_reason"], "aaa");
        until_idle(&rt, &handle).await;
        let published = handle.published().lock().clone();
        assert_eq!((published.stopped, published.aborted), (1, 0));
    });
}

#[test]
fn a_call_in_process_gets_two_frames_and_a_receipt() {
    with_server(|_, server, _| async move {
        for (output, cached) in [(5, 0), (1, 32)] {
            let prompt: Arc<[Token]> = (0..40).collect();
            let call = Arc::new(InProcessCall::new(prompt, output));
            let mut request = Request::post("/v1/completions").body(Body::Empty).unwrap();
            request.extensions_mut().insert(Arc::clone(&call));
            let mut response = server.handle(request).await;
            let mut frames = Vec::new();
            while let Some(frame) = response.body_mut().frame().await {
                let receipt = call.receipt();
                frames.push(String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap());
                assert!(frames.len() < 2 || receipt.is_some(), "the receipt is there before the last frame");
            }
            let [first, last] = &frames[..] else { panic!("{frames:?}") };
            let event = |text: &str| serde_json::from_str::<Value>(&text["data: ".len()..]).unwrap();
            assert_eq!(event(first)["choices"].as_array().unwrap().len(), 1);
            let usage = event(last.strip_suffix("\n\ndata: [DONE]\n\n").unwrap())["usage"].clone();
            let want = json!({
                "prompt_tokens": 40, "completion_tokens": output, "total_tokens": 40 + output,
                "prompt_tokens_details": {"cached_tokens": cached},
            });
            assert_eq!(usage, want);
            let receipt = call.receipt().unwrap();
            assert_eq!(receipt.tokens, Tokens { prompt: 40, cached, output });
            assert_eq!(receipt.end == receipt.first_token, output == 1);
        }
    });
}

#[test]
fn a_call_that_cannot_fit_is_answered_with_an_error_event() {
    with_server(|_, server, _| async move {
        let call = Arc::new(InProcessCall::new((0..2000).collect(), 5));
        let mut request = Request::new(Body::Empty);
        request.extensions_mut().insert(Arc::clone(&call));
        let answer = text(server.handle(request).await).await;
        assert!(answer.starts_with("data: {\"error\":") && answer.ends_with("data: [DONE]\n\n"), "{answer}");
        assert_eq!(call.receipt(), None);
    });
}

#[test]
fn who_accepts_gauges_gets_values_instead_of_text() {
    with_server(|_, server, handle| async move {
        let mut request = Request::get("/metrics").body(Body::Empty).unwrap();
        request.extensions_mut().insert(AcceptGauges);
        handle.published().lock().gauges.waiting = 3;
        let response = server.handle(request).await;
        let gauges = response.extensions().get::<EngineGauges>().unwrap();
        assert_eq!((gauges.waiting, gauges.running, &*gauges.model_name), (3, 0, "tiny"));
        assert_eq!(gauges.cache_config, CacheConfig { block_size: 16, num_gpu_blocks: 64 });
        assert_eq!(text(response).await, "");
    });
}

#[test]
fn without_its_engine_a_server_is_not_healthy() {
    let real = Real::builder().current_thread().seed(1).build().unwrap();
    real.run(|rt| async move {
        let config = EngineConfig::new(Profile::VLLM_0_21, 64, 1024);
        let (driver, handle) = Driver::new(&rt, config, Latency::Fixed(1_000)).unwrap();
        let server = ModelServer::new(&rt, "0", vec![handle], ServerOptions::new("tiny", 1024));
        let health = || Request::get("/health").body(Body::Empty).unwrap();
        assert_eq!(server.handle(health()).await.status(), StatusCode::OK);
        drop(driver);
        assert_eq!(server.handle(health()).await.status(), StatusCode::SERVICE_UNAVAILABLE);
        let answer = server.handle(completion(&json!({"prompt": "abc"}))).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    });
}

#[test]
fn ranks_are_chosen_by_header_or_by_load() {
    let real = Real::builder().current_thread().seed(1).build().unwrap();
    real.run(|rt| async move {
        let engine = || {
            let config = EngineConfig::new(Profile::VLLM_0_21, 64, 1024);
            let (driver, handle) = Driver::new(&rt, config, Latency::Fixed(1_000)).unwrap();
            drop(rt.daemon("engine", driver.run()));
            handle
        };
        let ranks = vec![engine(), engine()];
        let server = ModelServer::new(&rt, "0", ranks.clone(), ServerOptions::new("tiny", 1024));
        let ask = async |rank: Option<&str>| {
            let mut request = completion(&json!({"prompt": "abc", "max_tokens": 1}));
            if let Some(rank) = rank {
                request.headers_mut().insert("x-data-parallel-rank", rank.parse().unwrap());
            }
            server.handle(request).await.status()
        };
        let served = || ranks.iter().map(|rank| rank.published().lock().length_limited).collect::<Vec<_>>();
        assert_eq!(ask(Some("1")).await, StatusCode::OK);
        assert_eq!(served(), [0, 1]);
        assert_eq!(ask(Some("2")).await, StatusCode::BAD_REQUEST);
        assert_eq!(ask(Some("x")).await, StatusCode::OK);
        assert_eq!(served(), [1, 1], "no rank: the first of the least loaded");
        ranks[0].published().lock().gauges.waiting = 1;
        assert_eq!(ask(None).await, StatusCode::OK);
        assert_eq!(served(), [1, 2]);
    });
}

#[test]
fn a_socket_serves_the_same_function() {
    let real = Real::builder().seed(1).build().unwrap();
    real.run(|rt| async move {
        let config = EngineConfig::new(Profile::VLLM_0_21, 64, 1024);
        let (driver, handle) = Driver::new(&rt, config, Latency::Fixed(1_000)).unwrap();
        drop(rt.daemon("engine", driver.run()));
        let server = ModelServer::new(&rt, "0", vec![handle.clone()], ServerOptions::new("tiny", 1024));
        let listener = Server::bind("127.0.0.1:0".parse().unwrap(), 16).await.unwrap();
        let endpoint = Endpoint::from(listener.local_addr());
        let service = move |request| {
            let server = server.clone();
            async move { server.handle(request).await }
        };
        let serving = listener.serve(service, std::future::pending(), Duration::from_secs(1));
        drop(rt.spawn("server", serving));
        let body = json!({"prompt": "abc", "max_tokens": 4, "logit_bias": {"67": 100}});
        let answer = rt.http().send(&endpoint, completion(&body)).await.unwrap();
        assert_eq!(json_of(answer).await["choices"][0]["text"], "aaaa");
        // A client that goes away is noticed.
        let body = json!({"prompt": "abc", "max_tokens": 1000, "stream": true});
        let mut stream = rt.http().send(&endpoint, completion(&body)).await.unwrap();
        stream.body_mut().frame().await.unwrap().unwrap();
        drop(stream);
        while handle.published().lock().aborted == 0 {
            rt.sleep(Duration::from_millis(1)).await;
        }
    });
}
