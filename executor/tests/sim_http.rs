//! HTTP in the simulation: direct calls of the services that listen.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use executor::http::{Body, Endpoint, SendError};
use executor::sync::mpsc;
use executor::{Rt, Sim};
use http::{Request, Response};
use http_body::Frame;

#[path = "support/support.rs"]
mod support;
use support::{Log, OnDrop};

fn endpoint() -> Endpoint {
    "10.0.0.1:8000".parse().unwrap()
}

fn get() -> Request<Body> {
    Request::get("/metrics").body(Body::Empty).unwrap()
}

/// A body fed by a channel.
struct Chunks(mpsc::Receiver<&'static str>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        self.0
            .poll_recv(cx)
            .map(|chunk| chunk.map(|chunk| Ok(Frame::data(Bytes::from_static(chunk.as_bytes())))))
    }
}

#[test]
fn a_service_answers_at_its_endpoint_and_extensions_pass_through() {
    #[derive(Clone, Debug, PartialEq)]
    struct Typed(u32);
    Sim::new(0)
        .run(async |rt: Rt| {
            let simulation = rt.simulation().unwrap();
            let host = rt.clone();
            let service = move |request: Request<Body>| {
                let host = host.clone();
                async move {
                    host.sleep(Duration::from_millis(3)).await;
                    let Typed(n) = request.extensions().get().cloned().unwrap();
                    let mut response = Response::new(Body::from(request.uri().path().to_owned()));
                    response.extensions_mut().insert(Typed(n + 1));
                    Ok(response)
                }
            };
            simulation.listen(endpoint(), service).unwrap();
            let mut request = get();
            request.extensions_mut().insert(Typed(1));
            let response = rt.http().send(&endpoint(), request).await.unwrap();
            assert_eq!(rt.now().as_nanos(), 3_000_000);
            assert_eq!(response.extensions().get(), Some(&Typed(2)));
            assert_eq!(response.into_body().bytes(100).await.unwrap(), "/metrics");
        })
        .unwrap();
}

#[test]
fn nobody_listening_refuses_before_and_after() {
    Sim::new(0)
        .run(async |rt: Rt| {
            let simulation = rt.simulation().unwrap();
            let refused = async || rt.http().send(&endpoint(), get()).await.unwrap_err().is_refused();
            assert!(refused().await);
            let ok = async |_| Ok(Response::new(Body::Empty));
            simulation.listen(endpoint(), ok).unwrap();
            assert_eq!(simulation.listen(endpoint(), ok).unwrap_err().0, endpoint());
            assert!(rt.http().send(&endpoint(), get()).await.is_ok());
            assert!(simulation.close(&endpoint()));
            assert!(!simulation.close(&endpoint()));
            assert!(refused().await);
        })
        .unwrap();
}

#[test]
fn dropping_the_wait_drops_the_servers_work() {
    let log = Log::default();
    let seen = log.clone();
    Sim::new(0)
        .run(async move |rt: Rt| {
            let (host, log) = (rt.clone(), log.clone());
            let service = move |_| {
                let (sleep, on_drop) = (host.sleep(Duration::from_secs(60)), OnDrop(log.clone(), "dropped"));
                async move {
                    sleep.await;
                    drop(on_drop);
                    Ok(Response::new(Body::Empty))
                }
            };
            rt.simulation().unwrap().listen(endpoint(), service).unwrap();
            let limited = rt.timeout(Duration::from_secs(1), rt.http().send(&endpoint(), get()));
            assert!(limited.await.is_err());
        })
        .unwrap();
    assert_eq!(seen.take(), ["dropped"]);
}

#[test]
fn dropping_a_streamed_body_closes_its_producers_channel() {
    Sim::new(0)
        .run(async |rt: Rt| {
            let host = rt.clone();
            let (result, sent) = rt.oneshot();
            let result = std::cell::Cell::new(Some(result));
            let service = move |_| {
                let (tx, rx) = host.mpsc(1);
                let (host, result) = (host.clone(), result.take().unwrap());
                let pace = host.clone();
                host.spawn("engine", async move {
                    let mut sent = 0;
                    while tx.send("chunk").await.is_ok() {
                        sent += 1;
                        pace.sleep(Duration::from_millis(1)).await;
                    }
                    result.send(sent).unwrap();
                });
                async move { Ok(Response::new(Body::stream(Chunks(rx)))) }
            };
            rt.simulation().unwrap().listen(endpoint(), service).unwrap();
            let response = rt.http().send(&endpoint(), get()).await.unwrap();
            let mut body = response.into_body();
            for _ in 0..3 {
                let frame = http_body_util::BodyExt::frame(&mut body).await.unwrap().unwrap();
                assert_eq!(frame.into_data().unwrap(), "chunk");
            }
            drop(body);
            assert_eq!(sent.await, Ok(3));
        })
        .unwrap();
}

#[test]
fn a_server_that_fails_gives_the_error_with_its_endpoint() {
    let run = Sim::new(0).run(async |rt: Rt| {
        let simulation = rt.simulation().unwrap();
        simulation.listen(endpoint(), async |_| Err(SendError::reset())).unwrap();
        let error = rt.http().send(&endpoint(), get()).await.unwrap_err();
        assert!(error.is_reset() && error.endpoint() == Some(&endpoint()));
        simulation.close(&endpoint());
        simulation.listen(endpoint(), async |_| panic!("the server dies")).unwrap();
        let error = rt.http().send(&endpoint(), get()).await.unwrap_err();
        assert!(error.is_closed() && error.to_string().contains("10.0.0.1:8000"), "{error}");
    });
    assert_eq!(run.output, Some(()));
}

#[test]
fn a_body_is_collected_up_to_a_limit() {
    Sim::new(0)
        .run(async |rt: Rt| {
            let (tx, rx) = rt.mpsc(2);
            tx.try_send("ab").unwrap();
            tx.try_send("cd").unwrap();
            drop(tx);
            assert_eq!(Body::stream(Chunks(rx)).bytes(4).await.unwrap(), "abcd");
            assert!(Body::from("abcde").bytes(4).await.unwrap_err().is_body());
            assert_eq!(Body::Empty.bytes(0).await.unwrap(), "");
        })
        .unwrap();
}
