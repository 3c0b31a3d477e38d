#![expect(clippy::disallowed_methods, reason = "these tests run processes on the machine they test")]
//! The binary `lockstep` as its users run it.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
    let header_only = write(folder.path(), "header.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n");
    let twice = write(folder.path(), "twice.jsonl", &row.replace('}', ", \"timestamp\": 1}"));
    let second_document = write(folder.path(), "second.yaml", &format!("{SCENARIO}---\n{SCENARIO}"));
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
        (&["run", &scenario, "--out", "/dev/full"], &["/dev/full", "no folder", "accepted"]),
        (&["engines", "--port", "65535", "--count", "2"], &["--port", "accepted"]),
        (&["engines", "--time-scale", "0"], &["--time-scale", "accepted", "0.001"]),
        (&["engines", "--vllm", "0.9"], &["--vllm", "0.21"]),
        (&["engines", "--lora-modules", "a"], &["--lora-modules", "accepted"]),
        (
            &["engines", "--max-num-seqs", "9", "--max-num-batched-tokens", "8"],
            &["(8)", "at least max_num_seqs (9)"],
        ),
        (&["run", "/dev/zero"], &["/dev/zero", "too long", "4194304 bytes"]),
        (&["run", "/"], &["the scenario", "a folder", "accepted"]),
        (&["run", &scenario, "--config", "/dev/zero"], &["/dev/zero", "too long"]),
        (&["run", "--trace", "/dev/zero"], &["/dev/zero:1", "too long", "bytes a line"]),
        (&["run", "--trace", "/"], &["the trace", "a folder"]),
        (&["run", "--trace", &file], &["file:1", "empty", "Mooncake", "Azure"]),
        (&["run", "--trace", &header_only], &["header.csv:2", "no rows"]),
        (&["run", "--trace", &twice], &["twice.jsonl:1:", "\"timestamp\" stands twice"]),
        (&["run", &second_document], &["second.yaml:10:1", "second document"]),
        (&["run", &scenario, "--model", "/dev/null"], &["--model", "/dev/null", "JSON"]),
        (
            &["run", &scenario, "--requests", "99999999999"],
            &["arrive for 28935 days", "accepted", "366 days"],
        ),
        (&["run", "--rate-scale", "0.000001"], &["arrive for 2170 days", "a higher rate"]),
        (&["run", &scenario, "--rate-scale", "1e308"], &["rate scale: 1e308 scales no rate"]),
    ];
    for (arguments, said) in cases {
        let output = output(&mut lockstep(arguments));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(said.iter().all(|part| error.contains(part)), "{arguments:?}: {said:?} in {error}");
        assert!(!error.contains("panicked"), "{arguments:?}: {error}");
    }
}

/// Architecture 3: reasons are collected where they are asked for, and change nothing.
#[test]
fn a_run_that_explains_tells_of_each_request_why_it_went_where_it_went() {
    let folder = tempdir().expect("a folder");
    let scenario = write(folder.path(), "s.yaml", SCENARIO);
    let out = folder.path().join("run").display().to_string();
    let plain = digest(&mut lockstep(&["run", &scenario]));
    assert_eq!(digest(&mut lockstep(&["run", &scenario, "--out", &out, "--explain"])), plain);

    let told = output(&mut lockstep(&["explain", &out, "request-17"]));
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    for part in [
        "request-17 at ",
        "of 2 endpoints",
        "profile default",
        "prefix-cache-scorer x 3",
        "queue-scorer x 2",
        "picked",
    ] {
        assert!(told.contains(part), "{part} in {told}");
    }
    let json = output(&mut lockstep(&["explain", &out, "17", "--json"]));
    let json: Value = serde_json::from_slice(&json.stdout).expect("one decision");
    let explanation = &json["explanation"];
    let endpoint = json["endpoint"].as_str().expect("one was chosen");
    assert_eq!(explanation["chosen"], serde_json::json!([format!("default/{endpoint}")]));
    let ranking = explanation["profiles"][0]["ranking"].as_array().expect("a ranking");
    let total = |row: &Value| row[1].as_f64().expect("a sum");
    assert!(ranking.len() == 2 && total(&ranking[0]) >= total(&ranking[1]), "{ranking:?}");

    for (arguments, said) in [
        (["explain", &out, "200"], ["no decision about request 200", "accepted"]),
        (["explain", &scenario, "1"], ["s.yaml:1", "no decision"]),
        (["explain", "no/such", "1"], ["no/such", "--explain"]),
    ] {
        let refused = output(&mut lockstep(&arguments));
        let error = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.iter().all(|part| error.contains(part)), "{error}");
    }
    let unasked = output(&mut lockstep(&["run", &scenario, "--explain"]));
    assert!(String::from_utf8_lossy(&unasked.stderr).contains("--out"), "reasons go into a file");
}

