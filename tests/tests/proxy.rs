//! What the proxy does when a model server or a client misbehaves, on both hosts: nothing hangs, nothing is lost,
//! and its books are right afterwards.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use executor::http::{Body, Endpoint, SendError};
use executor::{Real, Rt, Sim, Sleep};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::BodyExt;
use router::data_layer::EndpointNotifier;
use router::embed::RouterConfig;
use router::endpoint::{EndpointId, EndpointMetadata};
use serde_json::json;
use tests::rig::{Engine, MODEL, Router, listen};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(20);

const STEP: Duration = Duration::from_millis(5);

/// Runs `test` in simulation and on sockets.
fn on_both_hosts<F: Future<Output = ()> + 'static>(test: impl Fn(Rt) -> F + Clone + 'static) {
    let simulated = test.clone();
    Sim::builder().seed(1).build().run(simulated).unwrap();
    Real::builder().worker_threads(2).build().expect("a runtime").run(test);
}

/// A router before servers of the test's own.
async fn router_before(rt: &Rt, servers: &[(&str, &Endpoint)]) -> Router {
    let router = Router::start(rt, RouterConfig::new("proxy.yaml", ""), [], |_| {}).await;
    for (name, endpoint) in servers {
        router.datastore.upsert(EndpointMetadata {
            id: EndpointId::new("default", *name),
            name: (*name).to_owned(),
            address: endpoint.host().to_owned(),
            port: endpoint.port().to_string(),
            metrics_host: endpoint.to_string(),
            ..EndpointMetadata::default()
        });
    }
    router
}

fn completion(stream: bool, tokens: u32) -> Request<Body> {
    let body = json!({"model": MODEL, "prompt": "Hello", "max_tokens": tokens, "stream": stream, "ignore_eos": true});
    let request = Request::post("/v1/completions").header("content-type", "application/json");
    request.body(Body::from(body.to_string())).expect("a request")
}

async fn page(rt: &Rt, router: &Router, path: &str) -> String {
    let request = Request::get(path).body(Body::Empty).expect("a request");
    let response = rt.http().send(&router.endpoint, request).await.expect("the router answers");
    let body = response.into_body().bytes(1 << 20).await.expect("a whole page");
    String::from_utf8(body.to_vec()).expect("text")
}

/// Returns the value of the only series of a metric, zero where there is none.
async fn metric(rt: &Rt, router: &Router, name: &str) -> f64 {
    let page = page(rt, router, "/metrics").await;
    let mut series =
        page.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
    let value = series.next().map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap());
    assert_eq!(series.next(), None, "one series of {name}");
    value
}

async fn until<F: Future<Output = bool>>(rt: &Rt, what: &str, come: impl Fn() -> F) {
    let wait = async {
        while !come().await {
            rt.sleep(Duration::from_millis(2)).await;
        }
    };
    rt.timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("in {PATIENCE:?}, not once: {what}"));
}

/// Counts those that are there.
#[derive(Clone, Default)]
struct Living(Arc<AtomicUsize>);

struct Alive(Arc<AtomicUsize>);

