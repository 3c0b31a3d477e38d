//! Programs that cannot go on: zombies, deadlocks, starvation.

use std::future::pending;
use std::task::Poll;
use std::time::Duration;

use executor::FindingKind::{Deadlock, Starvation, UntrackedWait, Zombie};
use executor::{Outcome, Rt, Why};

use crate::{MS, found, reporting, strict, ticker};

#[test]
fn a_future_that_forgets_its_waker() {
    let run = strict().build().run(async |rt: Rt| {
        rt.sleep(MS).await;
        let forgetful = rt.spawn_local("forgetful", std::future::poll_fn(|_| Poll::<()>::Pending));
        let _ = forgetful.await;
    });
    let text = found(&run.report, Outcome::Violation, Zombie, "forgetful", "stuck.rs");
    assert!(
        text.contains("at 0.001000000s") && text.contains("polled 1 times, last woken by task 0"),
        "{text}"
    );
}

#[test]
fn a_future_that_waits_for_ever() {
    let run = strict().build().run(async |rt: Rt| drop(rt.spawn("for ever", pending::<()>()).await));
    found(&run.report, Outcome::Violation, Zombie, "for ever", "stuck.rs");
}

#[test]
fn a_task_that_joins_itself() {
    let run = strict().build().run(async |rt: Rt| {
        let (give, take) = rt.oneshot::<executor::JoinHandle<()>>();
        let own = rt.spawn("ouroboros", async move { drop(take.await.unwrap().await) });
        assert!(give.send(own).is_ok());
        rt.sleep(MS).await;
    });
    found(&run.report, Outcome::Violation, Zombie, "ouroboros", "stuck.rs");
}

#[test]
fn two_tasks_joined_in_a_ring() {
    let run = strict().build().run(async |rt: Rt| {
        let (give, take) = rt.oneshot::<executor::JoinHandle<()>>();
        let left = rt.spawn("left", async move { drop(take.await.unwrap().await) });
        let right = rt.spawn("right", async move { drop(left.await) });
        assert!(give.send(right).is_ok());
    });
    let text = found(&run.report, Outcome::Deadlock, Deadlock, "left", "stuck.rs");
    assert!(
        text.contains("cycle of joins: task 1 \"left\" -> task 2 \"right\" -> task 1 \"left\""),
        "{text}"
    );
}

#[test]
fn a_lost_unpark() {
    let run = strict().build().run(async |rt: Rt| {
        let (park, unpark) = rt.park(Why::about("request in a queue", 17));
        std::mem::forget(unpark);
        let _ = rt.spawn("parked", park).await;
    });
    let text = found(&run.report, Outcome::Deadlock, Deadlock, "parked", "stuck.rs");
    assert!(text.contains("waits for request in a queue 17 at "), "{text}");
}

#[test]
fn two_tasks_that_take_two_permits_in_opposite_order() {
    let run = strict().build().run(async |rt: Rt| {
        let (left, right) = (rt.semaphore(1), rt.semaphore(1));
        for (name, first, second) in
            [("one way", left.clone(), right.clone()), ("the other way", right, left)]
        {
            let rt2 = rt.clone();
            drop(rt.spawn(name, async move {
                let _first = first.acquire().await;
                rt2.sleep(MS).await;
                let _second = second.acquire().await;
            }));
        }
    });
    let text = found(&run.report, Outcome::Deadlock, Deadlock, "one way", "stuck.rs");
    assert!(text.contains("\"the other way\"") && text.contains("waits for semaphore"), "{text}");
}

#[test]
fn a_receiver_whose_sender_is_kept_by_itself() {
    let run = strict().build().run(async |rt: Rt| {
        let (tx, mut rx) = rt.mpsc::<u8>(1);
        rt.spawn("consumer", async move {
            while rx.recv().await.is_some() {}
            drop(tx);
        });
    });
    let text = found(&run.report, Outcome::Deadlock, Deadlock, "consumer", "stuck.rs");
    assert!(text.contains("waits for mpsc empty"), "{text}");
}

