//! Programs that go on for ever, or grow.

use std::time::Duration;

use executor::FindingKind::{Limit, Livelock, Runaway, SleepForgotten};
use executor::{Instant, Outcome, Rt};

use crate::{MS, Yield, found, strict};

#[test]
fn a_loop_that_wakes_itself() {
    let run = strict().build().run(async |rt: Rt| {
        rt.sleep(MS).await;
        let spinner = rt.spawn("spinner", async {
            loop {
                Yield::default().await;
            }
        });
        let _: Result<(), _> = spinner.await;
    });
    let text = found(&run.report, Outcome::Livelock, Livelock, "spinner", "endless.rs");
    assert!(text.contains(" of task 1 \"spinner\", ") && text.contains(" after waking itself"), "{text}");
    assert_eq!(run.report.now.as_nanos(), 1_000_000);
}

#[test]
fn two_tasks_that_wake_each_other_for_ever() {
    let run = strict().build().run(async |rt: Rt| {
        let (ping, mut pinged) = rt.mpsc::<u8>(1);
        let (pong, mut ponged) = rt.mpsc::<u8>(1);
        rt.spawn("ping", async move {
            while ping.send(0).await.is_ok() {
                ponged.recv().await;
            }
        });
        rt.spawn("pong", async move {
            while pinged.recv().await.is_some() {
                let _ = pong.send(0).await;
            }
        });
    });
    let text = found(&run.report, Outcome::Livelock, Livelock, "pong", "endless.rs");
    assert!(text.contains("1>2") && text.contains("2>1"), "who woke whom: {text}");
}

#[test]
fn a_sleep_of_no_time_in_a_loop_that_yields() {
    let run = strict().build().run(async |rt: Rt| {
        let poller = rt.clone();
        rt.spawn("poller", async move {
            loop {
                poller.sleep(Duration::ZERO).await;
                Yield::default().await;
            }
        });
    });
    found(&run.report, Outcome::Livelock, Livelock, "poller", "endless.rs");
}

#[test]
fn a_task_that_spawns_its_successor_at_once() {
    fn next(rt: Rt) {
        let again = rt.clone();
        drop(rt.spawn("successor", async move { next(again) }));
    }
    let run = strict().build().run(async |rt: Rt| next(rt));
    let text = run.report.to_string();
    assert_eq!(run.report.outcome, Outcome::Livelock, "{text}");
    assert!(text.contains("events at one instant"), "{text}");
}

#[test]
fn a_chain_of_sleeps_of_a_nanosecond() {
    let run = strict().build().run(async |rt: Rt| {
        let crawler = rt.clone();
        rt.spawn("crawler", async move {
            loop {
                for _ in 0..400 {
                    Yield::default().await;
                }
                crawler.sleep(Duration::from_nanos(1)).await;
            }
        });
    });
    let text = found(&run.report, Outcome::Runaway, Runaway, "crawler", "endless.rs");
    assert!(text.contains("more than 20000 events"), "{text}");
}

#[test]
fn spawning_without_bound() {
    let run = strict().max_tasks(1000).build().run(async |rt: Rt| {
        loop {
            let sleeper = rt.clone();
            drop(rt.spawn("leaked", async move { sleeper.sleep(Duration::from_secs(60)).await }));
            rt.sleep(MS).await;
        }
    });
    let text = found(&run.report, Outcome::TaskLimit, Limit, "leaked", "endless.rs");
    assert!(text.contains("1000 tasks are \"leaked\" spawned at "), "{text}");
}

#[test]
fn more_events_than_allowed() {
    let run = strict().max_events(5000).build().run(async |rt: Rt| {
        let worker = rt.clone();
        rt.spawn("tireless", async move {
            loop {
                worker.sleep(MS).await;
            }
        });
    });
    found(&run.report, Outcome::EventLimit, Limit, "tireless", "endless.rs");
    assert_eq!(run.report.events, 5000, "as many as are allowed");
}

#[test]
fn a_sleep_beyond_the_end_of_the_run() {
    let run = strict().max_time(Duration::from_secs(10)).build().run(async |rt: Rt| {
        let sleeper = rt.clone();
        rt.spawn("sleeper", async move { sleeper.sleep(Duration::from_secs(3600)).await });
    });
    let text = found(&run.report, Outcome::TimeLimit, Limit, "sleeper", "endless.rs");
    assert!(text.contains("waits for sleep 0 at ") && text.contains("until 3600.000000000s"), "{text}");
}

#[test]
fn a_sleep_until_the_end_of_time() {
    let run = strict().build().run(async |rt: Rt| {
        let sleeper = rt.clone();
        drop(rt.daemon("forgotten", async move { sleeper.sleep_until(Instant::MAX).await }));
        rt.sleep(MS).await;
    });
    assert!(run.report.is_clean(), "it is informational");
    found(&run.report, Outcome::Completed, SleepForgotten, "forgotten", "endless.rs");
}