impl Living {
    fn one_more(&self) -> Alive {
        self.0.fetch_add(1, Ordering::SeqCst);
        Alive(Arc::clone(&self.0))
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A model server that accepts requests and then says nothing, as a stopped process does, while `stopped`.
async fn stalling(rt: &Rt, name: &str, stopped: &Arc<AtomicBool>, waiting: &Living) -> Endpoint {
    let (host, stopped, waiting) = (rt.clone(), Arc::clone(stopped), waiting.clone());
    listen(rt, name, move |_| {
        let (rt, stopped, alive) = (host.clone(), Arc::clone(&stopped), waiting.one_more());
        async move {
            while stopped.load(Ordering::SeqCst) {
                rt.sleep(Duration::from_millis(5)).await;
            }
            drop(alive);
            Response::new(Body::from("{}\n"))
        }
    })
    .await
}

/// A server that stalls is left out, requests that wait for it move, and it is back once it answers.
#[test]
fn a_stalled_model_server_keeps_no_request() {
    on_both_hosts(|rt| async move {
        let (stopped, waiting) = (Arc::new(AtomicBool::new(true)), Living::default());
        let stalled = stalling(&rt, "stalled", &stopped, &waiting).await;
        let router = router_before(&rt, &[("a", &stalled)]).await;
        let client = rt.spawn("client", rt.http().send(&router.endpoint, completion(false, 2)));
        until(&rt, "the request reaches the stalled server", || async { waiting.count() > 0 }).await;
        let engine = Engine::start(&rt, "engine", Engine::small(), STEP).await;
        router.datastore.upsert(EndpointMetadata {
            id: EndpointId::new("default", "b"),
            address: engine.endpoint.host().to_owned(),
            port: engine.endpoint.port().to_string(),
            metrics_host: engine.endpoint.to_string(),
            ..EndpointMetadata::default()
        });

        let moved = rt.timeout(PATIENCE, client).await.expect("the request moves").unwrap().unwrap();
        assert_eq!(moved.status(), 200);
        drop(moved);
        assert_eq!(metric(&rt, &router, "lockstep_requests_rerouted_total").await, 1.0);
        let left_out = format!("lockstep_endpoint_left_out{{endpoint=\"{stalled}\",reason=\"silent\"}} 1");
        assert!(page(&rt, &router, "/metrics").await.contains(&left_out));
        // Polls alone wait there from now on.
        for _ in 0..20 {
            let answer = rt.http().send(&router.endpoint, completion(false, 2)).await.expect("an answer");
            assert!(answer.into_body().bytes(1 << 20).await.unwrap().starts_with(b"{\"id\""));
            assert!(waiting.count() <= 1, "{} wait", waiting.count());
        }

        stopped.store(false, Ordering::SeqCst);
        until(&rt, "the server is back", || async {
            !page(&rt, &router, "/metrics").await.contains("lockstep_endpoint_left_out{")
        })
        .await;
        assert_eq!(metric(&rt, &router, "llm_d_epp_request_running").await, 0.0);
    });
}

/// Where nobody answers polls, requests go on being sent: polls may fail where inference does not.
#[test]
fn the_last_server_is_not_left_out() {
    on_both_hosts(|rt| async move {
        let host = rt.clone();
        let server = listen(&rt, "no-metrics", move |request: Request<Body>| {
            let rt = host.clone();
            async move {
                if request.uri().path() == "/metrics" {
                    rt.sleep(PATIENCE).await;
                }
                Response::new(Body::from("{}\n"))
            }
        })
        .await;
        let router = router_before(&rt, &[("a", &server)]).await;
        until(&rt, "it counts as silent", || async {
            page(&rt, &router, "/metrics").await.contains("lockstep_endpoint_left_out{")
        })
        .await;
        let answer = rt.http().send(&router.endpoint, completion(false, 2)).await.expect("an answer");
        assert_eq!(answer.status(), 200);
    });
}

/// A stream of given chunks, one each 5 ms, and then an error.
struct Breaking {
    rt: Rt,
    chunks: VecDeque<&'static str>,
    timer: Pin<Box<Sleep>>,
}

impl http_body::Body for Breaking {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        std::task::ready!(self.timer.as_mut().poll(cx));
        self.timer = Box::pin(self.rt.sleep(STEP));
        Poll::Ready(Some(match self.chunks.pop_front() {
            Some(chunk) => Ok(Frame::data(Bytes::from_static(chunk.as_bytes()))),
            None => Err(SendError::reset()),
        }))
    }
}

/// The client of a stream whose server dies sees a broken stream, not a short one.
#[test]
fn a_stream_that_breaks_off_is_seen_as_broken() {
    on_both_hosts(|rt| async move {
        let host = rt.clone();
        let server = listen(&rt, "dying", move |request: Request<Body>| {
            let rt = host.clone();
            async move {
                if request.uri().path() != "/v1/completions" {
                    return Response::new(Body::from("a 1\n"));
                }
                let timer = Box::pin(rt.sleep(STEP));
                let chunks = VecDeque::from(["data: {\"choices\":[]}\n\n", "data: {\"cho"]);
                let response = Response::builder().header("content-type", "text/event-stream");
                response.body(Body::stream(Breaking { rt, chunks, timer })).expect("a response")
            }
        })
        .await;
        let router = router_before(&rt, &[("a", &server)]).await;
        let response = rt.http().send(&router.endpoint, completion(true, 9)).await.expect("a head");
        assert_eq!(response.status(), 200);
        let (mut body, mut read, mut broken) = (response.into_body(), Vec::new(), false);
        while let Some(frame) = rt.timeout(PATIENCE, body.frame()).await.expect("no hang") {
            match frame {
                Ok(frame) => read.extend(frame.into_data().unwrap_or_default()),
                Err(_) => {
                    broken = true;
                    break;
                }
            }
        }
        assert!(broken, "the stream ended as if it were whole");
        assert_eq!(read, b"data: {\"choices\":[]}\n\ndata: {\"cho");
        until(&rt, "nothing is running", || async {
            metric(&rt, &router, "llm_d_epp_request_running").await == 0.0
        })
        .await;
        assert_eq!(metric(&rt, &router, "llm_d_epp_request_total").await, 1.0);
        // Only responses that came to their end have a duration (configuration spec 11.2).
        assert!(!page(&rt, &router, "/metrics").await.contains("llm_d_epp_request_duration_seconds_count"));
    });
}

/// A client that goes away frees the engine: before the head of the response, and amid its stream.
#[test]
fn a_client_that_leaves_takes_its_request_along() {
    on_both_hosts(|rt| async move {
        let engine = Engine::start(&rt, "engine", Engine::small(), STEP).await;
        let router = router_before(&rt, &[("a", &engine.endpoint)]).await;
        let running = || engine.handle.published().lock().gauges.running;
        for stream in [true, false] {
            let (http, to) = (rt.http(), router.endpoint.clone());
            let client = rt.spawn_local("client", async move {
                let response = http.send(&to, completion(stream, 3000)).await.expect("a head");
                let mut body = response.into_body();
                while let Some(frame) = body.frame().await {
                    drop(frame.expect("a frame"));
                }
            });
            until(&rt, "the engine runs the request", || async { running() == 1 }).await;
            rt.sleep(STEP * 4).await;
            assert!(!client.is_finished());
            client.abort();
            let left = rt.now();
            until(&rt, "the engine drops the request", || async { running() == 0 }).await;
            if rt.simulation().is_some() {
                assert!(rt.now() - left <= Duration::from_millis(100), "{:?}", rt.now() - left);
            }
            until(&rt, "the router forgets it", || async {
                metric(&rt, &router, "llm_d_epp_request_running").await == 0.0
            })
            .await;
        }
    });
}

/// An endless stream that counts its bytes.
struct Endless {
    sent: Arc<AtomicUsize>,
    _alive: Alive,
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        static CHUNK: [u8; 16 << 10] = [b'x'; 16 << 10];
        self.sent.fetch_add(CHUNK.len(), Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&CHUNK)))))
    }
}