#[test]
fn a_port_in_use_is_said() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("its address").port().to_string();
    let output = output(&mut lockstep(&["engines", "--count", "1", "--port", &port]));
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(&port) && error.contains("accepted"), "{error}");
}

/// What the errors are about comes in the order of the file, each thing once.
#[test]
fn errors_are_told_once_and_in_the_order_of_their_lines() {
    let folder = tempdir().expect("a folder");
    let wrong = SCENARIO.replace("requests: 200", "requests: -1").replace("poisson", "posson");
    let wrong = write(
        folder.path(),
        "wrong.yaml",
        &format!("{}  - count: 0\n", wrong.replace("gpu: H100", "gpu: 7")),
    );
    let output = output(&mut lockstep(&["run", &wrong]));
    let error = String::from_utf8_lossy(&output.stderr);
    let places: Vec<&str> = error.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    let lines: Vec<u32> = places.iter().filter_map(|place| place.rsplit(':').nth(2)?.parse().ok()).collect();
    assert_eq!(lines, [2, 4, 9, 10, 10], "{error}");
}

#[test]
fn a_full_output_is_an_error_and_a_reader_that_leaves_is_not() {
    let folder = tempdir().expect("a folder");
    let scenario = write(folder.path(), "s.yaml", SCENARIO);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has one");
    let full = output(lockstep(&["run", &scenario]).stdout(full));
    let error = String::from_utf8_lossy(&full.stderr);
    assert_eq!(full.status.code(), Some(1), "{error}");
    assert!(error.starts_with("error: cannot write to standard output: "), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");

    let mut child = lockstep(&["run", &scenario])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    drop(child.stdout.take());
    let closed = child.wait_with_output().expect("it ends");
    assert_eq!((closed.status.code(), closed.stderr.as_slice()), (Some(0), b"".as_slice()));

    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has one");
    let nowhere = output(lockstep(&["run", "no/such.yaml"]).stdout(full()).stderr(full()));
    assert_eq!(nowhere.status.code(), Some(2), "errors that nobody can be told still have their code");
}

#[test]
fn a_full_disk_is_told_behind_the_screen() {
    let folder = tempdir().expect("a folder");
    let scenario = write(folder.path(), "s.yaml", SCENARIO);
    let out = folder.path().join("out");
    fs::create_dir(&out).expect("a folder of our own");
    std::os::unix::fs::symlink("/dev/full", out.join("decisions.jsonl")).expect("a link");
    let done = output(&mut lockstep(&["run", &scenario, "--out", &out.display().to_string()]));
    let error = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{error}");
    assert!(error.contains("decisions.jsonl: cannot write: No space left"), "{error}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("200 injected: 200 done"));
}

/// A scenario that would run for hours.
fn endless(folder: &Path) -> String {
    write(folder, "endless.yaml", &SCENARIO.replace("requests: 200", "requests: 100000000"))
}

#[test]
fn a_signal_ends_a_run_with_what_it_has_and_the_code_of_the_signal() {
    for (signal, name, code) in [("INT", "SIGINT", 130), ("TERM", "SIGTERM", 143)] {
        let folder = tempdir().expect("a folder");
        let out = folder.path().join("out");
        let mut child = lockstep(&["run", &endless(folder.path()), "--out", &out.display().to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // The signals are caught before the files are made.
        while !out.join("decisions.jsonl").metadata().is_ok_and(|file| file.len() > 0) {
            assert!(child.try_wait().expect("a child of ours").is_none(), "it runs for hours");
            std::thread::yield_now();
        }
        let sent = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
        let ended = child.wait_with_output().expect("it ends");
        let error = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.contains(name), "{error}");
        assert!(String::from_utf8_lossy(&ended.stdout).contains(&format!("interrupted  by {name}")));
        let summary = fs::read(out.join("summary.json")).expect("a summary");
        let summary: Value = serde_json::from_slice(&summary).expect("JSON");
        assert_eq!(summary["interrupted"], name);
        let requests = &summary["requests"];
        let count = |key: &str| requests[key].as_u64().expect("a count");
        assert_eq!(count("injected"), count("done") + count("failed") + count("cancelled"));
        let rows = fs::read_to_string(out.join("requests.csv")).expect("requests");
        assert_eq!(rows.lines().count() as u64, 1 + count("injected"), "a row for every request");
    }
}

#[test]
fn served_engines_say_where_they_are_and_end_cleanly() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("its address").port().to_string();
    drop(taken);
    let mut child = lockstep(&["engines", "--count", "1", "--port", &port])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    assert!(line.contains(&format!("http://127.0.0.1:{port}")), "{line}");
    // Model-server spec 7: what is unfinished when the server is told to end is answered as aborted.
    let body = r#"{"prompt": "hello", "max_tokens": 30000, "stream": true}"#;
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    let head = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    write!(stream, "POST /v1/completions HTTP/1.1\r\nhost: a\r\n{head}\r\n{body}").expect("it reads");
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).expect("it answers");
    assert_eq!(answer, b"HTTP/1.1 200");
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("text");
    assert_eq!(rest, "");
    let mut events = String::new();
    stream.read_to_string(&mut events).expect("the answer has an end");
    let last: Vec<&str> = events.lines().filter(|line| line.starts_with("data: ")).collect();
    let [.., aborted, done] = last[..] else { panic!("{events}") };
    assert!(
        aborted.contains("\"text\":\"\"") && aborted.contains("\"finish_reason\":\"abort\""),
        "{aborted}"
    );
    assert_eq!(done, "data: [DONE]");
}

#[test]
fn a_converted_workload_is_the_same_workload() {
    let folder = tempdir().expect("a folder");
    let scenario = write(folder.path(), "s.yaml", SCENARIO);
    let trace = folder.path().join("out.jsonl").display().to_string();
    let source = [scenario.as_str(), "--requests", "100", "--rate-scale", "2"];
    let converted = output(lockstep(&["workload", "convert"]).args(source).args(["--out", &trace]));
    assert!(converted.status.success(), "{}", String::from_utf8_lossy(&converted.stderr));
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 2, "nothing but the trace is left");
    assert_eq!(fs::read_to_string(&trace).expect("a trace").lines().count(), 100);
    let printed = output(lockstep(&["workload", "convert"]).args(source));
    assert_eq!(printed.stdout, fs::read(&trace).expect("a trace"));

    let describe = |arguments: &[&str]| {
        let described = output(lockstep(&["workload", "describe"]).args(arguments));
        assert!(described.status.success(), "{}", String::from_utf8_lossy(&described.stderr));
        String::from_utf8(described.stdout).expect("text")
    };
    let lines = |text: &str| -> Vec<String> {
        text.lines()
            .filter(|line| line.contains("tokens ") || line.contains("gap"))
            .map(str::to_owned)
            .collect()
    };
    let (drawn, read) = (describe(&source), describe(&["--trace", &trace]));
    assert!(drawn.starts_with("workload     synthetic, 100 requests, 40 a second, rate x 2\n"), "{drawn}");
    assert!(drawn.contains("requests     100 over "), "{drawn}");
    // Eight prefixes of one whole block: all but the first prompts of each share it, drawn and read back.
    let shared = |text: &str| text.lines().last().map(str::to_owned).expect("a last line");
    assert!(shared(&drawn).contains("58.0 % of 81,200 prompt tokens stand in"), "{drawn}");
    assert_eq!(shared(&drawn), shared(&read));
    let (drawn, read) = (lines(&drawn), lines(&read));
    assert_eq!(drawn[drawn.len() - 4..], read[read.len() - 4..]);
}

#[test]
fn a_conversion_that_fails_leaves_no_file() {
    let folder = tempdir().expect("a folder");
    let row = r#"{"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1]}"#;
    let broken = write(folder.path(), "broken.jsonl", &format!("{row}\n{{}}\n"));
    let out = folder.path().join("out.jsonl").display().to_string();
    let convert = |arguments: &[&str]| output(lockstep(&["workload", "convert"]).args(arguments));
    let failed = convert(&["--trace", &broken, "--out", &out]);
    let error = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(2), "{error}");
    assert!(error.contains("broken.jsonl:2"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "no part of it is left");
    let failed = convert(&["--out", "/no/such/folder/t.jsonl"]);
    assert_eq!(failed.status.code(), Some(2), "{}", String::from_utf8_lossy(&failed.stderr));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has one");
    let failed = output(lockstep(&["workload", "convert"]).stdout(full));
    assert_eq!(failed.status.code(), Some(1), "{}", String::from_utf8_lossy(&failed.stderr));
}
