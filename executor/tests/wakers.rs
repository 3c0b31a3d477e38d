//! Wakers are numbers: sound when stale, after their executor, on other threads, and in nested executors.

#![expect(clippy::disallowed_methods, reason = "it wakes from real threads")]

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use executor::{FindingKind, Outcome, Rt, Sim, Why};

#[path = "support/support.rs"]
mod support;
use support::reporting;

const NANO: Duration = Duration::from_nanos(1);

type Kept = Rc<RefCell<Option<Waker>>>;

/// A future that keeps its waker and is ready at the second poll.
fn keeps_waker() -> (Kept, impl Future<Output = ()>) {
    let kept = Kept::default();
    let give = kept.clone();
    let future = poll_fn(move |cx| {
        let mut kept = give.borrow_mut();
        match *kept {
            Some(_) => Poll::Ready(()),
            None => {
                *kept = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    });
    (kept, future)
}

#[test]
fn a_stale_waker_of_a_slot_in_use_again_wakes_nobody() {
    reporting(0)
        .run(async |rt: Rt| {
            let (kept, future) = keeps_waker();
            let first = rt.spawn_local("first", future);
            rt.sleep(NANO).await;
            let waker = kept.borrow().clone().unwrap();
            waker.wake_by_ref();
            first.await.unwrap();
            let polls = Rc::new(RefCell::new(0));
            let (count, mut sleep) = (polls.clone(), rt.sleep(10 * NANO));
            let second = rt.spawn_local(
                "second",
                poll_fn(move |cx| {
                    *count.borrow_mut() += 1;
                    std::pin::Pin::new(&mut sleep).poll(cx)
                }),
            );
            rt.sleep(NANO).await;
            waker.wake();
            rt.sleep(NANO).await;
            assert_eq!(*polls.borrow(), 1);
            second.await.unwrap();
            assert_eq!(*polls.borrow(), 2);
        })
        .unwrap();
}

#[test]
fn a_waker_may_outlive_its_executor() {
    let (kept, future) = keeps_waker();
    let run = reporting(0).run(move |_| future);
    assert_eq!(run.report.outcome, Outcome::Deadlock);
    let waker = kept.borrow_mut().take().unwrap();
    let again = waker.clone();
    Sim::new(0)
        .run(async move |rt: Rt| {
            waker.wake();
            rt.sleep(NANO).await;
        })
        .unwrap();
    std::thread::spawn(move || drop(again)).join().unwrap();
}

#[test]
fn a_wake_from_another_thread_arrives_and_is_a_finding() {
    let run = reporting(0).run(async |rt: Rt| {
        let (kept, future) = keeps_waker();
        let task = rt.spawn_local("woken from outside", future);
        rt.sleep(NANO).await;
        let waker = kept.borrow().clone().unwrap();
        let thread = std::thread::Builder::new().name("outsider".into());
        thread.spawn(move || waker.wake()).unwrap().join().unwrap();
        task.await.unwrap();
    });
    assert_eq!(run.report.outcome, Outcome::Completed);
    let [finding] = &run.report.findings[..] else { panic!("{}", run.report) };
    assert_eq!((finding.kind, finding.tasks[0].name), (FindingKind::ForeignWake, "woken from outside"));
    assert!(finding.detail.contains("outsider"), "{}", finding.detail);
}

#[test]
fn an_unpark_from_another_thread_arrives_and_is_a_finding() {
    let run = reporting(0).run(async |rt: Rt| {
        let (park, unpark) = rt.park(Why::new("outside"));
        let task = rt.spawn("parked", park);
        rt.sleep(NANO).await;
        std::thread::spawn(move || unpark.unpark()).join().unwrap();
        task.await.unwrap()
    });
    assert_eq!(run.output, Some(Ok(())));
    assert_eq!(run.report.of_kind(FindingKind::ForeignWake).count(), 1);
}

#[test]
fn clones_dropped_on_another_thread_are_counted_but_no_finding() {
    let run = reporting(0).run(async |rt: Rt| {
        let (kept, future) = keeps_waker();
        drop(rt.daemon("loses its waker elsewhere", future));
        rt.sleep(NANO).await;
        let waker = kept.borrow().clone().unwrap();
        std::thread::spawn(move || drop((waker.clone(), waker))).join().unwrap();
        rt.sleep(NANO).await;
        kept.borrow().as_ref().unwrap().wake_by_ref();
        rt.sleep(NANO).await;
    });
    run.unwrap();
}

#[test]
fn a_nested_executor_wakes_the_outer_task_through_its_inbox() {
    let run = reporting(0).run(async |rt: Rt| {
        let (kept, future) = keeps_waker();
        let task = rt.spawn_local("outer", future);
        rt.sleep(NANO).await;
        let waker = kept.borrow().clone().unwrap();
        Sim::new(1)
            .run(async move |inner: Rt| {
                waker.wake();
                inner.sleep(5 * NANO).await;
            })
            .unwrap();
        assert_eq!(rt.now().as_nanos(), 1);
        task.await.unwrap();
    });
    assert_eq!(run.report.outcome, Outcome::Completed);
    assert_eq!(run.report.of_kind(FindingKind::WakeOutsideEvent).count(), 1);
}

#[test]
#[should_panic(expected = "outside its run")]
fn a_handle_used_outside_its_run_says_so() {
    let rt = Sim::new(0).run(async |rt: Rt| rt).unwrap();
    rt.now();
}
