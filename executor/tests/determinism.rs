//! One seed, one run: within a process and across processes.

#![expect(clippy::disallowed_methods, reason = "it starts itself again as another process")]

use std::process::Command;
use std::time::Duration;

use executor::http::{Body, Endpoint};
use executor::{Rt, RunReport, Sim};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

/// Tells a child process to print a digest instead of testing.
const CHILD: &str = "DETERMINISM_CHILD_SEED";

/// A run that uses everything: timers, channels, joins, aborts, draws, exchanges, a combinator.
fn busy(seed: u64) -> RunReport {
    let run = Sim::new(seed).run(async |rt: Rt| {
        let endpoint: Endpoint = "10.0.0.1:80".parse().unwrap();
        let (host, draws) = (rt.clone(), rt.stream("service"));
        let served = std::cell::Cell::new(0);
        let service = move |_| {
            served.set(served.get() + 1);
            let sleep = host.sleep(Duration::from_nanos(draws.fork(served.get()).below(1_000_000)));
            async move {
                sleep.await;
                Ok(http::Response::new(Body::from("ok")))
            }
        };
        rt.simulation().unwrap().listen(endpoint.clone(), service).unwrap();
        let (tx, mut rx) = rt.mpsc(4);
        let parent = rt.stream("clients");
        for client in 0..50 {
            let (rt, tx, endpoint, mut draws) =
                (rt.clone(), tx.clone(), endpoint.clone(), parent.fork(client));
            rt.clone().spawn("client", async move {
                for _ in 0..10 {
                    rt.sleep(Duration::from_nanos(draws.exp(50_000.0) as u64)).await;
                    let exchange = rt.http().send(&endpoint, http::Request::new(Body::Empty));
                    let limit = Duration::from_nanos(draws.below(1_500_000));
                    let answered = matches!(rt.timeout(limit, exchange).await, Ok(Ok(_)));
                    tx.send((client, answered)).await.unwrap();
                }
            });
        }
        drop(tx);
        let mut delays: FuturesUnordered<_> =
            (1..20).map(|n| rt.sleep(Duration::from_nanos(n * 7 % 13))).collect();
        while delays.next().await.is_some() {}
        let simulation = rt.simulation().unwrap();
        while let Some((client, answered)) = rx.recv().await {
            simulation.note(client << 1 | u64::from(answered));
        }
    });
    assert!(run.report.is_clean(), "{}", run.report);
    run.report
}

#[test]
fn one_seed_gives_one_digest_and_another_seed_another() {
    let (first, second, other) = (busy(1), busy(1), busy(2));
    assert_eq!(first.digest, second.digest);
    assert_eq!((first.events, first.polls, first.now), (second.events, second.polls, second.now));
    assert_ne!(first.digest, other.digest);
    assert!(first.events > 1000);
}

#[test]
fn another_process_gives_the_same_digest() {
    if let Ok(seed) = std::env::var(CHILD) {
        println!("digest={:016x}", busy(seed.parse().unwrap()).digest);
        return;
    }
    let here = busy(11).digest;
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "another_process_gives_the_same_digest", "--nocapture"])
        .env(CHILD, "11")
        .env("TOKIO_WORKER_THREADS", "8")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains(&format!("digest={here:016x}")), "{here:016x}: {text}");
}

#[test]
fn the_digest_sees_what_is_noted_and_when_things_happen() {
    let digest = |value: u64, nanos: u64| {
        let run = Sim::new(0).run(async move |rt: Rt| {
            rt.sleep(Duration::from_nanos(nanos)).await;
            rt.simulation().unwrap().note(value);
        });
        run.report.digest
    };
    assert_eq!(digest(1, 1), digest(1, 1));
    assert_ne!(digest(1, 1), digest(2, 1));
    assert_ne!(digest(1, 1), digest(1, 2));
}
