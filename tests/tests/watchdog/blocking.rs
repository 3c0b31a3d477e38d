//! Polls that hold up the thread. Those that never return run in a process of their own, which is ended once it has
//! said what is wrong.

#![expect(clippy::await_holding_lock, reason = "one of the programs does it: that is its fault")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use executor::{FindingKind, Outcome, Policy, Rt, RunReport, Sim, Watchdog};

/// Tells a process of this test to run the program of the test that it is asked for.
const CHILD: &str = "WATCHDOG_CHILD";

fn sim() -> Sim {
    let blocking = Duration::from_millis(100);
    Sim::builder().watchdog(Watchdog { policy: Policy::Report, blocking, ..Watchdog::default() }).build()
}

#[track_caller]
fn found_blocking(report: &RunReport, task: &str, how: &str) {
    let text = report.to_string();
    assert_eq!(report.outcome, Outcome::Completed, "{text}");
    let finding = report.of_kind(FindingKind::BlockingPoll).next().unwrap_or_else(|| panic!("{text}"));
    assert_eq!(finding.tasks[0].name, task, "{text}");
    assert!(finding.detail.contains(how) && text.contains("blocking.rs"), "{text}");
}

#[test]
fn a_thread_sleep_in_a_task() {
    let run = sim().run(async |rt: Rt| {
        rt.spawn("sleeps on the thread", async { std::thread::sleep(Duration::from_millis(500)) })
            .await
            .unwrap();
    });
    found_blocking(&run.report, "sleeps on the thread", "waits for a lock or for the system");
}

#[test]
fn a_wait_for_another_thread_in_a_task() {
    let run = sim().run(async |rt: Rt| {
        let (answer, answered) = std::sync::mpsc::channel();
        let slow = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(500));
            answer.send(())
        });
        rt.spawn_local("waits on the thread", async move { answered.recv().unwrap() }).await.unwrap();
        slow.join().unwrap().unwrap();
    });
    found_blocking(&run.report, "waits on the thread", "waits for a lock or for the system");
}

#[test]
fn a_computation_in_a_task() {
    let run = sim().run(async |rt: Rt| {
        let computes = async {
            let begin = Instant::now();
            let mut sum = 0u64;
            while begin.elapsed() < Duration::from_millis(500) {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(7));
            }
            sum
        };
        rt.spawn("computes", computes).await.unwrap();
    });
    // Whether it had the CPU is the machine's affair: others may run on it.
    found_blocking(&run.report, "computes", "held up the thread for");
}

/// Runs `program` in another process until it has said something, and returns that line.
fn said_by(test: &str, program: impl FnOnce()) -> Option<String> {
    if std::env::var_os(CHILD).is_some() {
        program();
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("blocking::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.find(|line| line.starts_with("watchdog:"));
    child.kill().unwrap();
    child.wait().unwrap();
    Some(line.expect("the process says why it hangs"))
}

#[test]
fn a_std_mutex_held_across_await() {
    let line = said_by("a_std_mutex_held_across_await", || {
        sim().run(async |rt: Rt| {
            let mutex = Rc::new(Mutex::new(0));
            let (holds, sleep) = (Rc::clone(&mutex), rt.sleep(Duration::from_secs(1)));
            drop(rt.spawn_local("holds it", async move {
                let guard = holds.lock().unwrap();
                sleep.await;
                drop(guard);
            }));
            rt.spawn_local("wants it", async move { *mutex.lock().unwrap() += 1 }).await.unwrap();
        });
    });
    let Some(line) = line else { return };
    assert!(
        line.contains("event 3, the poll of a task spawned at ") && line.contains("blocking.rs:"),
        "{line}"
    );
}

#[test]
fn an_endless_loop_in_a_poll() {
    let line = said_by("an_endless_loop_in_a_poll", || {
        sim().run(async |rt: Rt| {
            let endless = async {
                loop {
                    std::hint::spin_loop();
                }
            };
            drop::<executor::JoinHandle<()>>(rt.spawn("endless", endless));
            rt.sleep(Duration::from_secs(1)).await;
        });
    });
    let Some(line) = line else { return };
    assert!(
        line.contains("event 2, the poll of a task spawned at ") && line.contains("blocking.rs:"),
        "{line}"
    );
}
