//! What the examples promise of overload: who is important is served as if alone, tenants share by turns, and the sensible form
//! of flow control drains its queues.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::tempdir;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

fn summary(scenario: &Path, flags: &[&str]) -> Value {
    let folder = tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    let run =
        command.arg("run").arg(scenario).args(flags).arg("--out").arg(folder.path().join("out")).output();
    let run = run.expect("the binary starts");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let text = fs::read_to_string(folder.path().join("out/summary.json")).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn of<'a>(list: &'a Value, key: &str, value: &Value) -> &'a Value {
    let found = list.as_array().expect("a list").iter().find(|entry| entry[key] == *value);
    found.unwrap_or_else(|| panic!("no {key} {value}"))
}

#[test]
fn the_high_priority_is_served_as_if_alone() {
    let text = fs::read_to_string(example("overload.yaml")).expect("the example");
    let folder = tempdir().expect("a folder");
    let alone = folder.path().join("alone.yaml");
    let others = |line: &&str| !["team-a", "team-b", "batch"].iter().any(|name| line.contains(name));
    // Two of twelve parts of the load are its own.
    let own = text.lines().filter(others).collect::<Vec<_>>().join("\n").replace("rate: 123", "rate: 20.5");
    fs::write(&alone, own).expect("a file in a folder of our own");

    let overload = summary(&example("overload.yaml"), &["--requests", "2400"]);
    let alone = summary(&alone, &["--requests", "400"]);
    let ttft = |summary: &Value| number(&of(&summary["bands"], "priority", &10.into())["ttft_ms"]["mean"]);
    assert!(ttft(&overload) <= 1.1 * ttft(&alone), "{} and {} ms", ttft(&overload), ttft(&alone));

    let band = |priority: i64| of(&overload["bands"], "priority", &priority.into());
    let tenant = |name: &str| of(&overload["tenants"], "name", &name.into());
    assert_eq!(band(10)["rejected"], 0);
    assert!(number(&band(-5)["rejected"]) > 0.0, "somebody has to give way");
    // By turns: who asks for less than its turn hardly waits.
    let wait = |name: &str| number(&tenant(name)["wait_ms"]["mean"]);
    assert!(
        wait("team-b") < 200.0 && wait("team-a") > 5.0 * wait("team-b"),
        "{} {}",
        wait("team-a"),
        wait("team-b")
    );
    for key in ["injected", "done", "failed", "cancelled"] {
        let sum = |list: &str| -> f64 {
            overload[list]
                .as_array()
                .expect("a list")
                .iter()
                .map(|entry| number(&entry["requests"][key]))
                .sum()
        };
        let all = number(&overload["requests"][key]);
        assert_eq!((sum("bands"), sum("tenants")), (all, all), "{key}");
    }
    let jain = number(&band(0)["jain_index"]);
    assert!((0.5..1.0).contains(&jain), "two tenants, one of which gets more: {jain}");
}

#[test]
fn the_sensible_form_drains_and_overfills_nothing() {
    let drain = example("drain.yaml");
    let flags = ["--requests", "3000", "--rate-scale", "2"];
    let parity = summary(&drain, &flags);
    let fixed = example("drain-fixed.yaml").display().to_string();
    let fixed = summary(&drain, &[&flags[..], &["--config", &fixed]].concat());
    assert!(number(&parity["requests"]["failed"]) > 0.0, "the llm-d Router's form overfills the pool");
    assert_eq!(fixed["requests"]["done"], 3000);
    let rate = |summary: &Value| number(&summary["throughput"]["requests_per_s"]);
    assert!(rate(&fixed) > 1.1 * rate(&parity), "{} and {} a second", rate(&fixed), rate(&parity));
}

/// Flow-control spec 13: requests in flight make room, their engines stop working for them.
#[test]
fn who_is_sheddable_in_flight_makes_room_for_who_is_important() {
    const SCENARIO: &str = "\
workload:
  requests: 200
  synthetic:
    arrivals: {process: poisson, rate: 40}
    prompt: {type: constant, value: 64}
    output: {type: constant, value: 256}
    tenants: [{name: important, share: 1, priority: 10}, {name: batch, share: 9, priority: -5}]
cluster: [{count: 2, model: qwen3-14b, gpu: H100}]
router:
  featureGates: [flowControl]
  plugins:
    - {type: active-request-scorer}
    - {type: concurrency-detector, parameters: {maxConcurrency: 8}}
  flowControl: {saturationDetector: {pluginRef: concurrency-detector}, enableEviction: EVICTS}
";
    let folder = tempdir().expect("a folder");
    let run = |evicts: &str| {
        let scenario = folder.path().join(evicts);
        fs::write(&scenario, SCENARIO.replace("EVICTS", evicts)).expect("a file in a folder of our own");
        summary(&scenario, &[])
    };
    let (evicting, waiting) = (run("true"), run("false"));
    let important = |summary: &Value| of(&summary["tenants"], "name", &"important".into()).clone();
    let wait = |summary: &Value| number(&important(summary)["wait_ms"]["mean"]);
    // A request takes one and a half seconds; there are sixteen places.
    assert!(wait(&evicting) < 5.0 && wait(&waiting) > 50.0, "{} and {} ms", wait(&evicting), wait(&waiting));
    assert_eq!(important(&evicting)["requests"]["failed"], 0);
    let failed =
        |summary: &Value| number(&of(&summary["tenants"], "name", &"batch".into())["requests"]["failed"]);
    assert!(failed(&evicting) > 0.0 && failed(&waiting) == 0.0);
    // An engine that went on for them would leave less to the others.
    let ttft = |summary: &Value| number(&important(summary)["ttft_ms"]["mean"]);
    assert!(ttft(&evicting) < 30.0, "{} ms", ttft(&evicting));
}
