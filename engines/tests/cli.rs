#![expect(clippy::disallowed_methods, reason = "these tests run processes on the machine they test")]
//! The binary `lockstep` as its users run it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;

/// A short run: shared prefixes, two engines.
const SCENARIO: &str = "\
workload:
  requests: 200
  synthetic:
    arrivals: {process: poisson, rate: 40}
    prompt: {type: constant, value: 300}
    output: {type: constant, value: 20}
    shared_prefix: {groups: 8, tokens: 512, skew: 0}
cluster:
  - {count: 2, model: qwen3-14b, gpu: H100}
";

fn lockstep(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(arguments);
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the binary starts")
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file in a folder of our own");
    path.display().to_string()
}

fn digest(command: &mut Command) -> String {
    let output = output(command);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let screen = String::from_utf8(output.stdout).expect("text");
    let line = screen.lines().find(|line| line.starts_with("digest")).expect("a digest");
    line.split_whitespace().nth(1).expect("its value").to_owned()
}

#[test]
fn one_seed_has_one_digest_in_every_process_and_another_seed_another() {
    let folder = tempdir().expect("a folder");
    let scenario = write(folder.path(), "s.yaml", SCENARIO);
    let run = ["run", scenario.as_str(), "--seed", "5"];
    let first = digest(&mut lockstep(&run));
    for threads in ["1", "8"] {
        assert_eq!(digest(lockstep(&run).env("TOKIO_WORKER_THREADS", threads)), first, "{threads} threads");
    }
    let other_place =
        lockstep(&run).current_dir(folder.path()).env_clear().env("LANG", "tr_TR.UTF-8").output();
    let other_place = String::from_utf8(other_place.expect("the binary starts").stdout).expect("text");
    assert!(other_place.contains(&first), "another folder and environment: {other_place}");
    assert_ne!(digest(&mut lockstep(&["run", &scenario, "--seed", "6"])), first);
}

#[test]
fn every_request_is_in_the_files() {
    let folder = tempdir().expect("a folder");
    let scenario = write(folder.path(), "s.yaml", SCENARIO);
    let out = folder.path().join("out");
    let done = output(&mut lockstep(&["run", &scenario, "--out", &out.display().to_string()]));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let summary = fs::read(out.join("summary.json")).expect("a summary");
    let summary: Value = serde_json::from_slice(&summary).expect("JSON");
    let requests = &summary["requests"];
    let count = |key: &str| requests[key].as_u64().expect("a count");
    assert_eq!(count("injected"), 200);
    assert_eq!(count("done") + count("failed") + count("cancelled"), 200);
    let engines = summary["engines"].as_array().expect("a list");
    assert_eq!(engines.iter().map(|engine| engine["requests"].as_u64().expect("a count")).sum::<u64>(), 200);
    assert_eq!(summary["findings"], Value::Array(Vec::new()));

    let csv = fs::read_to_string(out.join("requests.csv")).expect("requests");
    let mut rows = csv.lines();
    let columns =
        "request_id,arrival_s,endpoint,prompt_tokens,output_tokens,prefix_hit_tokens,ttft_ms,e2e_ms,outcome";
    assert_eq!(rows.next(), Some(columns));
    assert_eq!(rows.count(), 200);
    let decisions = fs::read_to_string(out.join("decisions.jsonl")).expect("decisions");
    assert_eq!(decisions.lines().count(), 200);
}

#[test]
fn bad_input_is_one_paragraph_and_exit_code_2() {
    let folder = tempdir().expect("a folder");
    let unknown_key = write(folder.path(), "key.yaml", &SCENARIO.replace("count: 2", "cuont: 2"));
    let wrong_type = write(folder.path(), "type.yaml", &SCENARIO.replace("rate: 40", "rate: fast"));
    let no_engines = write(folder.path(), "none.yaml", &SCENARIO.replace("count: 2", "count: 0"));
    let row = r#"{"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1]}"#;
    let truncated = write(folder.path(), "cut.jsonl", &format!("{row}\n{}", &row[..40]));
    let policy = write(folder.path(), "policy.yaml", "plugins:\n- {type: queue-scorr}\n");
    let scenario = write(folder.path(), "s.yaml", SCENARIO);
    let file = write(folder.path(), "file", "");

    let cases: &[(&[&str], &[&str])] = &[
        (&["run", &unknown_key], &["key.yaml:9:", "cuont", "count"]),
        (&["run", &wrong_type], &["type.yaml:4:", "rate"]),
        (&["run", &no_engines], &["none.yaml:9:", "count", "1"]),
        (&["run", "--trace", &truncated], &["cut.jsonl:2", "truncated", "accepted"]),
        (&["run", &scenario, "--config", &policy], &["policy.yaml:2:", "queue-scorr", "queue-scorer"]),
        (&["run", "no/such.yaml"], &["no/such.yaml", "accepted"]),
        (&["run", &scenario, "--model", "gpt"], &["--model", "gpt", "qwen3-14b"]),
        (&["run", &scenario, "--model", "llama-3.1-70b-instruct"], &["--model", "does not fit", "accepted"]),
        (&["run", &scenario, "--engines", "0"], &["--engines", "0"]),
        (&["run", &scenario, "--out", &file], &["file", "accepted"]),
        (&["engines", "--port", "65535", "--count", "2"], &["--port", "accepted"]),
    ];
    for (arguments, said) in cases {
        let output = output(&mut lockstep(arguments));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(said.iter().all(|part| error.contains(part)), "{arguments:?}: {said:?} in {error}");
        assert!(!error.contains("panicked"), "{arguments:?}: {error}");
    }
}

#[test]
fn a_port_in_use_is_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let output = output(&mut lockstep(&["engines", "--count", "1", "--port", &port]));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(&port) && error.contains("accepted"), "{error}");
}
