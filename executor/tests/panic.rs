//! Panics in the simulation: isolated, and lost by nobody.

use std::time::Duration;

use executor::{FindingKind, Outcome, Rt, Sim};

#[path = "support/support.rs"]
mod support;
use support::{Yield, reporting};

struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

#[test]
fn a_panic_that_is_joined_is_no_finding() {
    Sim::new(0)
        .run(async |rt: Rt| {
            let error = rt.spawn("panics", async { panic!("seen") }).await.unwrap_err();
            assert!(error.is_panicked());
        })
        .unwrap();
}

#[test]
fn a_panic_that_nobody_joins_is_a_finding_with_task_and_place() {
    let run = reporting(0).run(async |rt: Rt| {
        rt.sleep(Duration::from_millis(5)).await;
        drop(rt.spawn("panics alone", async { panic!("unseen") }));
        rt.sleep(Duration::from_secs(1)).await;
        7
    });
    assert_eq!((run.output, run.report.outcome), (Some(7), Outcome::Completed));
    assert!(!run.report.is_clean());
    let finding = run.report.of_kind(FindingKind::UnobservedPanic).next().unwrap();
    assert_eq!((finding.detail.as_str(), finding.at.as_nanos()), ("unseen", 5_000_000));
    let task = &finding.tasks[0];
    assert_eq!((task.number, task.name), (1, "panics alone"));
    assert!(task.spawned_at.file().ends_with("panic.rs"));
}

#[test]
fn a_panic_whose_handle_is_never_awaited_is_found_when_the_handle_goes() {
    let run = Sim::new(0).run(async |rt: Rt| {
        let task = rt.spawn("panics", async { panic!("late") });
        rt.sleep(Duration::from_secs(1)).await;
        drop(task);
    });
    assert_eq!(run.report.of_kind(FindingKind::UnobservedPanic).count(), 1);
}

#[test]
fn a_panic_of_the_root_ends_the_run() {
    let run = Sim::new(0).run(async |rt: Rt| {
        drop(rt.spawn("sleeps", rt.sleep(Duration::from_secs(9))));
        Yield::default().await;
        panic!("root");
    });
    assert_eq!(run.output, None);
    assert_eq!((run.report.outcome, run.report.now.as_nanos()), (Outcome::Panicked, 0));
    assert_eq!(run.report.findings[0].detail, "root");
}

#[test]
fn a_panic_in_the_drop_of_an_aborted_future_goes_to_who_joins() {
    Sim::new(0)
        .run(async |rt: Rt| {
            let sleep = rt.sleep(Duration::from_secs(9));
            let task = rt.spawn("aborted", async move {
                let _guard = PanicsOnDrop;
                sleep.await;
            });
            Yield::default().await;
            task.abort();
            assert_eq!(task.await.unwrap_err().to_string(), "the task panicked: in drop");
        })
        .unwrap();
}

#[test]
fn a_panic_in_the_drop_of_an_output_that_nobody_wants_is_a_finding() {
    let run = Sim::new(0).run(async |rt: Rt| {
        drop(rt.spawn("output", async { PanicsOnDrop }));
    });
    let finding = run.report.of_kind(FindingKind::UnobservedPanic).next().unwrap();
    assert_eq!(finding.detail, "while its output was dropped: in drop");
}

#[test]
#[should_panic(expected = "random stream opened twice")]
fn unwrapping_a_run_with_findings_panics_with_the_report() {
    Sim::new(0)
        .run(async |rt: Rt| {
            rt.stream("same");
            rt.stream("same");
        })
        .unwrap();
}
