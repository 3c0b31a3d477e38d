//! HTTP over simulated connections: what travels, how long it takes, and what each fault makes of it.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use executor::http::{Body, Endpoint, SendError};
use executor::sync::mpsc;
use executor::{Fault, FaultKind, Instant, Link, Links, Network, Policy, Rt, Run, Sim, When};
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;

const MS: Duration = Duration::from_millis(1);

fn endpoint() -> Endpoint {
    "10.0.0.1:8000".parse().unwrap()
}

fn wire(link: Link) -> Network {
    Network::Wire(Links { other: link, ..Links::default() })
}

fn link(faults: &[Fault]) -> Link {
    Link { latency: MS, faults: faults.to_vec(), ..Link::default() }
}

/// Runs `root` on a network, and asks that nothing be found.
fn run<F, T>(network: Network, root: impl FnOnce(Rt) -> F + 'static) -> Run<T>
where
    F: Future<Output = T> + 'static,
    T: 'static,
{
    let run = Sim::builder().seed(3).network(network).build().run(root);
    assert!(run.report.is_clean(), "{}", run.report);
    run
}

fn post(body: impl Into<Body>) -> Request<Body> {
    Request::post("/echo?x=1").header("x-a", "b").body(body.into()).unwrap()
}

async fn text(body: Body) -> Result<String, SendError> {
    Ok(String::from_utf8(body.bytes(1 << 24).await?.to_vec()).unwrap())
}

/// A body fed by a channel.
struct Chunks(mpsc::Receiver<Bytes>);

impl http_body::Body for Chunks {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        self.0.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

/// Answers with what it was sent.
fn echo(rt: &Rt) {
    let answer = async |request: Request<Body>| {
        assert_eq!(request.headers()["host"], "10.0.0.1:8000");
        let said = format!("{} {} ", request.method(), request.uri());
        let body = text(request.into_body()).await?;
        Ok(Response::builder().status(StatusCode::ACCEPTED).body(Body::from(said + &body)).unwrap())
    };
    rt.simulation().unwrap().listen(endpoint(), answer).unwrap();
}

/// Answers with `count` chunks, the first at once and one a millisecond; tells how many were taken.
fn stream(rt: &Rt, count: usize, chunk: usize) -> Rc<Cell<usize>> {
    let sent = Rc::new(Cell::new(0));
    let (host, taken) = (rt.clone(), Rc::clone(&sent));
    let answer = move |_| {
        let (tx, rx) = host.mpsc(1);
        let (pace, taken) = (host.clone(), Rc::clone(&taken));
        drop(host.daemon("producer", async move {
            for _ in 0..count {
                if tx.send(Bytes::from(vec![b'x'; chunk])).await.is_err() {
                    return;
                }
                taken.set(taken.get() + 1);
                pace.sleep(MS).await;
            }
        }));
        async move { Ok(Response::new(Body::stream(Chunks(rx)))) }
    };
    rt.simulation().unwrap().listen(endpoint(), answer).unwrap();
    sent
}

#[test]
fn a_request_and_its_answer_travel_as_bytes() {
    run(wire(Link::default()), async |rt: Rt| {
        echo(&rt);
        let mut request = post("hello");
        request.extensions_mut().insert(7_u32);
        let response = rt.http().send(&endpoint(), request).await.unwrap();
        assert_eq!(response.status(), StatusCode::ACCEPTED);
        assert!(response.extensions().get::<u32>().is_none());
        assert_eq!(text(response.into_body()).await.unwrap(), "POST /echo?x=1 hello");
        assert_eq!(rt.now(), Instant::ZERO);

        // Larger than the buffers between.
        let large = "y".repeat(1 << 20);
        let response = rt.http().send(&endpoint(), post(large.clone())).await.unwrap();
        assert_eq!(text(response.into_body()).await.unwrap(), format!("POST /echo?x=1 {large}"));
    });
}

#[test]
fn latency_and_bandwidth_take_their_time() {
    // 1 MB at 1 MB/s, behind a connection's two latencies and one more each way.
    let link = Link { latency: 5 * MS, bandwidth: Some(1_000_000), ..Link::default() };
    run(wire(link), async |rt: Rt| {
        echo(&rt);
        let response = rt.http().send(&endpoint(), post("hello")).await.unwrap();
        let first = rt.now() - Instant::ZERO;
        assert!(first >= 20 * MS && first < 21 * MS, "{first:?}");
        text(response.into_body()).await.unwrap();

        // The connection is open now.
        let start = rt.now();
        rt.http().send(&endpoint(), post("hello")).await.unwrap();
        let second = rt.now() - start;
        assert!(second >= 10 * MS && second < 11 * MS, "{second:?}");

        let start = rt.now();
        let response = rt.http().send(&endpoint(), post("z".repeat(1_000_000))).await.unwrap();
        assert_eq!(text(response.into_body()).await.unwrap().len(), 1_000_015);
        let both_ways = rt.now() - start;
        assert!(both_ways > 2000 * MS && both_ways < 2500 * MS, "{both_ways:?}");
    });
}

#[test]
fn jitter_keeps_the_order_and_is_a_function_of_the_seed() {
    let digest = |seed| {
        let link = Link { latency: MS, jitter: 3 * MS, ..Link::default() };
        let run = Sim::builder().seed(seed).network(wire(link)).build().run(async |rt: Rt| {
            stream(&rt, 50, 10);
            let response = rt.http().send(&endpoint(), post("")).await.unwrap();
            text(response.into_body()).await.unwrap().len()
        });
        assert!(run.report.is_clean(), "{}", run.report);
        assert_eq!(run.output, Some(500));
        (run.report.digest, run.report.now)
    };
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1).1, digest(2).1);
}

