//! Panics, shared randomness, runs that differ, and the report itself.

use std::sync::atomic::{AtomicU64, Ordering};

use executor::FindingKind::{StreamReused, UnobservedPanic};
use executor::{Outcome, Rt, self_check};

use crate::{MS, found, strict};

#[test]
fn a_panic_in_a_detached_task() {
    let run = strict().build().run(async |rt: Rt| {
        drop(rt.spawn("careless", async { panic!("the index was out of range") }));
        rt.sleep(MS).await;
    });
    let text = found(&run.report, Outcome::Violation, UnobservedPanic, "careless", "faulty.rs");
    assert!(text.contains("the index was out of range"), "{text}");
}

#[test]
fn a_panic_in_a_daemon_whose_handle_is_kept_unread() {
    let run = strict().build().run(async |rt: Rt| {
        let unread = rt.daemon("watched by nobody", async { panic!("lost") });
        rt.sleep(MS).await;
        drop::<executor::JoinHandle<()>>(unread);
        rt.sleep(MS).await;
    });
    found(&run.report, Outcome::Violation, UnobservedPanic, "watched by nobody", "faulty.rs");
}

#[test]
fn a_panic_of_the_root() {
    let run = strict().build().run(async |_: Rt| panic!("at once"));
    assert!(run.output.is_none());
    assert_eq!(run.report.findings[0].kind, UnobservedPanic);
}

#[test]
fn a_panic_while_a_result_is_dropped() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in its drop");
        }
    }
    let run = strict().build().run(async |rt: Rt| {
        drop(rt.spawn("armed", async { Bomb }));
        rt.sleep(MS).await;
    });
    let text = found(&run.report, Outcome::Violation, UnobservedPanic, "armed", "faulty.rs");
    assert!(text.contains("while its output was dropped: in its drop"), "{text}");
}

#[test]
fn a_timer_of_tokio_in_a_simulation() {
    let run = strict().build().run(async |rt: Rt| {
        rt.spawn("wrong timer", async { tokio::time::sleep(MS).await });
    });
    let text = found(&run.report, Outcome::Violation, UnobservedPanic, "wrong timer", "faulty.rs");
    assert!(text.contains("no reactor running"), "{text}");
}

#[test]
fn a_task_of_tokio_in_a_simulation() {
    let run = strict().build().run(async |rt: Rt| {
        rt.spawn("wrong spawn", async { drop(tokio::spawn(async {})) });
    });
    found(&run.report, Outcome::Violation, UnobservedPanic, "wrong spawn", "faulty.rs");
}

#[test]
fn one_random_stream_for_two() {
    let run = strict().build().run(async |rt: Rt| {
        rt.stream("picker");
        rt.stream("picker");
        rt.sleep(MS).await;
    });
    found(&run.report, Outcome::Violation, StreamReused, "picker", "faulty.rs");
}

#[test]
fn a_run_that_depends_on_what_was_run_before() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let (report, divergence) = self_check(|sim| {
        let run = sim.seed(3).build().run(async |rt: Rt| {
            for _ in 0..50 {
                rt.sleep(MS).await;
            }
            let extra = RUNS.fetch_add(1, Ordering::Relaxed);
            let late = rt.clone();
            rt.spawn("moody", async move { late.sleep(MS * (1 + extra as u32)).await }).await.unwrap();
        });
        run.report
    });
    assert!(report.is_clean());
    let divergence = divergence.expect("the second run sleeps longer");
    let text = divergence.to_string();
    // The root: its start and 50 wakes, its turn to spawn among them. The task: its start, then its wake, which differs.
    assert_eq!(divergence.event, 53, "{text}");
    assert!(text.contains("two runs of one seed differ from event 53 on"), "{text}");
    assert!(
        text.contains("> event 53 at 0.051000000s") && text.contains("> event 53 at 0.052000000s"),
        "{text}"
    );
    assert!(text.contains("\"moody\" spawned at ") && text.contains("faulty.rs"), "{text}");
    assert!(divergence.sides.iter().all(|side| side.before.len() == 32), "{text}");
}

#[test]
fn a_run_that_depends_on_nothing_else_is_the_same_twice() {
    let (_, divergence) = self_check(|sim| sim.seed(3).build().run(async |rt: Rt| rt.sleep(MS).await).report);
    assert_eq!(divergence, None);
}

#[test]
fn a_report_can_be_read_by_a_machine_and_says_how_to_repeat_the_run() {
    let sim = strict().seed(7).replay("lockstep run --seed 7").build();
    let run = sim.run(async |rt: Rt| {
        let (park, unpark) = rt.park(executor::Why::about("queue", 4));
        std::mem::forget(unpark);
        drop(rt.spawn("parked", park).await);
    });
    let json = serde_json::to_value(&run.report).unwrap();
    assert_eq!(json["outcome"], "deadlock");
    assert_eq!(json["findings"][0]["kind"], "deadlock");
    let parked = &json["findings"][0]["tasks"][1];
    assert_eq!(
        (&parked["name"], &parked["waits"][0]["why"]),
        (&"parked".into(), &serde_json::json!(["queue", 4]))
    );
    assert!(parked["spawned_at"].as_str().unwrap().contains("faulty.rs:"), "{parked}");
    assert_eq!(json["replay"], "lockstep run --seed 7");
    assert!(run.report.to_string().ends_with("\nreplay: lockstep run --seed 7\n"));
}