/// A client that reads slowly slows the model server down; what lies between is bounded.
#[test]
fn a_slow_reader_holds_the_model_server_back() {
    on_both_hosts(|rt| async move {
        let (sent, streams) = (Arc::new(AtomicUsize::new(0)), Living::default());
        let (counter, living) = (Arc::clone(&sent), streams.clone());
        let server = listen(&rt, "endless", move |request: Request<Body>| {
            let body = match request.uri().path() {
                "/v1/completions" => {
                    Body::stream(Endless { sent: Arc::clone(&counter), _alive: living.one_more() })
                }
                _ => Body::from("a 1\n"),
            };
            async move { Response::new(body) }
        })
        .await;
        let router = router_before(&rt, &[("a", &server)]).await;
        let response = rt.http().send(&router.endpoint, completion(true, 9)).await.expect("a head");
        let mut body = response.into_body();
        let mut read = 0;
        while read < 1 << 20 {
            let frame = body.frame().await.expect("more").expect("a frame");
            read += frame.into_data().map_or(0, |data| data.len());
        }
        // Buffers of two connections, up to what the operating system grants a socket.
        let most = 64 << 20;
        let mut before = usize::MAX;
        while sent.load(Ordering::SeqCst) != before {
            before = sent.load(Ordering::SeqCst);
            assert!(before - read < most, "{before} sent, {read} read");
            rt.sleep(Duration::from_millis(100)).await;
        }
        drop(body);
        until(&rt, "the server's stream is dropped", || async { streams.count() == 0 }).await;
    });
}