/// One exchange, its answer read to the end.
async fn exchange(rt: &Rt) -> Result<String, SendError> {
    text(rt.http().send(&endpoint(), post("")).await?.into_body()).await
}

#[test]
fn connections_are_used_again_until_they_expire() {
    run(wire(link(&[])), async |rt: Rt| {
        echo(&rt);
        let time = async || {
            let start = rt.now();
            exchange(&rt).await.unwrap();
            rt.now() - start
        };
        assert_eq!(time().await, 4 * MS, "a new connection");
        assert_eq!(time().await, 2 * MS, "the same");
        // The server closes what sends no head for 30 s, as production's does.
        rt.sleep(Duration::from_secs(29)).await;
        assert_eq!(time().await, 2 * MS, "the same");
        rt.sleep(Duration::from_secs(61)).await;
        assert_eq!(time().await, 4 * MS, "it was closed");
        // Two at a time need two connections; afterwards each takes the one used last.
        let both = futures::future::join(exchange(&rt), exchange(&rt)).await;
        assert!(both.0.is_ok() && both.1.is_ok());
        assert_eq!(time().await, 2 * MS);
    });
}

#[test]
fn nobody_listening_refuses_and_a_closed_listener_takes_its_idle_connections_along() {
    run(wire(link(&[])), async |rt: Rt| {
        let error = exchange(&rt).await.unwrap_err();
        assert!(error.is_refused() && error.endpoint() == Some(&endpoint()), "{error:?}");
        assert_eq!(rt.now() - Instant::ZERO, 2 * MS);
        echo(&rt);
        exchange(&rt).await.unwrap();
        assert!(rt.simulation().unwrap().close(&endpoint()));
        assert!(exchange(&rt).await.unwrap_err().is_refused());
    });
}

#[test]
fn a_client_that_goes_away_stops_the_server() {
    run(wire(link(&[])), async |rt: Rt| {
        let sent = stream(&rt, 100, 10);
        let response = rt.http().send(&endpoint(), post("")).await.unwrap();
        let mut body = response.into_body();
        body.frame().await.unwrap().unwrap();
        drop(body);
        rt.sleep(200 * MS).await;
        assert!(sent.get() < 10, "{} chunks were sent to nobody", sent.get());
    });
}

