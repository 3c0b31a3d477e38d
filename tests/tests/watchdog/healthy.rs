//! Programs in which nothing is wrong: whatever they wait with, nothing may be found.
//!
//! Those that wait for what is registered run strictly. Primitives of tokio and of `futures` register nothing; their
//! waits are counted, and are no finding.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use executor::http::{Body, Endpoint};
use executor::{Links, Missed, Network, Rt, SimBuilder, Why};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt, future, select_biased};
use http::{Request, Response};

use crate::{MS, Yield, reporting, strict};

/// Runs a program and asserts that nothing was found.
#[track_caller]
fn nothing_found<F: Future<Output = ()> + 'static>(sim: SimBuilder, root: impl FnOnce(Rt) -> F + 'static) {
    let report = sim.build().run(root).report;
    assert!(report.is_clean() && report.findings.is_empty(), "{report}");
}

#[test]
fn sleeps_and_joins() {
    nothing_found(strict(), async |rt: Rt| {
        let sleeps = (1..100).map(|n| {
            let sleep = rt.sleep(MS * n);
            rt.spawn("sleeps", sleep)
        });
        for join in sleeps.collect::<Vec<_>>() {
            join.await.unwrap();
        }
    });
}

#[test]
fn an_interval_beside_work_that_is_longer_than_the_limit_of_starvation() {
    nothing_found(strict(), async |rt: Rt| {
        crate::ticker(&rt, MS);
        rt.sleep(Duration::from_secs(100)).await;
    });
}

#[test]
fn an_interval_in_the_foreground() {
    nothing_found(strict(), async |rt: Rt| {
        let mut ticks = rt.interval(MS, Missed::Burst);
        for _ in 0..5000 {
            ticks.tick().await;
        }
    });
}

#[test]
fn thousands_of_events_at_one_instant() {
    nothing_found(strict(), async |rt: Rt| {
        for _ in 0..9000 {
            Yield::default().await;
        }
        rt.sleep(Duration::from_nanos(1)).await;
        for _ in 0..9000 {
            Yield::default().await;
        }
    });
}

#[test]
fn futures_unordered_of_sleeps_and_channels() {
    nothing_found(strict(), async |rt: Rt| {
        let mut all = FuturesUnordered::new();
        for n in 0..100u32 {
            let (send, receive) = rt.oneshot::<u32>();
            let sleep = rt.sleep(MS * (n * 7 % 50));
            drop(rt.spawn("sends", async move {
                sleep.await;
                let _ = send.send(n);
            }));
            all.push(receive);
        }
        let mut sum = 0;
        while let Some(value) = all.next().await {
            sum += value.unwrap();
        }
        assert_eq!(sum, 4950);
    });
}

#[test]
fn join_all_of_tasks() {
    nothing_found(strict(), async |rt: Rt| {
        let tasks = (0..50u32).map(|n| {
            let sleep = rt.sleep(MS * (n % 7));
            rt.spawn("part", sleep)
        });
        assert_eq!(future::join_all(tasks).await.len(), 50);
    });
}

#[test]
fn buffer_unordered() {
    nothing_found(strict(), async |rt: Rt| {
        let work = (0..100u32).map(|n| rt.sleep(MS * (n % 11)).map(move |()| n));
        let done: Vec<u32> =
            futures::stream::iter(work.collect::<Vec<_>>()).buffer_unordered(8).collect().await;
        assert_eq!(done.len(), 100);
    });
}

#[test]
fn select_biased_in_a_loop() {
    nothing_found(strict(), async |rt: Rt| {
        let (tx, mut rx) = rt.mpsc::<u32>(4);
        let producer = rt.clone();
        drop(rt.spawn("producer", async move {
            for n in 0..20 {
                producer.sleep(MS * 3).await;
                tx.send(n).await.unwrap();
            }
        }));
        let mut ticks = rt.interval(MS * 2, Missed::Skip);
        loop {
            let next = select_biased! {
                value = rx.recv().fuse() => value,
                _ = ticks.tick().fuse() => continue,
            };
            if next.is_none() {
                break;
            }
        }
    });
}

