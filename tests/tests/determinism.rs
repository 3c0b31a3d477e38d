//! Whole simulations in processes of their own: whatever the machine does around them, one digest.

use std::cell::RefCell;
use std::process::Command;
use std::rc::Rc;

use engines::cli::{RunArgs, SourceArgs, execute};
use engines::cluster;
use engines::report::RunEnd;
use executor::{Rt, Sim};
use router::embed::RouterConfig;

/// Tells a process of this test to print the digest of a run instead of testing.
const CHILD: &str = "DETERMINISM_CHILD";

/// Runs the built-in scenario with few requests, and returns its digest.
fn digest() -> u64 {
    let source = SourceArgs { requests: Some(30), seed: Some(5), ..SourceArgs::default() };
    let args = RunArgs { source, engines: Some(3), ..RunArgs::default() };
    let digest = Rc::new(RefCell::new(None));
    let seen = Rc::clone(&digest);
    execute(&args, move |plan, workload, observer| {
        let config = RouterConfig::new("built-in configuration", "");
        let end: RunEnd = cluster::simulate(Sim::builder(), plan, config, workload, observer)?;
        *seen.borrow_mut() = Some(end.digest);
        Ok(end)
    })
    .expect("the built-in scenario runs");
    let ran = digest.take();
    ran.expect("it ran")
}

/// Runs this test binary as `command`, which ends in its path, and returns the digest that it prints.
fn digest_of(mut command: Command) -> String {
    let output = command
        .args(["--exact", "a_process_prints_its_digest", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .expect("the test binary starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let digest = text.split_once("digest=").and_then(|(_, rest)| rest.get(..16));
    digest
        .unwrap_or_else(|| panic!("no digest in {text}{}", String::from_utf8_lossy(&output.stderr)))
        .to_owned()
}

fn this_binary() -> Command {
    Command::new(std::env::current_exe().expect("a test has a path"))
}

fn here() -> String {
    format!("{:016x}", digest())
}

#[test]
fn a_process_prints_its_digest() {
    if std::env::var_os(CHILD).is_some() {
        println!("digest={}", here());
    }
}

#[test]
fn other_thread_counts_and_environments_give_the_same_digest() {
    let mut other = this_binary();
    other
        .env_clear()
        .env("TOKIO_WORKER_THREADS", "7")
        .env("RUST_TEST_THREADS", "5")
        .env("TZ", "Pacific/Chatham")
        .env("LANG", "tr_TR.UTF-8")
        .env("RUST_LOG", "trace")
        .env("HOME", "/nowhere");
    assert_eq!(digest_of(other), here());
}

#[test]
fn addresses_that_are_not_random_give_the_same_digest() {
    let allowed =
        Command::new("setarch").args(["-R", "true"]).output().is_ok_and(|output| output.status.success());
    if !allowed {
        eprintln!("skipped: `setarch -R` is not allowed here");
        return;
    }
    let mut fixed = Command::new("setarch");
    fixed.arg("-R").arg(std::env::current_exe().expect("a test has a path"));
    let fixed = digest_of(fixed);
    assert_eq!(fixed, digest_of(this_binary()), "with random addresses");
    assert_eq!(fixed, here());
}

#[test]
fn a_thousand_runs_before_it_in_the_same_process_change_nothing() {
    let before = here();
    for seed in 0..1000 {
        let run = Sim::new(seed).run(async |rt: Rt| {
            let sleep = rt.sleep(std::time::Duration::from_nanos(rt.stream("any").below(1000)));
            rt.spawn("any", sleep).await
        });
        assert!(run.report.is_clean(), "{}", run.report);
    }
    assert_eq!(here(), before);
}
