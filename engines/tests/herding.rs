//! What the examples promise of herding: scorers that read only scraped metrics pile requests up, counting the
//! requests in flight does not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::tempdir;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

/// Returns the summary of the scenario's first 1,000 requests under a configuration of the router.
fn summary(config: &str) -> Value {
    let folder = tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.arg("run").arg(example("herding.yaml")).args(["--requests", "1000", "--config"]);
    let run = command.arg(example(config)).arg("--out").arg(folder.path().join("out")).output();
    let run = run.expect("the binary starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = fs::read_to_string(folder.path().join("out/summary.json")).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn scraped_metrics_herd_and_requests_in_flight_do_not() {
    let (scraped, counted) = (summary("load-only.yaml"), summary("in-flight.yaml"));
    let ttft = |summary: &Value| summary["ttft_ms"]["mean"].as_f64().expect("a number");
    assert!(ttft(&scraped) >= 200.0, "herding costs {} ms", ttft(&scraped));
    assert!(ttft(&scraped) > 4.0 * ttft(&counted), "{} and {} ms", ttft(&scraped), ttft(&counted));
    let queues = |summary: &Value| {
        let engines = summary["engines"].as_array().expect("engines").iter();
        engines.map(|engine| engine["peak_queue"].as_u64().expect("a number")).max().expect("one")
    };
    assert!(queues(&scraped) >= 4, "no queue: {}", queues(&scraped));
    assert!(queues(&counted) <= 1, "requests wait: {}", queues(&counted));
}
