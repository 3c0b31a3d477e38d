//! The end of a simulated run: who keeps it alive, and in which order things are dropped.

use std::time::Duration;

use executor::{Interrupt, Missed, Outcome, Rt, Signal, Sim};

#[path = "support/support.rs"]
mod support;
use support::{Log, OnDrop};

#[test]
fn a_run_goes_on_until_all_tasks_but_daemons_have_ended() {
    let log = Log::default();
    let seen = log.clone();
    let run = Sim::new(0).run(async move |rt: Rt| {
        let (log, sleep) = (log.clone(), rt.sleep(Duration::from_secs(10)));
        let mut ticks = rt.interval(Duration::from_secs(3), Missed::Burst);
        rt.daemon("ticks", async move {
            loop {
                ticks.tick().await;
            }
        });
        rt.spawn_local("works", async move {
            sleep.await;
            log.add("worked");
        });
    });
    assert_eq!(seen.take(), ["worked"]);
    assert_eq!(run.report.now.as_nanos(), 10_000_000_000, "the daemon's next tick is never waited for");
    run.unwrap();
}

#[test]
fn what_is_left_is_dropped_foreground_first_each_in_spawn_order() {
    let log = Log::default();
    let seen = log.clone();
    let run = Sim::builder().max_time(Duration::from_secs(1)).build().run(async move |rt: Rt| {
        let task = |name| {
            let (on_drop, sleep) = (OnDrop(log.clone(), name), rt.sleep(Duration::from_secs(60)));
            async move {
                sleep.await;
                drop(on_drop);
            }
        };
        rt.daemon("d1", task("daemon 1"));
        rt.spawn_local("f1", task("foreground 1"));
        rt.daemon("d2", task("daemon 2"));
        rt.spawn_local("f2", task("foreground 2"));
    });
    assert_eq!(run.report.outcome, Outcome::TimeLimit);
    assert_eq!(seen.take(), ["foreground 1", "foreground 2", "daemon 1", "daemon 2"]);
}

#[test]
fn a_drop_at_the_end_may_use_the_runtime() {
    struct UsesRuntime(Rt, Log<&'static str>);
    impl Drop for UsesRuntime {
        fn drop(&mut self) {
            self.0.now();
            let (tx, rx) = self.0.oneshot();
            let on_drop = OnDrop(self.1.clone(), "dropped unpolled");
            let task = self.0.spawn_local("too late", async move {
                let _kept = on_drop;
                let _: Result<u8, _> = rx.await;
            });
            assert!(tx.send(1).is_err() && task.is_finished());
        }
    }
    let log = Log::default();
    let seen = log.clone();
    Sim::new(0)
        .run(async move |rt: Rt| {
            let (uses, sleep) = (UsesRuntime(rt.clone(), log), rt.sleep(Duration::from_secs(60)));
            rt.daemon("left", async move {
                sleep.await;
                drop(uses);
            });
            rt.sleep(Duration::from_secs(1)).await;
        })
        .unwrap();
    assert_eq!(seen.take(), ["dropped unpolled"]);
}

#[test]
fn limits_end_a_run_and_say_which() {
    async fn endless(rt: Rt) {
        loop {
            rt.sleep(Duration::from_secs(1)).await;
        }
    }
    let run = Sim::builder().max_time(Duration::from_secs(10)).build().run(endless);
    assert_eq!((run.report.outcome, run.report.now.as_nanos()), (Outcome::TimeLimit, 10_000_000_000));
    let run = Sim::builder().max_events(100).build().run(endless);
    assert_eq!(run.report.outcome, Outcome::EventLimit);
    assert!(run.output.is_none());
    let run = Sim::builder().max_tasks(50).build().run(async |rt: Rt| {
        for _ in 0..100 {
            rt.spawn("one of many", rt.sleep(Duration::from_secs(1)));
        }
    });
    assert_eq!(run.report.outcome, Outcome::TaskLimit);
}

#[test]
fn handles_that_outlive_their_run_are_inert() {
    let (task, sleep, sender, unpark) = Sim::new(0)
        .run(async |rt: Rt| {
            let daemon = rt.daemon("left", rt.sleep(Duration::from_secs(60)));
            let sleep = rt.sleep(Duration::from_secs(60));
            let (sender, receiver) = rt.mpsc::<u8>(1);
            let (park, unpark) = rt.park(executor::Why::new("test"));
            rt.daemon("waits", async move {
                let mut receiver = receiver;
                receiver.recv().await;
                let _ = park.await;
            });
            rt.sleep(Duration::from_secs(1)).await;
            (daemon, sleep, sender, unpark)
        })
        .unwrap();
    task.abort();
    assert!(task.is_finished());
    assert!(sender.is_closed());
    drop((task, sleep, sender, unpark));
}

/// What ran before the signal ran as in an undisturbed run, and what is left is dropped as at any end.
#[test]
fn an_interrupt_ends_a_run_the_next_time_simulated_time_would_move() {
    let run = |raise: bool| {
        let interrupt = Interrupt::default();
        let limit = Duration::from_secs(if raise { 100 } else { 10 });
        let sim = Sim::builder().interrupt(interrupt.clone()).max_time(limit).build();
        sim.run(async move |rt: Rt| {
            for tick in 0.. {
                if raise && tick == 10 {
                    interrupt.raise(Signal::Terminate);
                }
                rt.sleep(Duration::from_secs(1)).await;
            }
        })
        .report
    };
    let (interrupted, undisturbed) = (run(true), run(false));
    assert_eq!((interrupted.outcome, interrupted.now.as_nanos()), (Outcome::Interrupted, 10_000_000_000));
    assert_eq!((undisturbed.outcome, undisturbed.now.as_nanos()), (Outcome::TimeLimit, 10_000_000_000));
    assert_eq!(interrupted.digest, undisturbed.digest);
}
