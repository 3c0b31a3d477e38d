//! `lockstep explore`, the schedules of `lockstep run` and `--check`, as users of the binary see them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

const SCENARIO: &str = "\
workload:
  requests: 40
  synthetic:
    arrivals: {process: poisson, rate: 40}
    prompt: {type: constant, value: 300}
    output: {type: constant, value: 8}
    shared_prefix: {groups: 4, tokens: 512, skew: 0}
cluster:
  - {count: 3, model: qwen3-14b, gpu: H100}
";

/// Two requests arrive at one instant.
const TWINS: &str = "\
{\"timestamp\": 0, \"input_length\": 100, \"output_length\": 4, \"hash_ids\": [1]}
{\"timestamp\": 1000, \"input_length\": 200, \"output_length\": 4, \"hash_ids\": [2]}
{\"timestamp\": 1000, \"input_length\": 300, \"output_length\": 4, \"hash_ids\": [3]}
{\"timestamp\": 2000, \"input_length\": 100, \"output_length\": 4, \"hash_ids\": [4]}
";

/// Requests go where the fewest are in flight: the second of two at one instant goes elsewhere than the first.
const IN_FLIGHT: &str = "\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {type: active-request-scorer}
  - {type: inflight-load-producer}
schedulingProfiles:
  - name: default
    plugins:
      - {pluginRef: active-request-scorer, weight: 1}
";

/// Nothing is ever let through, and requests may wait for a day.
const SHUT: &str = "\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
  - {type: static-usage-limit-policy, name: shut, parameters: {threshold: 0}}
flowControl:
  usageLimitPolicyPluginRef: shut
  defaultRequestTTL: 24h
";

fn folder() -> TempDir {
    let folder = tempdir().expect("a folder");
    for (name, text) in
        [("s.yaml", SCENARIO), ("twins.jsonl", TWINS), ("in-flight.yaml", IN_FLIGHT), ("shut.yaml", SHUT)]
    {
        fs::write(folder.path().join(name), text).expect("a file");
    }
    folder
}

fn lockstep(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(line.split_whitespace()).current_dir(folder).output().expect("the binary starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Where a run sent each request.
fn destinations(folder: &Path, line: &str) -> Vec<String> {
    let run = lockstep(folder, &format!("{line} --out out"));
    assert!(run.status.success(), "{}", text(&run));
    let rows = fs::read_to_string(folder.join("out/decisions.jsonl")).expect("decisions");
    let mut decisions: Vec<Value> =
        rows.lines().map(|row| serde_json::from_str(row).expect("JSON")).collect();
    decisions.sort_by_key(|decision| decision["request_id"].to_string());
    decisions.into_iter().map(|decision| decision["endpoint"].to_string()).collect()
}

#[test]
fn requests_that_arrive_apart_are_decided_alike_under_every_schedule() {
    let folder = folder();
    let explored = lockstep(folder.path(), "explore s.yaml --requests 40 --schedules 12");
    let said = text(&explored);
    assert!(explored.status.success(), "{said}");
    assert!(
        said.starts_with("explored     12 schedules of lockstep run s.yaml --requests 40 --seed "),
        "{said}"
    );
    assert!(said.contains("dependence   none: all decide and end 40 requests alike"), "{said}");
}

#[test]
fn which_of_two_requests_of_one_instant_went_first_shows_and_the_report_says_it() {
    let folder = folder();
    let run = "--trace twins.jsonl --timestamps recorded --config in-flight.yaml --engines 2 --seed 3";
    let explored = lockstep(folder.path(), &format!("explore {run} --schedules 16"));
    let said = text(&explored);
    assert_eq!(explored.status.code(), Some(3), "{said}");
    let swap = said.lines().find(|line| line.starts_with("swap")).expect("what was swapped");
    assert!(swap.contains("choice 1.000000000/"), "the instant of the twins: {said}");
    assert_eq!(said.matches("\nswap ").count(), 1, "one choice is enough: {said}");
    for part in [
        "differs      2 of 4 requests",
        "\nas it is     ",
        "\npermuted     ",
        "     behind ",
        " \"client\" (",
    ] {
        assert!(said.contains(part), "{part:?} in {said}");
    }

    // The line that it prints shows the same.
    let replay = said.lines().find_map(|line| line.strip_prefix("replay       lockstep ")).expect("a line");
    let (fifo, other) =
        (destinations(folder.path(), &format!("run {run}")), destinations(folder.path(), replay));
    let differing: Vec<usize> = (0..4).filter(|&request| fifo[request] != other[request]).collect();
    assert_eq!(differing, [1, 2], "{fifo:?} {other:?}");
    assert!(said.contains(&format!("goes to {}", fifo[1].trim_matches('"'))), "{said}");
}

#[test]
fn a_schedule_is_part_of_a_recording() {
    let folder = folder();
    let run = "run s.yaml --schedule-seed 5 --schedule-choices 0/1,0/2,0/3,0/4";
    let recorded = lockstep(folder.path(), &format!("{run} --record journal"));
    assert!(recorded.status.success(), "{}", text(&recorded));
    assert!(
        text(&recorded)
            .contains(" --schedule-choices 0.000000000/1,0.000000000/2,0.000000000/3,0.000000000/4\n"),
        "{}",
        text(&recorded)
    );
    let replayed = lockstep(folder.path(), "replay journal");
    assert!(replayed.status.success() && text(&replayed).contains(", as recorded"), "{}", text(&replayed));

    let digest = |line: &str| {
        let said = text(&lockstep(folder.path(), line));
        said.lines().find(|line| line.starts_with("digest")).expect("a digest").to_owned()
    };
    assert_eq!(digest(run), digest(run));
    assert_ne!(digest(run), digest("run s.yaml"));
    assert_ne!(digest(run), digest("run s.yaml --schedule-seed 5"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = folder();
    for (line, said) in [
        ("explore s.yaml --out o", "--out is of one run"),
        ("explore s.yaml --record j", "--record is of one run"),
        ("explore s.yaml --schedule-seed 3", "--schedule-seed is of one run"),
        ("explore s.yaml --schedules 0", "--schedules"),
        ("explore no.yaml", "no.yaml: cannot read"),
        ("run s.yaml --schedule-choices 1/1", "--schedule-seed"),
        ("run s.yaml --schedule-seed 1 --schedule-choices 5", "accepted: the instant in seconds"),
    ] {
        let refused = lockstep(folder.path(), line);
        assert_eq!(refused.status.code(), Some(2), "{line}: {}", text(&refused));
        assert!(text(&refused).contains(said), "{line}: {}", text(&refused));
    }
}

/// Scrapes and ticks go on for ever, and no request gets on: the run ends and says what each request waits for.
#[test]
fn a_cluster_that_stalls_is_starved_and_its_waits_are_told() {
    let folder = folder();
    let run =
        lockstep(folder.path(), "run s.yaml --engines 1 --requests 40 --seed 1 --config shut.yaml --check");
    let said = String::from_utf8_lossy(&run.stdout);
    assert_eq!(run.status.code(), Some(3), "{}", text(&run));
    assert!(said.contains("40 injected: 0 done, 0 failed, 40 cancelled"), "{said}");
    assert!(said.contains("the run did not complete: starvation behind daemons"), "{said}");
    let finding = said.split_once("finding      starvation behind daemons at ").expect("the finding").1;
    for part in [
        ": nothing happened to any request for 3600 s",
        "\"client\" spawned at engines/src/cluster.rs",
        "waits for ",
        "and 9 more tasks wait",
        "the clock is kept going by task",
    ] {
        assert!(finding.contains(part), "{part:?} in {said}");
    }
    let repeat =
        "repeat       lockstep run s.yaml --config shut.yaml --engines 1 --requests 40 --seed 1 --check";
    assert_eq!(said.trim_end().lines().last(), Some(repeat));
}

#[test]
fn a_sound_run_passes_the_check_with_the_digest_that_it_has_without() {
    let folder = folder();
    let digest = |line: &str| {
        let run = lockstep(folder.path(), line);
        assert!(run.status.success(), "{}", text(&run));
        text(&run).lines().find(|line| line.starts_with("digest")).expect("a digest").to_owned()
    };
    assert_eq!(digest("run s.yaml --check"), digest("run s.yaml"));
}
