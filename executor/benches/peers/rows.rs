//! The rows.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use executor::http::{Body, Endpoint};
use executor::{Links, Network, Rt, Sim, Stream, Unpark, Why};
use http::{Request, Response};
use hyper_util::rt::TokioIo;

use crate::measure::{cpu_ns, live_bytes, median};
use crate::peer::{Peer, Tokio, watchdog};

const N: u64 = 1_000_000;
const MANY: u64 = 100_000;

pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) ours: fn(usize) -> f64,
    pub(crate) tokio: Option<fn(usize) -> f64>,
}

macro_rules! both {
    ($name:ident, $what:literal, $unit:literal) => {
        Row {
            name: stringify!($name),
            what: $what,
            unit: $unit,
            ours: $name::<Rt>,
            tokio: Some($name::<Tokio>),
        }
    };
}

pub(crate) fn all() -> Vec<Row> {
    vec![
        both!(a1, "spawn a no-op task and join it", "ns"),
        both!(a2, "1000 spawns, then 1000 joins", "ns"),
        both!(b1, "round trip over two tokio mpsc(1)", "ns"),
        both!(b2, "round trip over two Rc cells (LocalSet)", "ns"),
        both!(b3, "self-wake and poll, 1 task", "ns"),
        both!(b4, "self-wake and poll, 1000 tasks", "ns"),
        Row { name: "b5", what: "round trip over two park/unpark", unit: "ns", ours: b5, tokio: None },
        Row { name: "b6", what: "round trip over two seam mpsc(1)", unit: "ns", ours: b6, tokio: None },
        both!(c1, "sleep 0-10 ms, 1000 tasks", "ns"),
        both!(c2, "sleep 0-1 s, 1000 tasks", "ns"),
        both!(d1, "sleep 0-100 s, 100,000 tasks", "ns"),
        both!(d2, "arm and cancel 30 s, 100,000 pending", "ns"),
        both!(e1, "a parked task and its handle", "bytes"),
        both!(e2, "a task in a sleep and its handle", "bytes"),
        both!(e3, "kept of a finished task", "bytes"),
        Row { name: "h1", what: "HTTP exchange, direct", unit: "ns", ours: h1, tokio: None },
        Row { name: "h2", what: "HTTP/1.1 exchange, wire", unit: "ns", ours: h2, tokio: Some(h2_tokio) },
    ]
}

/// Pending once.
#[derive(Default)]
struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

async fn settle() {
    for _ in 0..4 {
        Yield::default().await;
    }
}

fn a1<P: Peer>(reps: usize) -> f64 {
    median(reps, N, || {
        P::run(async |peer: P| {
            for _ in 0..N {
                peer.spawn(async {}).await;
            }
        })
    })
}

fn a2<P: Peer>(reps: usize) -> f64 {
    median(reps, N, || {
        P::run(async |peer: P| {
            let mut joins = Vec::with_capacity(1000);
            for _ in 0..N / 1000 {
                joins.extend((0..1000).map(|_| peer.spawn(async {})));
                for join in joins.drain(..) {
                    join.await;
                }
            }
        })
    })
}

fn b1<P: Peer>(reps: usize) -> f64 {
    median(reps, N, || {
        P::run(async |peer: P| {
            let (there, mut requests) = tokio::sync::mpsc::channel::<u64>(1);
            let (back, mut answers) = tokio::sync::mpsc::channel::<u64>(1);
            let join = peer.spawn(async move {
                while let Some(value) = requests.recv().await {
                    if back.send(value + 1).await.is_err() {
                        break;
                    }
                }
            });
            let mut value = 0;
            while value < N {
                there.send(value).await.expect("the other task runs");
                value = answers.recv().await.expect("the other task runs");
            }
            drop(there);
            join.await;
        })
    })
}

/// One value and one waker: the cheapest channel that parks.
#[derive(Clone, Default)]
struct OneSlot(Rc<RefCell<(Option<u64>, Option<Waker>)>>);

