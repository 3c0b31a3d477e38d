//! Recorded runs, replayed, compared and drawn, as users of the binary do it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::{TempDir, tempdir};

const SCENARIO: &str = "\
workload:
  requests: 120
  synthetic:
    arrivals: {process: poisson, rate: 40}
    prompt: {type: constant, value: 300}
    output: {type: constant, value: 20}
    shared_prefix: {groups: 8, tokens: 512, skew: 0}
cluster:
  - {count: 3, model: qwen3-14b, gpu: H100}
";

const RANDOM: &str = "\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {type: random-picker, name: dice}
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: dice
";

fn lockstep(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(arguments).current_dir(folder).output().expect("the binary starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Records runs of seeds 5 and 6 as journals of that name.
fn recorded() -> TempDir {
    let folder = tempdir().expect("a folder");
    fs::write(folder.path().join("s.yaml"), SCENARIO).expect("a file");
    fs::write(folder.path().join("random.yaml"), RANDOM).expect("a file");
    for seed in ["5", "6"] {
        let run = lockstep(folder.path(), &["run", "s.yaml", "--seed", seed, "--record", seed]);
        assert!(run.status.success(), "{}", text(&run));
    }
    folder
}

#[test]
fn a_replay_has_the_digest_and_the_decisions_of_the_run() {
    let folder = recorded();
    let plain = lockstep(folder.path(), &["run", "s.yaml", "--seed", "5"]);
    let screen = text(&plain);
    let digest = screen.lines().find_map(|line| line.strip_prefix("digest")).expect("a digest").trim();
    let replay = lockstep(folder.path(), &["replay", "5"]);
    let said = text(&replay);
    assert!(replay.status.success(), "{said}");
    assert!(said.contains("decisions    120 recorded, 120 replayed, 0 changed"), "{said}");
    assert!(
        said.contains(&format!("digest       {digest}, as recorded")),
        "recording changes nothing: {said}"
    );

    let what_if = lockstep(folder.path(), &["replay", "5", "--config", "random.yaml"]);
    let said = text(&what_if);
    assert!(what_if.status.success() && said.contains("request"), "{said}");
    assert!(!said.contains(" 0 changed"), "{said}");

    let part = lockstep(folder.path(), &["replay", "5", "--until", "50"]);
    let said = text(&part);
    assert!(part.status.success() && said.contains(" event 50: "), "{said}");
    assert!(!said.contains(" event 51: ") && !said.contains(" event 18: "), "{said}");

    // Another scenario under the same name is no replay.
    fs::write(folder.path().join("s.yaml"), SCENARIO.replace("300", "301")).expect("a file");
    let changed = lockstep(folder.path(), &["replay", "5"]);
    assert_eq!(changed.status.code(), Some(2));
    assert!(text(&changed).contains("not what it was when the run was recorded"), "{}", text(&changed));
}

#[test]
fn a_journal_is_kept_and_what_is_none_is_refused() {
    let folder = recorded();
    let again = lockstep(folder.path(), &["run", "s.yaml", "--record", "5"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again).contains("there is a journal already; accepted: a new folder"), "{}", text(&again));
    for command in [&["replay", "none"][..], &["diff", "5", "none"], &["trace", "none", "--perfetto", "o"]] {
        let refused = lockstep(folder.path(), command);
        assert_eq!(refused.status.code(), Some(2), "{command:?}");
        assert!(text(&refused).contains("there is no journal"), "{}", text(&refused));
    }
}

#[test]
fn a_diff_names_the_first_difference_and_what_led_to_it() {
    let folder = recorded();
    let same = lockstep(folder.path(), &["diff", "5", "5"]);
    assert!(same.status.success() && text(&same).starts_with("no difference in "), "{}", text(&same));
    let other = lockstep(folder.path(), &["diff", "5", "6"]);
    let said = text(&other);
    assert_eq!(other.status.code(), Some(3), "{said}");
    assert!(said.starts_with("first difference: record "), "{said}");
    assert!(
        said.lines().any(|line| line.starts_with("A  ")) && said.lines().any(|line| line.starts_with("B  "))
    );
    assert!(said.contains("     behind ") && said.contains("due by the start of the run"), "{said}");
}

#[test]
fn a_torn_journal_is_read_up_to_its_last_whole_frame_and_that_is_said() {
    let folder = recorded();
    let segment = folder.path().join("5/000001.lsj");
    let bytes = fs::read(&segment).expect("a segment");
    fs::write(&segment, &bytes[..bytes.len() - 3]).expect("a segment");
    let replay = lockstep(folder.path(), &["replay", "5"]);
    let said = text(&replay);
    assert!(replay.status.success(), "{said}");
    assert!(said.starts_with("cut at the last whole frame: 5/000001.lsj, byte "), "{said}");
    assert!(said.contains(" 0 changed"), "{said}");
}

#[test]
fn a_trace_has_a_track_a_task_and_an_arrow_a_wake() {
    let folder = recorded();
    let trace = lockstep(folder.path(), &["trace", "5", "--perfetto", "out.json"]);
    assert!(trace.status.success(), "{}", text(&trace));
    let file = fs::read(folder.path().join("out.json")).expect("a trace");
    let trace: Value = serde_json::from_slice(&file).expect("JSON");
    let entries = trace["traceEvents"].as_array().expect("a list");
    let of = |phase: &str| entries.iter().filter(|entry| entry["ph"] == phase).count();
    assert!(of("M") > 120, "a track a task");
    assert!(of("X") > of("s") && of("s") == of("f") && of("s") > 120, "arrows begin and end");
    assert_eq!(of("i"), 120, "a mark a decision");
    let root = entries.iter().find(|entry| entry["ph"] == "M" && entry["tid"] == 0).expect("the root");
    assert_eq!(root["args"]["name"], "root 0");
}