fn at(kind: FaultKind, start: Duration, length: Option<Duration>) -> Fault {
    Fault { kind, when: When::At { start, length } }
}

fn always(kind: FaultKind, within: Duration) -> Fault {
    Fault { kind, when: When::Exchange { probability: 1.0, within } }
}

/// What becomes of an answer of 100 chunks in 100 ms, read from the first instant on: the number of bytes that came, how
/// it ended, and when.
fn fate(fault: Fault) -> (usize, Result<(), SendError>, Duration) {
    let run = run(wire(link(&[fault])), async |rt: Rt| {
        stream(&rt, 100, 10);
        let mut read = 0;
        let end = async {
            let mut body = rt.http().send(&endpoint(), post("")).await?.into_body();
            while let Some(frame) = body.frame().await {
                read += frame?.into_data().map_or(0, |bytes| bytes.len());
            }
            Ok(())
        };
        let end = rt.timeout(Duration::from_secs(3600), end).await.expect("an end within an hour");
        (read, end, rt.now() - Instant::ZERO)
    });
    run.output.unwrap()
}

#[test]
fn a_refused_connection_is_said_to_be_refused() {
    for fault in [at(FaultKind::Refuse, Duration::ZERO, None), always(FaultKind::Refuse, Duration::ZERO)] {
        let (read, end, when) = fate(fault);
        assert!(end.unwrap_err().is_refused());
        assert_eq!((read, when), (0, 2 * MS));
    }
    // Connections that are open, and those opened later, are not concerned.
    let (read, end, _) = fate(at(FaultKind::Refuse, 10 * MS, Some(MS)));
    assert!(read == 1000 && end.is_ok());
}

#[test]
fn a_reset_breaks_the_stream_at_once() {
    let (read, end, when) = fate(at(FaultKind::Reset, 50 * MS, None));
    assert!(end.unwrap_err().is_reset());
    assert_eq!(when, 50 * MS);
    assert!((400..500).contains(&read), "{read}");
    let (read, end, when) = fate(always(FaultKind::Reset, 50 * MS));
    assert!(end.unwrap_err().is_reset() && when <= 53 * MS && read < 500);
}

#[test]
fn a_dropped_connection_ends_before_the_message_does() {
    let (read, end, when) = fate(at(FaultKind::Drop, 50 * MS, None));
    let error = end.unwrap_err();
    assert!(error.is_closed(), "{error:?}");
    assert_eq!(when, 51 * MS, "one latency behind the last byte");
    assert!((400..500).contains(&read), "{read}");
}

#[test]
fn a_black_hole_without_end_is_given_up() {
    // Nobody answers who connects: production's limit of five seconds.
    let (read, end, when) = fate(at(FaultKind::BlackHole, Duration::ZERO, None));
    assert!(end.unwrap_err().is_connect_timeout());
    assert_eq!((read, when), (0, Duration::from_secs(5)));
    // The request is lost, or the answer breaks off: production's limit of a minute.
    let minute = Duration::from_secs(60);
    let (read, end, when) = fate(always(FaultKind::BlackHole, Duration::ZERO));
    assert!(end.unwrap_err().is_closed());
    assert_eq!((read, when), (0, minute + 2 * MS));
    let (read, end, when) = fate(at(FaultKind::BlackHole, 50 * MS, None));
    assert!(end.unwrap_err().is_closed());
    assert!((400..500).contains(&read), "{read}");
    assert_eq!(when, minute + 50 * MS);
}

#[test]
fn what_a_black_hole_took_arrives_behind_it() {
    let (read, end, when) = fate(at(FaultKind::BlackHole, 50 * MS, Some(Duration::from_secs(2))));
    assert!(end.is_ok());
    assert_eq!((read, when), (1000, Duration::from_millis(2051)));
    // A connection that is opened meanwhile waits, too.
    let (read, end, when) = fate(at(FaultKind::BlackHole, Duration::ZERO, Some(Duration::from_secs(1))));
    assert!(end.is_ok() && read == 1000);
    assert!(when > Duration::from_secs(1), "{when:?}");
}

