//! HTTP/2 clients of the proxy, on sockets: what a connection with many streams can do that one request cannot.

use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use executor::{Real, Rt};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use router::embed::RouterConfig;
use serde_json::json;
use tests::rig::{Engine, MODEL, Router};
use tokio::net::TcpStream;

const STEP: Duration = Duration::from_millis(5);

/// Runs `test` with a router before one engine.
fn with_router<F: Future<Output = ()>>(max_body_bytes: usize, test: impl FnOnce(Rt, Router, Engine) -> F) {
    let real = Real::builder().worker_threads(2).build().expect("a runtime");
    real.run(|rt| async move {
        let engine = Engine::start(&rt, "engine", Engine::small(), STEP).await;
        let mut config = RouterConfig::new("http2.yaml", "");
        config.proxy.max_body_bytes = max_body_bytes;
        let router = Router::start(&rt, config, [&engine], |_| {}).await;
        let limit = Duration::from_secs(20);
        rt.timeout(limit, test(rt.clone(), router, engine)).await.expect("no hang");
    });
}

async fn connect(router: &Router) -> SendRequest<Full<Bytes>> {
    let socket = TcpStream::connect(router.endpoint.to_string()).await.expect("it listens");
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(socket)).await.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

fn completion(prompt: &str, tokens: u32) -> Request<Full<Bytes>> {
    let body = json!({"model": MODEL, "prompt": prompt, "max_tokens": tokens, "ignore_eos": true});
    let request = Request::post("http://router/v1/completions").header("content-type", "application/json");
    request.body(Full::new(Bytes::from(body.to_string()))).expect("a request")
}

#[test]
fn a_body_that_is_too_long_is_answered_and_its_stream_is_not_reset() {
    with_router(1000, |_, router, _| async move {
        let mut client = connect(&router).await;
        let long = "x".repeat(4 << 20);
        let response = client.send_request(completion(&long, 1)).await.expect("a head, not a reset");
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
        let body = response.into_body().collect().await.expect("a body, not a reset").to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("longer than 1000 bytes"));
        let response = client.send_request(completion("short", 1)).await.expect("the connection lives");
        assert_eq!(response.status(), StatusCode::OK);
    });
}

/// Streams that are opened and reset at once: the engine is rid of all of them, and others are served meanwhile.
#[test]
fn streams_that_are_reset_leave_nothing_behind() {
    with_router(1 << 20, |rt, router, engine| async move {
        for _ in 0..10 {
            // The server may close a connection that does this; the client opens another.
            let client = connect(&router).await;
            let mut open = Vec::new();
            for _ in 0..30 {
                let mut sender = client.clone();
                open.push(tokio::spawn(async move { sender.send_request(completion("reset", 3000)).await }));
            }
            rt.sleep(STEP).await;
            open.iter().for_each(tokio::task::JoinHandle::abort);
        }
        let response = connect(&router).await.send_request(completion("kept", 2)).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        let open = || {
            let published = engine.handle.published().lock();
            published.gauges.running as u64 + published.waiting()
        };
        while open() > 0 {
            rt.sleep(STEP).await;
        }
    });
}
