use std::time::Duration;

use executor::Instant;

use super::*;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn ended(request: u64, ttft: Option<u64>, e2e: u64, outcome: Outcome<'_>) -> RequestEnd<'_> {
    let arrival = at(request * 1000);
    RequestEnd {
        request,
        arrival,
        endpoint: ttft.map(|_| "engine-0"),
        prompt_tokens: 1000,
        output_tokens: if ttft.is_some() { 10 } else { 0 },
        prefix_hit_tokens: if ttft.is_some() { 250 } else { 0 },
        first_token: ttft.map(|ttft| arrival + Duration::from_millis(ttft)),
        end: arrival + Duration::from_millis(e2e),
        outcome,
        decided: None,
        tenant: None,
    }
}

/// Two requests done, one cancelled behind its first token, one refused.
fn observe(report: &mut impl Observer) {
    for request in 0..4 {
        let endpoint = if request == 3 { Err("no endpoint") } else { Ok("engine-0") };
        report.decided(&Decision {
            request,
            at: at(request * 1000),
            candidates: 2,
            endpoint,
            explanation: None,
        });
    }
    report.tokens_followed(Duration::from_millis(10), 18);
    report.tokens_followed(Duration::from_millis(30), 2);
    report.request_ended(&ended(0, Some(100), 500, Outcome::Done));
    report.request_ended(&ended(1, Some(300), 900, Outcome::Done));
    report.request_ended(&ended(2, Some(200), 250, Outcome::Cancelled));
    report.request_ended(&ended(3, None, 0, Outcome::Failed("no endpoint")));
}

fn run_end() -> RunEnd {
    let engine = |name: &str, requests, peak_queue| EngineTotals {
        name: name.to_owned(),
        requests,
        peak_queue,
        preemptions: 2,
    };
    RunEnd {
        digest: 0xabc,
        simulated: Duration::from_secs(10),
        wall: Duration::from_millis(100),
        engines: vec![engine("engine-0", 3, 1), engine("engine-1", 0, 0)],
        clean: true,
        findings: vec![],
        interrupted: None,
    }
}

fn finished() -> Finished {
    let mut report = Report::new(None, Progress::hidden());
    observe(&mut report);
    report.finish(7, run_end())
}

#[test]
fn the_summary_counts_every_request_once_and_keeps_its_keys() {
    let json = serde_json::to_string(&finished().summary).unwrap();
    assert_eq!(
        json,
        concat!(
            r#"{"seed":7,"digest":"0000000000000abc","#,
            r#""requests":{"injected":4,"done":2,"failed":1,"cancelled":1},"#,
            r#""tokens":{"prompt":3000,"output":30,"prefix_hit":750},"prefix_hit_rate":0.25,"#,
            r#""ttft_ms":{"mean":200.0,"p50":200.0,"p90":300.0,"p99":300.0},"#,
            r#""itl_ms":{"mean":12.0,"p50":10.0,"p90":10.0,"p99":30.0},"#,
            r#""e2e_ms":{"mean":700.0,"p50":500.0,"p90":900.0,"p99":900.0},"#,
            r#""throughput":{"requests_per_s":0.2,"output_tokens_per_s":3.0},"preemptions":4,"#,
            r#""engines":[{"name":"engine-0","requests":3,"peak_queue":1},"#,
            r#"{"name":"engine-1","requests":0,"peak_queue":0}],"#,
            r#""decisions":4,"sim_s":10.0,"wall_s":0.1,"findings":[]}"#,
        )
    );
    assert_eq!(finished().failures, [("no endpoint".to_owned(), 1)]);
}

#[test]
fn a_run_without_requests_has_no_latencies_and_no_nan() {
    let report = Report::new(None, Progress::hidden());
    let summary = report.finish(7, RunEnd::default()).summary;
    assert_eq!(summary.ttft_ms, LatencySummary::default());
    let json = serde_json::to_string(&summary).unwrap();
    assert!(json.contains(r#""prefix_hit_rate":0.0,"ttft_ms":{"mean":null"#), "{json}");
}

#[test]
fn reasons_for_failure_are_bounded() {
    let mut collector = Collector::default();
    for i in 0..100 {
        let reason = format!("reason {}", "x".repeat(i as usize));
        collector.request_ended(&ended(i, None, 0, Outcome::Failed(&reason)));
    }
    let failures = collector.failures();
    assert_eq!(failures.len(), 17);
    assert_eq!(failures[0], ("other reasons".to_owned(), 84));
}

#[test]
fn reasons_that_differ_in_numbers_are_one() {
    let mut collector = Collector::default();
    for (i, reason) in
        ["the prompt has 50 tokens", "the prompt has 612 tokens", "refused"].into_iter().enumerate()
    {
        collector.request_ended(&ended(i as u64, None, 0, Outcome::Failed(reason)));
    }
    let expected = [("as \"the prompt has 50 tokens\"".to_owned(), 2), ("refused".to_owned(), 1)];
    assert_eq!(collector.failures(), expected);
}

#[test]
fn the_files_hold_a_row_for_each_request_and_decision() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a/b");
    let mut report = Report::new(Some(Files::create(&out).unwrap()), Progress::hidden());
    observe(&mut report);
    let summary = report.finish(7, run_end()).summary;
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(
        read("requests.csv"),
        "request_id,arrival_s,endpoint,prompt_tokens,output_tokens,prefix_hit_tokens,ttft_ms,e2e_ms,outcome\n\
         request-0,0.000000,engine-0,1000,10,250,100.000,500.000,done\n\
         request-1,1.000000,engine-0,1000,10,250,300.000,900.000,done\n\
         request-2,2.000000,engine-0,1000,10,250,200.000,250.000,cancelled\n\
         request-3,3.000000,,1000,0,0,,0.000,failed\n"
    );
    let decisions = read("decisions.jsonl");
    let lines: Vec<&str> = decisions.lines().collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[1], r#"{"request_id":"request-1","time_s":1.0,"endpoint":"engine-0","candidates":2}"#);
    assert_eq!(
        lines[3],
        r#"{"request_id":"request-3","time_s":3.0,"endpoint":null,"candidates":2,"refused":"no endpoint"}"#
    );
    let json: serde_json::Value = serde_json::from_str(&read("summary.json")).unwrap();
    assert_eq!(json, serde_json::to_value(&summary).unwrap());
}

#[test]
fn files_of_a_run_that_fails_are_not_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("summary.json"), "of an earlier run").unwrap();
    let mut report = Report::new(Some(Files::create(folder.path()).unwrap()), Progress::hidden());
    observe(&mut report);
    drop(report);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_interrupted_run_says_so_in_its_summary_and_on_its_screen() {
    let end = RunEnd { interrupted: Some(executor::Signal::Interrupt), ..run_end() };
    let finished = Report::new(None, Progress::hidden()).finish(7, end);
    let json = serde_json::to_value(&finished.summary).unwrap();
    assert_eq!(json["interrupted"], "SIGINT");
    let subject =
        Subject { workload: "w".into(), cluster: "c".into(), router: "r".into(), repeat: "x".into() };
    let screen = Screen { subject: &subject, finished: &finished }.to_string();
    assert!(screen.contains("\ninterrupted  by SIGINT: "), "{screen}");
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = Files::create(&file.path().join("out")).unwrap_err().to_string();
    assert!(error.contains("out: cannot write: "), "{error}");
    assert!(error.ends_with("; accepted: a folder that can be written, for --out"), "{error}");
    let error = Files::create(file.path()).unwrap_err();
    assert_eq!(error.message(), "exists and is no folder; accepted: a folder that can be written, for --out");
}

#[test]
fn the_screen_shows_the_run() {
    let subject = Subject {
        workload: "trace.jsonl".to_owned(),
        cluster: "2 x qwen3-14b on H100 (TP 1, roofline)".to_owned(),
        router: "default".to_owned(),
        repeat: "lockstep run --seed 7".to_owned(),
    };
    let screen = Screen { subject: &subject, finished: &finished() }.to_string();
    assert!(screen.lines().all(|line| line == line.trim_end()), "no line ends with blanks: {screen:?}");
    for line in [
        "workload     trace.jsonl",
        "requests     4 injected: 2 done, 1 failed, 1 cancelled",
        "             1 failed: no endpoint",
        "throughput   0.20 requests/s, 3 output tokens/s",
        "prefix hits  25.0 % of 3,000 prompt tokens",
        "simulated    10.000 s in 0.10 s: 100 times as fast; 4 decisions, 40 a second",
        "digest       0000000000000abc",
        "repeat       lockstep run --seed 7",
    ] {
        assert!(screen.lines().any(|found| found == line), "{line:?} in\n{screen}");
    }
    let words: Vec<Vec<&str>> = screen.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(words.contains(&vec!["TTFT", "ms", "200.00", "200.00", "300.00", "300.00"]), "{screen}");
    assert!(words.contains(&vec!["engine-0", "3", "100.0", "%", "1"]), "{screen}");
}