impl OneSlot {
    fn send(&self, value: u64) {
        let waker = {
            let mut slot = self.0.borrow_mut();
            slot.0 = Some(value);
            slot.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn recv(&self) -> u64 {
        poll_fn(|cx| {
            let mut slot = self.0.borrow_mut();
            match slot.0.take() {
                Some(value) => Poll::Ready(value),
                None => {
                    slot.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

fn b2<P: Peer>(reps: usize) -> f64 {
    median(reps, N, || {
        P::run_local(async |peer: P| {
            let (there, back) = (OneSlot::default(), OneSlot::default());
            let (requests, answers) = (there.clone(), back.clone());
            let join = peer.spawn_local(async move {
                for _ in 0..N {
                    let value = requests.recv().await;
                    answers.send(value + 1);
                }
            });
            let mut value = 0;
            while value < N {
                there.send(value);
                value = back.recv().await;
            }
            join.await;
        })
    })
}

fn b3<P: Peer>(reps: usize) -> f64 {
    median(reps, N, || {
        P::run(async |peer: P| {
            peer.spawn(async {
                for _ in 0..N {
                    Yield::default().await;
                }
            })
            .await;
        })
    })
}

fn b4<P: Peer>(reps: usize) -> f64 {
    median(reps, N, || {
        P::run(async |peer: P| {
            let task = || async {
                for _ in 0..N / 1000 {
                    Yield::default().await;
                }
            };
            let joins: Vec<_> = (0..1000).map(|_| peer.spawn(task())).collect();
            for join in joins {
                join.await;
            }
        })
    })
}

fn b5(reps: usize) -> f64 {
    median(reps, N, || {
        Rt::run(async |rt: Rt| {
            let there: Rc<Cell<Option<Unpark>>> = Rc::default();
            let back: Rc<Cell<Option<Unpark>>> = Rc::default();
            let (first, unpark) = rt.park(Why::new("request"));
            there.set(Some(unpark));
            let (next, answer, host) = (there.clone(), back.clone(), rt.clone());
            let join = Rt::spawn_local(&rt, "answers", async move {
                let mut park = first;
                for i in 0..N {
                    park.await.expect("the other task runs");
                    let (again, unpark) = host.park(Why::about("request", i));
                    next.set(Some(unpark));
                    park = again;
                    answer.take().expect("it is awaited").unpark();
                }
            });
            for i in 0..N {
                let (park, unpark) = rt.park(Why::about("answer", i));
                back.set(Some(unpark));
                there.take().expect("it is awaited").unpark();
                park.await.expect("the other task runs");
            }
            join.await.expect("it ends");
        })
    })
}

fn b6(reps: usize) -> f64 {
    median(reps, N, || {
        Rt::run(async |rt: Rt| {
            let (there, mut requests) = rt.mpsc::<u64>(1);
            let (back, mut answers) = rt.mpsc::<u64>(1);
            let join = Rt::spawn(&rt, "answers", async move {
                while let Some(value) = requests.recv().await {
                    if back.send(value + 1).await.is_err() {
                        break;
                    }
                }
            });
            let mut value = 0;
            while value < N {
                there.send(value).await.expect("the other task runs");
                value = answers.recv().await.expect("the other task runs");
            }
            drop(there);
            join.await.expect("it ends");
        })
    })
}

fn sleeps<P: Peer>(reps: usize, tasks: u64, each: u64, span: u64) -> f64 {
    median(reps, tasks * each, || {
        P::run(async move |peer: P| {
            let task = |number| {
                let peer = peer.clone();
                async move {
                    let mut draws = Stream::new(number, "sleep");
                    for _ in 0..each {
                        peer.sleep(Duration::from_nanos(draws.below(span))).await;
                    }
                }
            };
            let joins: Vec<_> = (0..tasks).map(|number| peer.spawn(task(number))).collect();
            for join in joins {
                join.await;
            }
        })
    })
}

fn c1<P: Peer>(reps: usize) -> f64 {
    sleeps::<P>(reps, 1000, 1000, 10_000_000)
}

fn c2<P: Peer>(reps: usize) -> f64 {
    sleeps::<P>(reps, 1000, 1000, 1_000_000_000)
}

fn d1<P: Peer>(reps: usize) -> f64 {
    sleeps::<P>(reps.min(3), MANY, 10, 100_000_000_000)
}

fn d2<P: Peer>(reps: usize) -> f64 {
    median(reps.min(3), N, || {
        let inner = Arc::new(AtomicU64::new(0));
        let spent = Arc::clone(&inner);
        P::run(async move |peer: P| {
            let mut draws = Stream::new(1, "pending");
            let sleep = |ns| peer.sleep(Duration::from_nanos(ns));
            let joins: Vec<_> =
                (0..MANY).map(|_| peer.spawn(sleep(1_000_000_000 + draws.below(1_000_000_000)))).collect();
            settle().await;
            let start = cpu_ns();
            for _ in 0..N / 1000 {
                for _ in 0..1000 {
                    let mut sleep = pin!(peer.sleep(Duration::from_secs(30)));
                    poll_fn(|cx| {
                        assert!(sleep.as_mut().poll(cx).is_pending());
                        Poll::Ready(())
                    })
                    .await;
                }
                Yield::default().await;
            }
            spent.store(cpu_ns() - start, Ordering::Relaxed);
            for join in joins {
                join.await;
            }
        });
        inner.load(Ordering::Relaxed)
    })
}

/// Bytes a task that `task` makes, with its handle.
fn bytes<P: Peer, F>(task: fn(&P, u64) -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let bytes = Arc::new(AtomicU64::new(0));
    let found = Arc::clone(&bytes);
    P::run(async move |peer: P| {
        let mut joins = Vec::with_capacity(MANY as usize);
        let before = live_bytes();
        joins.extend((0..MANY).map(|number| peer.spawn(task(&peer, number))));
        settle().await;
        let handles = (joins.len() * size_of::<P::Join>()) as i64;
        found.store((live_bytes() - before + handles) as u64, Ordering::Relaxed);
        // Parked for ever: without this the simulation would call it a deadlock.
        for join in joins {
            P::abort(&join);
        }
    });
    bytes.load(Ordering::Relaxed) as f64 / MANY as f64
}

fn e1<P: Peer>(_reps: usize) -> f64 {
    bytes(|_: &P, number| async move {
        pending::<()>().await;
        std::hint::black_box(number);
    })
}

fn e2<P: Peer>(_reps: usize) -> f64 {
    bytes(|peer: &P, number| {
        let peer = peer.clone();
        async move {
            peer.sleep(Duration::from_secs(1000)).await;
            std::hint::black_box(number);
        }
    })
}

fn e3<P: Peer>(_reps: usize) -> f64 {
    let bytes = Arc::new(AtomicU64::new(0));
    let found = Arc::clone(&bytes);
    P::run(async move |peer: P| {
        peer.spawn(async {}).await;
        let before = live_bytes();
        for _ in 0..MANY {
            peer.spawn(async {}).await;
        }
        found.store((live_bytes() - before).max(0) as u64, Ordering::Relaxed);
    });
    bytes.load(Ordering::Relaxed) as f64 / MANY as f64
}

fn h1(reps: usize) -> f64 {
    median(reps, N, || Rt::run(exchanges))
}

fn h2(reps: usize) -> f64 {
    median(reps, N, || {
        let sim = Sim::builder().network(Network::Wire(Links::default())).watchdog(watchdog()).build();
        let start = cpu_ns();
        let run = sim.run(exchanges);
        let spent = cpu_ns() - start;
        assert!(run.output.is_some(), "{}", run.report);
        spent
    })
}

/// The same bytes between hyper's bare client and server, over tokio's in-memory pipe.
fn h2_tokio(reps: usize) -> f64 {
    median(reps, N, || {
        Tokio::run_local(async |_| {
            let (near, far) = tokio::io::duplex(64 << 10);
            let echo = hyper::service::service_fn(async |request: Request<hyper::body::Incoming>| {
                Ok::<_, std::convert::Infallible>(Response::new(request.into_body()))
            });
            let server = hyper::server::conn::http1::Builder::new()
                .auto_date_header(false)
                .serve_connection(TokioIo::new(far), echo);
            tokio::task::spawn_local(server);
            let client = hyper::client::conn::http1::handshake(TokioIo::new(near)).await;
            let (mut client, connection) = client.expect("nothing is exchanged yet");
            tokio::task::spawn_local(connection);
            for _ in 0..N {
                let request = Request::get("/").header("host", "10.0.0.1:8000");
                let request = request.body(Body::from("200 bytes, more or less")).expect("a request");
                client.ready().await.expect("it is open");
                let response = client.send_request(request).await.expect("it answers");
                let body = http_body_util::BodyExt::collect(response.into_body()).await.expect("it is whole");
                std::hint::black_box(body.to_bytes());
            }
        })
    })
}

/// Exchanges with a service that echoes, each read to its end.
async fn exchanges(rt: Rt) {
    let endpoint: Endpoint = "10.0.0.1:8000".parse().expect("an endpoint");
    let simulation = rt.simulation().expect("this is the simulation");
    let listening =
        simulation.listen(endpoint.clone(), async |request| Ok(Response::new(request.into_body())));
    listening.expect("nothing else listens");
    let transport = rt.http();
    for _ in 0..N {
        let request = Request::new(Body::from("200 bytes, more or less"));
        let response = transport.send(&endpoint, request).await.expect("it answers");
        let body = response.into_body().bytes(1000).await.expect("it is whole");
        std::hint::black_box(body);
    }
}
