//! Wakes that come from where nothing is registered.

use std::time::Duration;

use executor::FindingKind::{ForeignWake, RawWake, WakeOutsideEvent};
use executor::{Outcome, Policy, Rt, Sim, Why};

use crate::{Kept, MS, found, keeps_waker, reporting, strict};

/// A task that waits for a second and is woken by whoever uses the waker that it kept.
fn sleeper(rt: &Rt, kept: &Kept) -> executor::JoinHandle<()> {
    let (woken, sleep) = (keeps_waker(kept), rt.sleep(Duration::from_secs(1)));
    rt.spawn_local("sleeper", async move {
        futures::future::select(std::pin::pin!(woken), sleep).await;
    })
}

#[test]
fn a_waker_that_another_task_uses() {
    let run = strict().build().run(async |rt: Rt| {
        let kept = Kept::default();
        let sleeper = sleeper(&rt, &kept);
        rt.sleep(MS).await;
        kept.borrow().as_ref().unwrap().wake_by_ref();
        sleeper.await.unwrap();
    });
    let text = found(&run.report, Outcome::Violation, RawWake, "sleeper", "wakes.rs");
    assert!(
        text.contains("by task 0 \"root\"") && text.contains("woken in watchdog::wakes::a_waker"),
        "{text}"
    );
    assert!(text.contains("waits for sleep"), "what it had registered: {text}");
}

#[test]
fn the_same_is_counted_where_the_policy_is_to_report() {
    let run = reporting().build().run(async |rt: Rt| {
        let kept = Kept::default();
        let sleeper = sleeper(&rt, &kept);
        rt.sleep(MS).await;
        kept.borrow().as_ref().unwrap().wake_by_ref();
        sleeper.await.unwrap();
    });
    assert!(run.report.is_clean(), "{}", run.report);
    assert_eq!(run.report.raw_wakes, 1);
}

#[test]
fn a_stale_waker_kept_after_its_task_ended() {
    let run = strict().build().run(async |rt: Rt| {
        let kept = Kept::default();
        let mut sleep = rt.sleep(MS);
        let keep = std::rc::Rc::clone(&kept);
        let brief = std::future::poll_fn(move |cx| {
            *keep.borrow_mut() = Some(cx.waker().clone());
            std::future::Future::poll(std::pin::Pin::new(&mut sleep), cx)
        });
        rt.spawn_local("brief", brief).await.unwrap();
        kept.borrow_mut().take().unwrap().wake();
        rt.sleep(MS).await;
    });
    let text = run.report.to_string();
    assert_eq!(run.report.findings[0].kind, RawWake, "{text}");
    assert!(
        text.contains("by task 0 \"root\"") && text.contains("the task of the waker has ended"),
        "{text}"
    );
}

#[test]
fn a_thread_that_wakes_a_task() {
    let run = strict().build().run(async |rt: Rt| {
        let kept = Kept::default();
        let sleeper = sleeper(&rt, &kept);
        rt.sleep(MS).await;
        let waker = kept.borrow().clone().unwrap();
        let outsider = std::thread::Builder::new().name("outsider".to_owned());
        outsider.spawn(move || waker.wake()).unwrap().join().unwrap();
        sleeper.await.unwrap();
    });
    let text = found(&run.report, Outcome::Violation, ForeignWake, "sleeper", "wakes.rs");
    assert!(
        text.contains("from thread \"outsider\"") && text.contains("woken in watchdog::wakes::a_thread"),
        "{text}"
    );
}

#[test]
fn a_thread_that_ends_a_parked_wait() {
    let run = strict().build().run(async |rt: Rt| {
        let (park, unpark) = rt.park(Why::new("answer of a thread"));
        let parked = rt.spawn("parked", park);
        rt.sleep(MS).await;
        std::thread::spawn(move || unpark.unpark()).join().unwrap();
        let _ = parked.await;
    });
    assert_eq!((run.report.outcome, run.report.findings[0].kind), (Outcome::Violation, ForeignWake));
}

#[test]
fn a_thread_that_aborts_a_task() {
    let run = strict().build().run(async |rt: Rt| {
        let long = rt.clone();
        let task = rt.spawn("aborted", async move { long.sleep(Duration::from_secs(9)).await });
        rt.sleep(MS).await;
        let abort = task.abort_handle();
        std::thread::spawn(move || abort.abort()).join().unwrap();
        let _ = task.await;
    });
    found(&run.report, Outcome::Violation, ForeignWake, "aborted", "wakes.rs");
}

#[test]
fn a_wake_from_a_simulation_inside_of_an_event() {
    let run = strict().build().run(async |rt: Rt| {
        let kept = Kept::default();
        let sleeper = sleeper(&rt, &kept);
        rt.sleep(MS).await;
        let waker = kept.borrow().clone().unwrap();
        Sim::new(1).run(async move |_: Rt| waker.wake()).unwrap();
        sleeper.await.unwrap();
    });
    found(&run.report, Outcome::Violation, WakeOutsideEvent, "sleeper", "wakes.rs");
}

#[test]
fn a_wake_while_the_run_is_taken_down() {
    struct WakesWhenDropped(Kept);
    impl Drop for WakesWhenDropped {
        fn drop(&mut self) {
            if let Some(waker) = self.0.borrow_mut().take() {
                waker.wake();
            }
        }
    }
    let run = strict().build().run(async |rt: Rt| {
        let kept = Kept::default();
        let last_words = WakesWhenDropped(kept.clone());
        let long = rt.sleep(Duration::from_secs(9));
        drop(rt.daemon("noisy", async move {
            long.await;
            drop(last_words);
        }));
        let (woken, sleep) = (keeps_waker(&kept), rt.sleep(Duration::from_secs(9)));
        drop(rt.daemon("woken too late", async move {
            futures::future::select(std::pin::pin!(woken), sleep).await;
        }));
        rt.sleep(MS).await;
    });
    let text = found(&run.report, Outcome::Completed, WakeOutsideEvent, "woken too late", "wakes.rs");
    assert!(text.contains("while the run was taken down"), "{text}");
    assert!(!run.report.is_clean());
}

#[test]
fn nothing_is_said_of_wakes_where_the_watchdog_is_off() {
    let run = Sim::builder().policy(Policy::Off).build().run(async |rt: Rt| {
        let kept = Kept::default();
        let sleeper = sleeper(&rt, &kept);
        rt.sleep(MS).await;
        let waker = kept.borrow().clone().unwrap();
        std::thread::spawn(move || waker.wake()).join().unwrap();
        sleeper.await.unwrap();
    });
    run.unwrap();
}
