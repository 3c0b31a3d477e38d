//! Aborting tasks in the simulation: when the future is dropped, and what whoever joins sees.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::{AbortHandle, Rt, Sim, Why};

#[path = "support/support.rs"]
mod support;
use support::{Log, OnDrop, Yield};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn an_abort_is_an_event_behind_what_is_queued() {
    let log = Log::default();
    let seen = log.clone();
    Sim::new(0)
        .run(async move |rt: Rt| {
            let (on_drop, sleep) = (OnDrop(log.clone(), "dropped"), rt.sleep(HOUR));
            let task = rt.spawn_local("sleeps", async move {
                sleep.await;
                drop(on_drop);
            });
            Yield::default().await;
            let before = log.clone();
            rt.spawn_local("queued before", async move { before.add("queued before") });
            task.abort();
            log.add("aborted");
            assert!(task.await.unwrap_err().is_aborted());
            log.add("joined");
        })
        .unwrap();
    assert_eq!(seen.take(), ["aborted", "queued before", "dropped", "joined"]);
}

#[test]
fn an_abort_before_the_first_poll_never_polls() {
    Sim::new(0)
        .run(async |rt: Rt| {
            let task = rt.spawn("never runs", async { panic!("it was polled") });
            task.abort();
            assert!(task.await.unwrap_err().is_aborted());
        })
        .unwrap();
}

#[test]
fn a_wake_between_abort_and_drop_does_not_poll() {
    Sim::new(0)
        .run(async |rt: Rt| {
            let (park, unpark) = rt.park(Why::new("test"));
            let task = rt.spawn("parked", async move {
                let _ = park.await;
                panic!("it was polled");
            });
            Yield::default().await;
            task.abort();
            assert!(unpark.unpark());
            assert!(task.await.unwrap_err().is_aborted());
        })
        .unwrap();
}

#[test]
fn a_task_that_aborts_itself_is_dropped_after_its_poll() {
    let log = Log::default();
    let seen = log.clone();
    Sim::new(0)
        .run(async move |rt: Rt| {
            let own: Rc<RefCell<Option<AbortHandle>>> = Rc::default();
            let (given, on_drop, sleep) = (own.clone(), OnDrop(log.clone(), "dropped"), rt.sleep(HOUR));
            let task = rt.spawn_local("aborts itself", async move {
                own.borrow().as_ref().unwrap().abort();
                on_drop.0.add("still polled");
                sleep.await;
                drop(on_drop);
            });
            *given.borrow_mut() = Some(task.abort_handle());
            assert!(task.await.unwrap_err().is_aborted());
        })
        .unwrap();
    assert_eq!(seen.take(), ["still polled", "dropped"]);
}

#[test]
fn dropping_the_handle_detaches_and_the_task_goes_on() {
    let log = Log::default();
    let seen = log.clone();
    Sim::new(0)
        .run(async move |rt: Rt| {
            let sleep = rt.sleep(HOUR);
            drop(rt.spawn_local("goes on", async move {
                sleep.await;
                log.add("done");
            }));
        })
        .unwrap();
    assert_eq!(seen.take(), ["done"]);
}

#[test]
fn an_aborted_tasks_timer_does_not_move_time() {
    let run = Sim::new(0).run(async |rt: Rt| {
        let task = rt.spawn("sleeps", rt.sleep(HOUR));
        rt.sleep(Duration::from_secs(1)).await;
        task.abort();
    });
    assert_eq!(run.report.now.as_nanos(), 1_000_000_000);
    run.unwrap();
}

#[test]
fn an_abort_handle_of_a_task_that_is_gone_has_no_effect_on_the_next_in_its_slot() {
    Sim::new(0)
        .run(async |rt: Rt| {
            let first = rt.spawn("first", async {});
            let stale = first.abort_handle();
            first.await.unwrap();
            let second = rt.spawn("second", rt.sleep(HOUR));
            stale.abort();
            assert!(stale.is_finished());
            second.await.unwrap();
        })
        .unwrap();
}