#[test]
fn timeouts_that_race_at_one_instant() {
    nothing_found(strict(), async |rt: Rt| {
        for n in 1..50u32 {
            let (fast, slow) = (rt.sleep(MS * n), rt.sleep(MS * n));
            assert!(rt.timeout(MS * n, fast).await.is_ok(), "the work wins a tie");
            assert!(rt.timeout(MS * n / 2, slow).await.is_ok());
        }
    });
}

#[test]
fn timeouts_that_cancel_waits_of_every_kind() {
    nothing_found(strict(), async |rt: Rt| {
        let (_tx, mut rx) = rt.mpsc::<u8>(1);
        let (_keep, receive) = rt.oneshot::<u8>();
        let (park, _unpark) = rt.park(Why::new("never"));
        let (semaphore, notify) = (rt.semaphore(0), rt.notify());
        assert!(rt.timeout(MS, rx.recv()).await.is_err());
        assert!(rt.timeout(MS, receive).await.is_err());
        assert!(rt.timeout(MS, park).await.is_err());
        assert!(rt.timeout(MS, semaphore.acquire()).await.is_err());
        assert!(rt.timeout(MS, notify.notified()).await.is_err());
    });
}

#[test]
fn channels_semaphores_and_watches_of_the_seam() {
    nothing_found(strict(), async |rt: Rt| {
        let permits = rt.semaphore(3);
        let (state, mut seen) = rt.watch(0u32);
        let (tx, mut rx) = rt.mpsc::<u32>(2);
        for n in 0..30 {
            let (rt2, permits, tx) = (rt.clone(), permits.clone(), tx.clone());
            drop(rt.spawn("worker", async move {
                let _permit = permits.acquire().await;
                rt2.sleep(MS).await;
                tx.send(n).await.unwrap();
            }));
        }
        drop(tx);
        let watcher = rt.spawn("watcher", async move { while seen.changed().await.is_ok() {} });
        while let Some(n) = rx.recv().await {
            state.send(n);
        }
        drop(state);
        watcher.await.unwrap();
    });
}

#[test]
fn aborted_tasks_and_panics_that_somebody_takes() {
    nothing_found(strict(), async |rt: Rt| {
        let long = rt.spawn("long", rt.sleep(Duration::from_secs(60)));
        rt.sleep(MS).await;
        long.abort();
        assert!(long.await.is_err());
        assert!(rt.spawn("careless", async { panic!("taken") }).await.is_err());
    });
}

#[test]
fn daemons_that_are_left_waiting_at_the_end() {
    nothing_found(strict(), async |rt: Rt| {
        let (tx, mut rx) = rt.mpsc::<u8>(1);
        drop(rt.daemon("server", async move { while rx.recv().await.is_some() {} }));
        drop(rt.daemon("late", rt.sleep(Duration::from_secs(3600))));
        let keeps = tx.clone();
        drop(rt.daemon("holder", rt.sleep(MS * 9).map(move |()| drop(keeps))));
        tx.send(1).await.unwrap();
        rt.sleep(MS).await;
    });
}

#[test]
fn work_on_the_pool_is_an_event_of_its_own() {
    nothing_found(strict(), async |rt: Rt| {
        assert_eq!(rt.blocking("sum", || (0..1000u64).sum::<u64>()).await, 499_500);
    });
}

#[test]
fn primitives_of_tokio() {
    nothing_found(reporting(), async |rt: Rt| {
        let (tx, mut rx) = tokio::sync::mpsc::channel::<u32>(1);
        let (state, mut seen) = tokio::sync::watch::channel(0);
        let mutex = Arc::new(tokio::sync::Mutex::new(0));
        for n in 0..10u32 {
            let (tx, mutex, sleep) = (tx.clone(), Arc::clone(&mutex), rt.sleep(MS * (n % 3)));
            drop(rt.spawn("sends", async move {
                let mut sum = mutex.lock().await;
                sleep.await;
                *sum += n;
                tx.send(n).await.unwrap();
            }));
        }
        drop(tx);
        let watcher = rt.spawn("watches", async move { while seen.changed().await.is_ok() {} });
        while let Some(n) = rx.recv().await {
            state.send(n).unwrap();
        }
        drop(state);
        watcher.await.unwrap();
    });
}

