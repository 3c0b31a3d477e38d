use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use executor::Instant;

use super::*;
use crate::report::{Decision, EngineTotals, Observer, Outcome, RequestEnd, RunEnd};
use crate::scenario::{Plan, RouterSource, WorkloadSource};
use crate::workload::Workload;

fn run_args(line: &str) -> RunArgs {
    let words = ["lockstep", "run"].into_iter().chain(line.split_whitespace());
    match Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).into_command() {
        Command::Run(args) => args,
        _ => panic!("run"),
    }
}

fn plan(line: &str) -> Result<Plan, Failure> {
    Ok(run_args(line).scenario()?.plan()?)
}

#[test]
fn the_arguments_are_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn without_a_command_the_built_in_scenario_runs() {
    let cli = Cli::try_parse_from(["lockstep"]).unwrap();
    assert!(matches!(cli.into_command(), Command::Run(args) if args == RunArgs::default()));
}

#[test]
fn flags_override_the_scenario() {
    let plan = plan(
        "--trace t.jsonl --config c.yaml --engines 16 --model yi-34b --gpu A100-80 --tp 2 --rate-scale 2 \
         --requests 10 --seed 7",
    )
    .unwrap();
    let group = &plan.groups[0];
    assert_eq!(group.describe(), "16 x yi-34b on A100-80 (TP 2, roofline)");
    let WorkloadSource::Trace(trace) = &plan.workload.source else { panic!("a trace") };
    assert_eq!(trace.value, Path::new("t.jsonl"));
    assert_eq!(plan.workload.rate_scale, 2.0);
    assert_eq!(plan.workload.requests.map(u64::from), Some(10));
    assert_eq!((plan.seed, plan.router), (7, RouterSource::File("c.yaml".into())));
}

#[test]
fn a_trace_is_replayed_whole_whatever_the_scenario_drew() {
    assert_eq!(plan("--trace t.jsonl").unwrap().workload.requests, None);
}

#[test]
fn a_number_of_requests_is_how_many_are_drawn() {
    let plan = plan("--requests 7").unwrap();
    assert_eq!(plan.workload.open(1).unwrap().count(), 7);
}

#[test]
fn what_flags_ask_for_in_vain_is_told_under_their_names() {
    for (line, expected) in [
        (
            "--gpu H10",
            "error: --gpu: unknown GPU \"H10\"; accepted: A100-80, A100-SXM, H100, L40S; did you mean \"H100\"?",
        ),
        (
            "--model llama-3.1-70b-instruct",
            "error: --model: llama-3.1-70b-instruct does not fit: its weights take 131.4 GiB and its activations \
             5.5 GiB, 1 x H100 leave 72.0 GiB; accepted: tp of at least 2, or a GPU with more memory",
        ),
        (
            "--tp 3",
            "error: --tp: qwen3-14b cannot be split over 3 GPUs; accepted: a divisor of its 8 key-value heads",
        ),
    ] {
        assert_eq!(plan(line).unwrap_err().to_string(), expected);
    }
    for line in ["--engines 0", "--requests 0", "--tp 0", "--seed x", "--enginess 3"] {
        let words = ["lockstep", "run"].into_iter().chain(line.split_whitespace());
        assert_eq!(Cli::try_parse_from(words).unwrap_err().exit_code(), 2, "{line}");
    }
}

#[test]
fn a_number_of_engines_needs_one_group() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "workload: {trace: t}\ncluster: [{count: 1, model: yi-34b}, {count: 1, model: yi-34b}]\n";
    std::fs::write(file.path(), text).unwrap();
    let args = RunArgs {
        source: SourceArgs { scenario: Some(file.path().into()), ..SourceArgs::default() },
        engines: Some(3),
        ..RunArgs::default()
    };
    assert_eq!(
        args.scenario().unwrap_err().to_string(),
        "error: --engines: the scenario has 2 groups of engines; accepted: a scenario with one group; edit the \
         counts in its file"
    );
}

#[test]
fn the_line_that_repeats_a_run_is_read_back_as_the_same_arguments() {
    let line = "s.yaml --trace t.jsonl --config c.yaml --engines 2 --model m --gpu g --tp 2 --rate-scale 1.5 \
                --requests 9 --seed 3 --schedule-seed 7 --schedule-choices 0/4,1.5/9 --check";
    let args = run_args(line);
    let repeat = args.repeat(3);
    assert_eq!(run_args(repeat.strip_prefix("lockstep run ").unwrap()), args);
    let spaced = RunArgs {
        source: SourceArgs { trace: Some("it's here/t.jsonl".into()), ..SourceArgs::default() },
        ..RunArgs::default()
    };
    assert_eq!(spaced.repeat(42), r"lockstep run --trace 'it'\''s here/t.jsonl' --seed 42");
}