#[test]
fn a_sender_to_a_full_channel_that_nobody_reads() {
    let run = strict().build().run(async |rt: Rt| {
        let (tx, rx) = rt.mpsc::<u8>(1);
        let sender = rt.spawn("producer", async move {
            tx.send(1).await.unwrap();
            tx.send(2).await.unwrap();
        });
        let _ = sender.await;
        drop(rx);
    });
    let text = found(&run.report, Outcome::Deadlock, Deadlock, "producer", "stuck.rs");
    assert!(text.contains("waits for mpsc full"), "{text}");
}

#[test]
fn a_notification_sent_before_anybody_listens() {
    let run = strict().build().run(async |rt: Rt| {
        let notify = rt.notify();
        notify.notify_one();
        rt.spawn("late listener", async move {
            notify.notified().await;
            notify.notified().await;
        });
    });
    found(&run.report, Outcome::Deadlock, Deadlock, "late listener", "stuck.rs");
}

#[test]
fn an_async_mutex_of_tokio_taken_twice() {
    let run = reporting().build().run(async |rt: Rt| {
        rt.spawn_local("greedy", async move {
            let mutex = tokio::sync::Mutex::new(());
            let _first = mutex.lock().await;
            let _second = mutex.lock().await;
        });
    });
    let text = found(&run.report, Outcome::Deadlock, Deadlock, "greedy", "stuck.rs");
    assert!(
        text.contains("      in watchdog::stuck::an_async_mutex_of_tokio_taken_twice"),
        "its frames: {text}"
    );
    assert!(text.contains("not registered: the waits of 1 tasks"), "{text}");
}

#[test]
fn an_untracked_wait() {
    let run = strict().build().run(async |rt: Rt| {
        let (tx, rx) = tokio::sync::oneshot::channel::<()>();
        let waits = rt.spawn("untracked", async move { drop(rx.await) });
        rt.sleep(MS).await;
        drop(tx);
        waits.await.unwrap();
    });
    let text = found(&run.report, Outcome::Violation, UntrackedWait, "untracked", "stuck.rs");
    assert!(text.contains("      in watchdog::stuck::an_untracked_wait"), "its frames: {text}");
}

#[test]
fn a_ticker_that_hides_a_stuck_request() {
    let run = strict().build().run(async |rt: Rt| {
        ticker(&rt, MS);
        rt.sleep(Duration::from_secs(1)).await;
        let (park, unpark) = rt.park(Why::about("answer", 3));
        std::mem::forget(unpark);
        let _ = rt.spawn("stuck request", park).await;
    });
    let text = found(&run.report, Outcome::Starvation, Starvation, "stuck request", "stuck.rs");
    assert!(text.contains("since 1.000000000s"), "{text}");
    assert!(text.contains("the clock is kept going by task 1 \"ticker\""), "{text}");
}

#[test]
fn a_ring_of_joins_behind_a_ticker() {
    let run = strict().build().run(async |rt: Rt| {
        ticker(&rt, MS);
        let (give, take) = rt.oneshot::<executor::JoinHandle<()>>();
        let left = rt.spawn("left", async move { drop(take.await.unwrap().await) });
        let right = rt.spawn("right", async move { drop(left.await) });
        assert!(give.send(right).is_ok());
    });
    let text = found(&run.report, Outcome::Starvation, Starvation, "right", "stuck.rs");
    assert!(text.contains("cycle of joins: task 2 \"left\" -> task 3 \"right\""), "{text}");
}

/// The tasks have their turns, and nothing comes of them: only who runs the simulation can know.
#[test]
fn a_run_that_is_given_up_tells_what_is_left() {
    let run = strict().build().run(async |rt: Rt| {
        let (park, unpark) = rt.park(Why::about("answer", 7));
        drop(rt.spawn("unanswered", park));
        let mut polls = 0;
        loop {
            rt.sleep(MS).await;
            polls += 1;
            if polls == 20 {
                rt.simulation().expect("a simulation").give_up("20 ms without an answer");
            }
            assert!(polls <= 20 && !unpark.is_cancelled(), "nothing runs any more");
        }
    });
    let text = found(&run.report, Outcome::Starvation, Starvation, "unanswered", "stuck.rs");
    assert!(text.contains("at 0.020000000s, event ") && text.contains(": 20 ms without an answer"), "{text}");
    assert!(text.contains("waits for answer 7 at tests/tests/watchdog/stuck.rs"), "{text}");
}
