use std::time::Duration;

use executor::http::Body;
use executor::{JoinHandle, Real, Rt};
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::engine::latency::Latency;
use crate::engine::{EngineConfig, Profile};
use crate::model_server::{Driver, EngineHandle, ModelServer, ServerOptions};

/// A server in development mode before an engine whose steps take 1 ms.
struct Bench {
    rt: Rt,
    server: ModelServer,
    engine: EngineHandle,
}

fn bench<F: Future<Output = ()>>(test: impl FnOnce(Bench) -> F) {
    let real = Real::builder().current_thread().seed(1).build().unwrap();
    real.run(|rt| async move {
        let config = EngineConfig::new(Profile::VLLM_0_21, 64, 1024);
        let (driver, engine) = Driver::new(&rt, config, Latency::Fixed(1_000)).unwrap();
        drop(rt.daemon("engine", driver.run()));
        let options = ServerOptions { dev_mode: true, ..ServerOptions::new("tiny", 1024) };
        let server = ModelServer::new(&rt, "0", vec![engine.clone()], options);
        let bench = Bench { rt: rt.clone(), server, engine };
        rt.timeout(Duration::from_secs(30), test(bench)).await.unwrap();
    });
}

impl Bench {
    async fn call(&self, method: &str, path: &str) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).body(Body::Empty).unwrap();
        answer(self.server.handle(request).await).await
    }

    /// Asks for `max_tokens` tokens behind a prompt of 40.
    fn complete(&self, max_tokens: u32) -> JoinHandle<(StatusCode, Value)> {
        let prompt: Vec<u32> = (20..60).collect();
        let body = json!({"prompt": prompt, "max_tokens": max_tokens}).to_string();
        let request = Request::post("/v1/completions").header("content-type", "application/json");
        let request = request.body(Body::from(body)).unwrap();
        let server = self.server.clone();
        self.rt.spawn("client", async move { answer(server.handle(request).await).await })
    }

    /// Waits until the engine has written so many tokens.
    async fn until(&self, tokens: u64) {
        while self.written() < tokens {
            self.rt.sleep(Duration::from_micros(200)).await;
        }
    }

    fn written(&self) -> u64 {
        self.engine.published().lock().generation_tokens
    }
}

async fn answer(response: Response<Body>) -> (StatusCode, Value) {
    let status = response.status();
    let bytes = response.into_body().bytes(1 << 20).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

fn ended((status, body): &(StatusCode, Value)) -> (u16, &str, u64) {
    let tokens = body["usage"]["completion_tokens"].as_u64().unwrap();
    (status.as_u16(), body["choices"][0]["finish_reason"].as_str().unwrap(), tokens)
}

/// Model-server spec 6.4: answers complete with 200 and what was written; later requests wait for the end of the pause.
#[test]
fn a_pause_aborts_what_is_unfinished_and_holds_what_comes_later() {
    bench(|bench| async move {
        let running = bench.complete(500);
        bench.until(5).await;
        assert_eq!(bench.call("POST", "/pause").await, (StatusCode::OK, json!({"status": "paused"})));
        let running = running.await.unwrap();
        let (status, reason, tokens) = ended(&running);
        assert!((status, reason) == (200, "abort") && (5..500).contains(&tokens), "{running:?}");
        let page = bench.engine.published().lock().clone();
        assert_eq!((page.aborted_by_engine, page.aborted), (1, 0));

        let written = bench.written();
        let later = bench.complete(3);
        bench.rt.sleep(Duration::from_millis(20)).await;
        assert_eq!((bench.written(), later.is_finished()), (written, false));
        assert_eq!(bench.call("GET", "/is_paused").await.1, json!({"is_paused": true}));
        assert_eq!(bench.call("GET", "/health").await.0, StatusCode::OK);
        bench.call("POST", "/resume").await;
        assert_eq!(ended(&later.await.unwrap()), (200, "length", 3));
    });
}

#[test]
fn a_pause_waits_for_running_requests_or_keeps_them() {
    bench(|bench| async move {
        let running = bench.complete(30);
        bench.until(5).await;
        bench.call("POST", "/pause?mode=wait").await;
        assert_eq!(bench.written(), 30, "it is answered when the last running request has ended");
        assert_eq!(ended(&running.await.unwrap()), (200, "length", 30));
        bench.call("POST", "/resume").await;

        let running = bench.complete(60);
        bench.until(40).await;
        bench.call("POST", "/pause?mode=keep&clear_cache=false").await;
        let written = bench.written();
        bench.rt.sleep(Duration::from_millis(20)).await;
        assert_eq!(bench.written(), written);
        bench.call("POST", "/resume").await;
        assert_eq!(ended(&running.await.unwrap()), (200, "length", 60));
    });
}

#[test]
fn a_pause_that_clears_the_cache_forgets_prompts() {
    bench(|bench| async move {
        let hits = || bench.engine.published().lock().prefix_cache_hits;
        for (path, hit) in [("/pause?clear_cache=false", 32), ("/pause?clear_cache=true", 0), ("/pause", 0)] {
            bench.complete(1).await.unwrap();
            bench.call("POST", path).await;
            bench.call("POST", "/resume").await;
            let before = hits();
            bench.complete(1).await.unwrap();
            assert_eq!(hits() - before, hit, "{path}");
        }
    });
}

#[test]
fn a_sleeping_server_looks_healthy_and_steps_nothing_until_it_is_awake_whole() {
    bench(|bench| async move {
        assert_eq!(bench.call("POST", "/sleep?level=2").await.0, StatusCode::OK);
        assert_eq!(bench.engine.published().lock().sleep_level, 2);
        let waiting = bench.complete(2);
        for (path, asleep) in [
            ("/is_sleeping", true),
            ("/wake_up?tags=weights", true),
            // Scheduling alone does not wake what is asleep.
            ("/resume", true),
            ("/wake_up?tags=kv_cache", false),
        ] {
            let method = if path.starts_with("/is") { "GET" } else { "POST" };
            assert_eq!(bench.call(method, path).await.0, StatusCode::OK);
            let (_, body) = bench.call("GET", "/is_sleeping").await;
            assert_eq!(body, json!({"is_sleeping": asleep}), "{path}");
            if asleep {
                bench.rt.sleep(Duration::from_millis(5)).await;
                assert!(!waiting.is_finished(), "{path}");
            }
            assert_eq!(bench.call("GET", "/health").await.0, StatusCode::OK);
        }
        assert_eq!(bench.engine.published().lock().sleep_level, 0);
        assert_eq!(ended(&waiting.await.unwrap()), (200, "length", 2));
    });
}

#[test]
fn values_that_are_none_are_refused() {
    bench(|bench| async move {
        for path in [
            "/pause?mode=later",
            "/pause?clear_cache=2",
            "/sleep?level=3",
            "/sleep?level=x",
            "/wake_up?tags=all",
        ] {
            let (status, body) = bench.call("POST", path).await;
            assert_eq!(
                (status, &body["error"]["type"]),
                (StatusCode::BAD_REQUEST, &json!("Bad Request")),
                "{path}"
            );
        }
        assert_eq!(bench.call("GET", "/is_paused").await.1, json!({"is_paused": false}));
    });
}