#[test]
fn semaphores_barriers_and_broadcasts_of_tokio() {
    nothing_found(reporting(), async |rt: Rt| {
        let barrier = Arc::new(tokio::sync::Barrier::new(3));
        let (tx, _keep) = tokio::sync::broadcast::channel::<u8>(4);
        let tasks = (0..3u32).map(|n| {
            let (barrier, mut rx, sleep) = (Arc::clone(&barrier), tx.subscribe(), rt.sleep(MS * n));
            rt.spawn("meets", async move {
                sleep.await;
                barrier.wait().await;
                rx.recv().await.unwrap()
            })
        });
        let tasks: Vec<_> = tasks.collect();
        rt.sleep(MS * 5).await;
        tx.send(7).unwrap();
        for task in tasks {
            assert_eq!(task.await.unwrap(), 7);
        }
    });
}

#[test]
fn channels_and_shared_futures_of_the_futures_crate() {
    nothing_found(reporting(), async |rt: Rt| {
        let (tx, rx) = futures::channel::oneshot::channel::<u8>();
        let shared = rx.map(|value| value.unwrap()).shared();
        let readers: Vec<_> = (0..4).map(|_| rt.spawn("reads", shared.clone())).collect();
        rt.sleep(MS).await;
        tx.send(9).unwrap();
        for reader in readers {
            assert_eq!(reader.await.unwrap(), 9);
        }
    });
}

/// Serves on `sim`'s network and makes 20 exchanges, five at a time.
fn exchanges(sim: SimBuilder) {
    nothing_found(sim, async |rt: Rt| {
        let to: Endpoint = "10.0.0.1:80".parse().unwrap();
        let server = rt.clone();
        let served = Rc::new(RefCell::new(0));
        let counts = Rc::clone(&served);
        let service = move |request: Request<Body>| {
            let (sleep, counts) = (server.sleep(MS), Rc::clone(&counts));
            async move {
                let text = http_body_util::BodyExt::collect(request.into_body()).await?.to_bytes();
                sleep.await;
                *counts.borrow_mut() += 1;
                Ok(Response::new(Body::from(text)))
            }
        };
        rt.simulation().unwrap().listen(to.clone(), service).unwrap();
        let exchange = |n: u32| {
            let (http, to) = (rt.http(), to.clone());
            async move {
                let request = Request::post("/echo").body(Body::from(n.to_string())).unwrap();
                let answer = http.send(&to, request).await.unwrap();
                let text = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
                assert_eq!(text, n.to_string());
            }
        };
        futures::stream::iter(0..20).map(exchange).buffer_unordered(5).collect::<Vec<()>>().await;
        assert_eq!(*served.borrow(), 20);
    });
}

#[test]
fn http_by_direct_calls() {
    exchanges(strict());
}

#[test]
fn http_1_over_simulated_connections() {
    exchanges(strict().network(Network::Wire(Links::default())));
}

#[test]
fn http_2_over_a_pipe() {
    nothing_found(reporting(), async |rt: Rt| {
        let (near, far) = rt.simulation().unwrap().pipe();
        let service = hyper::service::service_fn(async |_: Request<hyper::body::Incoming>| {
            Ok::<_, std::convert::Infallible>(Response::new(Body::from("over h2")))
        });
        let server = hyper::server::conn::http2::Builder::new(executor::hyper::Executor::new(&rt))
            .timer(executor::hyper::Timer::new(&rt))
            .auto_date_header(false)
            .serve_connection(far, service);
        drop(rt.daemon("server", server.map(drop)));
        let client = hyper::client::conn::http2::Builder::new(executor::hyper::Executor::new(&rt));
        let (mut sender, connection) = client.handshake(near).await.unwrap();
        drop(rt.daemon("client", connection.map(drop)));
        for _ in 0..10 {
            sender.ready().await.unwrap();
            let request = Request::get("http://simulated/").body(Body::Empty).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
            assert_eq!(body, "over h2");
        }
    });
}

#[test]
fn a_task_that_reads_its_own_waker_many_times() {
    nothing_found(strict(), async |rt: Rt| {
        let (send, mut receive) = rt.oneshot::<u8>();
        drop(rt.spawn("sends", rt.sleep(MS).map(move |()| send.send(1))));
        let mut polls = 0;
        let value = future::poll_fn(|cx| {
            polls += 1;
            if polls < 5 {
                let own = cx.waker().clone();
                own.wake_by_ref();
            }
            std::pin::Pin::new(&mut receive).poll(cx)
        });
        assert_eq!(value.await.unwrap(), 1);
    });
}
