//! What the simulation finds: each kind once, with what its report must name.

#![expect(clippy::disallowed_methods, reason = "one test waits on a channel that is not the seam's")]

use std::future::pending;
use std::time::Duration;

use executor::{FindingKind, Outcome, Rt, Sim, Why};

#[path = "support/support.rs"]
mod support;
use support::{Yield, reporting};

#[test]
fn a_task_that_nothing_can_wake_is_found_at_once() {
    let run = reporting(3).run(async |rt: Rt| {
        rt.sleep(Duration::from_millis(2)).await;
        rt.daemon("zombie", pending::<()>());
        rt.sleep(Duration::from_secs(1)).await;
    });
    assert_eq!(run.report.outcome, Outcome::Completed);
    let finding = &run.report.findings[0];
    assert_eq!((finding.kind, finding.at.as_nanos()), (FindingKind::Zombie, 2_000_000));
    let task = &finding.tasks[0];
    assert_eq!((task.number, task.name, task.waits.len()), (1, "zombie", 0));
    assert!(task.future.contains("Pending"), "{}", task.future);
    let text = run.report.to_string();
    assert!(text.contains("pending without registered readiness at 0.002000000s"), "{text}");
    assert!(text.contains("task 1 \"zombie\" spawned at") && text.contains("findings.rs:"), "{text}");
}

#[test]
fn waits_of_every_kind_are_registered() {
    let run = reporting(0).run(async |rt: Rt| {
        let (_park, _unpark) = rt.park(Why::new("test"));
        let (_one, one) = rt.oneshot::<u8>();
        let (full, mut full_rx) = rt.mpsc(1);
        full.try_send(1).unwrap();
        let (_tx, mut empty) = rt.mpsc::<u8>(1);
        let (_watch, mut watched) = rt.watch(0);
        let (notify, semaphore) = (rt.notify(), rt.semaphore(0));
        rt.daemon("park", _park);
        rt.daemon("oneshot", one);
        rt.daemon("full", async move { full.send(2).await });
        rt.daemon("empty", async move { empty.recv().await });
        rt.daemon("watch", async move { watched.changed().await });
        rt.daemon("notify", notify.notified());
        rt.daemon("semaphore", semaphore.acquire());
        let slow = rt.daemon("sleep", rt.sleep(Duration::from_secs(60)));
        rt.daemon("join", slow);
        rt.daemon("third party", async {
            let (_tx, rx) = tokio::sync::oneshot::channel::<u8>();
            let _ = rx.await;
        });
        rt.sleep(Duration::from_secs(1)).await;
        full_rx.recv().await;
        rt.sleep(Duration::from_secs(1)).await;
    });
    run.unwrap();
}

#[test]
fn a_deadlock_names_tasks_with_what_they_wait_for_where_and_since_when() {
    let run = Sim::new(5).run(async |rt: Rt| {
        let (tx, mut rx) = rt.mpsc::<u8>(1);
        let inner = rt.clone();
        let waits = rt.spawn("waits", async move {
            inner.sleep(Duration::from_secs(2)).await;
            rx.recv().await
        });
        let (park, unpark) = rt.park(Why::about("flow-control queue", 42));
        rt.spawn("parked", async move {
            let _ = park.await;
            drop(tx);
        });
        let _ = waits.await;
        unpark.unpark();
    });
    assert_eq!((run.report.outcome, run.report.now.as_nanos()), (Outcome::Deadlock, 2_000_000_000));
    let [finding] = &run.report.findings[..] else { panic!("{}", run.report) };
    assert_eq!(finding.kind, FindingKind::Deadlock);
    let waits: Vec<_> = finding
        .tasks
        .iter()
        .map(|task| (task.name, task.waits[0].why.kind, task.waits[0].why.key, task.waits[0].since))
        .collect();
    let seconds = |s: u64| Some(executor::Instant::from_nanos(s * 1_000_000_000));
    assert_eq!(
        waits,
        [
            ("root", "join of task", 1, None),
            ("waits", "mpsc empty", 0, seconds(2)),
            ("parked", "flow-control queue", 42, seconds(0)),
        ]
    );
    assert!(finding.tasks.iter().all(|task| task.waits[0].place.file().ends_with("findings.rs")));
    assert!(run.report.to_string().contains("seed 5"));
}

#[test]
fn a_task_that_joins_itself_is_a_zombie() {
    let run = reporting(0).run(async |rt: Rt| {
        let (tx, rx) = rt.oneshot();
        let task = rt.spawn("joins itself", async move {
            let own: executor::JoinHandle<()> = rx.await.unwrap();
            let _ = own.await;
        });
        tx.send(task).unwrap();
    });
    assert_eq!(run.report.outcome, Outcome::Deadlock);
    assert_eq!(run.report.of_kind(FindingKind::Zombie).next().unwrap().tasks[0].name, "joins itself");
}

#[test]
fn a_stream_opened_twice_names_both_places() {
    let run = Sim::new(0).run(async |rt: Rt| {
        rt.stream("picker");
        rt.stream("other");
        rt.stream("picker");
    });
    let [finding] = &run.report.findings[..] else { panic!("{}", run.report) };
    assert_eq!(finding.kind, FindingKind::StreamReused);
    assert_eq!(finding.detail.matches("findings.rs").count(), 2, "{}", finding.detail);
}

#[test]
fn a_report_keeps_a_hundred_findings_and_counts_the_rest() {
    let run = reporting(0).run(async |rt: Rt| {
        for _ in 0..150 {
            rt.daemon("zombie", pending::<()>());
        }
        Yield::default().await;
        rt.sleep(Duration::from_secs(1)).await;
    });
    assert_eq!((run.report.findings.len(), run.report.left_out), (100, 50));
}