/// Ends every request after a second on the first engine.
fn one_second_each(
    plan: &Plan,
    workload: Workload,
    observer: Rc<RefCell<dyn Observer>>,
) -> Result<RunEnd, Failure> {
    let mut engine = EngineTotals { name: format!("{}-0", plan.groups[0].name), ..EngineTotals::default() };
    let mut end = Instant::ZERO;
    for request in workload {
        let request = request?;
        let arrival = Instant::ZERO + request.arrival;
        end = arrival + Duration::from_secs(1);
        let chosen = Decision {
            request: request.index,
            at: arrival,
            candidates: 1,
            endpoint: Ok(&engine.name),
            explanation: None,
        };
        observer.borrow_mut().decided(&chosen);
        observer.borrow_mut().request_ended(&RequestEnd {
            request: request.index,
            arrival,
            endpoint: Some(&engine.name),
            prompt_tokens: request.prompt.tokens(),
            output_tokens: request.output_tokens,
            prefix_hit_tokens: 0,
            first_token: Some(end),
            end,
            outcome: Outcome::Done,
            decided: None,
            tenant: None,
        });
        engine.requests += 1;
    }
    let simulated = end - Instant::ZERO;
    Ok(RunEnd {
        digest: 1,
        simulated,
        wall: simulated,
        engines: vec![engine],
        clean: true,
        findings: vec![],
        interrupted: None,
    })
}

#[test]
fn a_run_prints_its_screen_and_writes_its_files() {
    let out = tempfile::tempdir().unwrap();
    let args = RunArgs { out: Some(out.path().into()), ..run_args("--requests 20") };
    let screen = execute(&args, one_second_each).unwrap().screen;
    assert!(screen.contains("20 injected: 20 done, 0 failed, 0 cancelled"), "{screen}");
    assert!(screen.contains("workload     synthetic, 20 requests, 32 a second"), "{screen}");
    assert!(screen.ends_with("repeat       lockstep run --requests 20 --seed 42\n"), "{screen}");
    let rows = std::fs::read_to_string(out.path().join("requests.csv")).unwrap();
    assert_eq!(rows.lines().count(), 21);
}

#[test]
fn a_run_is_refused_before_it_starts() {
    let never = |_: &Plan, _: Workload, _: Rc<RefCell<dyn Observer>>| -> Result<RunEnd, Failure> {
        panic!("nothing is simulated")
    };
    let error = execute(&run_args("--trace no/such/trace"), never).unwrap_err().to_string();
    assert!(error.starts_with("error: no/such/trace: cannot read the trace: "), "{error}");
    let error = execute(&run_args("no/such/scenario.yaml"), never).unwrap_err().to_string();
    assert!(error.starts_with("error: no/such/scenario.yaml: cannot read the scenario: "), "{error}");
    let error = execute(&run_args("--rate-scale 0"), never).unwrap_err().to_string();
    assert_eq!(error, "error: rate scale: 0 scales no rate; accepted: a number from 0.000001 to 1000000");
    let file = tempfile::NamedTempFile::new().unwrap();
    let args = RunArgs { out: Some(file.path().join("out")), ..RunArgs::default() };
    let error = execute(&args, never).unwrap_err().to_string();
    assert!(error.ends_with("accepted: a folder that can be written, for --out"), "{error}");
}

#[test]
fn engines_are_resolved_like_a_scenario() {
    let args = |line: &str| {
        let words = ["lockstep", "engines"].into_iter().chain(line.split_whitespace());
        match Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).into_command() {
            Command::Engines(args) => args,
            _ => panic!("engines"),
        }
    };
    let group = args("--count 2 --model yi-34b --latency trained-physics").group().unwrap();
    assert_eq!(group.describe(), "2 x yi-34b on H100 (TP 1, trained-physics)");
    assert_eq!(
        args("--count 9 --port 65530").group().unwrap_err().to_string(),
        "error: --port: 9 engines from port 65530 on; accepted: ports up to 65535"
    );
    let error = args("--latency rooflin").group().unwrap_err().to_string();
    assert!(
        error.starts_with("error: --latency: unknown latency backend \"rooflin\"; accepted: "),
        "{error}"
    );
}