#[test]
fn a_slow_reader_holds_up_the_server() {
    let slow = FaultKind::SlowReader { rate: 100_000 };
    run(wire(link(&[at(slow, Duration::ZERO, None)])), async |rt: Rt| {
        let sent = stream(&rt, 100, 10_000);
        let body = rt.http().send(&endpoint(), post("")).await.unwrap().into_body();
        let reading = rt.spawn_local("reader", text(body));
        rt.sleep(1000 * MS).await;
        // A second's worth was read, and as much is under way as buffers hold.
        assert!((10..45).contains(&sent.get()), "{} chunks", sent.get());
        assert_eq!(reading.await.unwrap().unwrap().len(), 1_000_000);
        let took = rt.now() - Instant::ZERO;
        assert!(took > Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
    });
}

#[test]
fn a_forgotten_connection_is_noticed_by_who_writes() {
    let fault = at(FaultKind::HalfOpen, Duration::from_secs(1), None);
    run(wire(link(&[fault])), async move |rt: Rt| {
        echo(&rt);
        exchange(&rt).await.unwrap();
        rt.sleep_until(Instant::ZERO + Duration::from_secs(2)).await;
        let start = rt.now();
        let error = exchange(&rt).await.unwrap_err();
        assert!(error.is_reset(), "{error:?}");
        assert_eq!(rt.now() - start, 2 * MS);
        exchange(&rt).await.unwrap();
        assert_eq!(rt.now() - start, 6 * MS, "a new connection");
    });
    // Who only reads learns half a minute later.
    let (read, end, when) = fate(at(FaultKind::HalfOpen, 50 * MS, None));
    assert!(end.unwrap_err().is_reset());
    assert!((400..500).contains(&read), "{read}");
    assert_eq!(when, Duration::from_secs(30) + 52 * MS);
}

#[test]
fn chance_strikes_some_exchanges_and_always_the_same() {
    let fates = |seed| {
        let fault = Fault {
            kind: FaultKind::Reset,
            when: When::Exchange { probability: 0.3, within: Duration::ZERO },
        };
        let run = Sim::builder().seed(seed).network(wire(link(&[fault]))).build().run(async |rt: Rt| {
            echo(&rt);
            let mut fates = Vec::new();
            for _ in 0..200 {
                fates.push(exchange(&rt).await.is_ok());
            }
            fates
        });
        assert!(run.report.is_clean(), "{}", run.report);
        run.output.unwrap()
    };
    let struck = fates(1).iter().filter(|ok| !**ok).count();
    assert!((40..80).contains(&struck), "{struck} of 200 at 30 %");
    assert_eq!(fates(1), fates(1));
    assert_ne!(fates(1), fates(2));
}

#[test]
fn http2_runs_over_a_pipe_on_the_seams_timers_and_tasks() {
    // hyper's own futures, polled bare, wake one another by means of their own.
    let sim = Sim::builder().policy(Policy::Report).build();
    let root = async |rt: Rt| {
        let (near, far) = rt.simulation().unwrap().pipe();
        let service = hyper::service::service_fn(async |request: Request<hyper::body::Incoming>| {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            Ok::<_, SendError>(Response::new(Body::from(body)))
        });
        let server = hyper::server::conn::http2::Builder::new(executor::hyper::Executor::new(&rt))
            .timer(executor::hyper::Timer::new(&rt))
            .keep_alive_interval(Some(Duration::from_secs(20)))
            .auto_date_header(false)
            .serve_connection(far, service);
        drop(rt.daemon("server", server));
        let client = hyper::client::conn::http2::Builder::new(executor::hyper::Executor::new(&rt));
        let (mut client, connection) = client.handshake(near).await.unwrap();
        drop(rt.daemon("client", connection));
        for text in ["one", "two"] {
            let response = client.send_request(post(text)).await.unwrap();
            assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), text);
            rt.sleep(Duration::from_secs(50)).await;
        }
    };
    sim.run(root).unwrap();
}
