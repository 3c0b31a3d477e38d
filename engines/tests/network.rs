//! The network of a scenario: without faults it changes nothing that a request can tell, with each kind of fault the
//! requests that meet it fail as they would in production, and no run hangs.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use engines::cluster::simulate;
use engines::report::{Decision, Observer, Outcome, RequestEnd, RunEnd};
use engines::scenario::Scenario;
use executor::Sim;
use router::embed::RouterConfig;

const REQUESTS: u64 = 60;

const SECOND: Duration = Duration::from_secs(1);

/// One request in the log.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    request: u64,
    endpoint: Option<String>,
    arrival: Duration,
    first_token: Option<Duration>,
    end: Duration,
    /// Of prompt, cache and output.
    tokens: (u32, u32, u32),
    failure: Option<String>,
}

#[derive(Default)]
struct Log(Vec<Line>);

impl Observer for Log {
    fn decided(&mut self, _: &Decision<'_>) {}

    fn tokens_followed(&mut self, _: Duration, _: u64) {}

    fn request_ended(&mut self, end: &RequestEnd<'_>) {
        let since_start = |at| at - executor::Instant::ZERO;
        self.0.push(Line {
            request: end.request,
            endpoint: end.endpoint.map(str::to_owned),
            arrival: since_start(end.arrival),
            first_token: end.first_token.map(since_start),
            end: since_start(end.end),
            tokens: (end.prompt_tokens, end.prefix_hit_tokens, end.output_tokens),
            failure: match end.outcome {
                Outcome::Done => None,
                Outcome::Failed(why) => Some(why.to_owned()),
                Outcome::Cancelled => Some("cancelled".to_owned()),
            },
        });
    }
}

/// Runs requests with shared prefixes against three engines.
fn run(network: &str, config: &str) -> (Vec<Line>, RunEnd) {
    let scenario = format!(
        "seed: 7
workload:
  requests: {REQUESTS}
  synthetic:
    arrivals: {{process: poisson, rate: 40}}
    prompt: {{type: uniform, min: 16, max: 100}}
    output: {{type: uniform, min: 8, max: 40}}
    shared_prefix: {{groups: 10, tokens: 64, skew: 0.6}}
cluster:
  - {{count: 3, model: qwen3-14b}}
{network}"
    );
    let scenario = Scenario::parse("network.yaml", &scenario, Path::new(""));
    let plan = scenario.unwrap_or_else(|problems| panic!("{problems}")).plan().expect("a plan");
    let workload = plan.workload.open(plan.seed).expect("a workload");
    let log = Rc::new(RefCell::new(Log::default()));
    let mut config = RouterConfig::new("router.yaml", config);
    config.options.refresh_metrics_interval = SECOND / 5;
    let end = simulate(Sim::builder(), &plan, config, workload, Rc::clone(&log) as Rc<RefCell<dyn Observer>>)
        .expect("a run");
    assert_eq!(end.findings, Vec::<String>::new());
    let mut lines = log.take().0;
    lines.sort_by_key(|line| line.request);
    assert_eq!(lines.len() as u64, REQUESTS, "every request ends once");
    (lines, end)
}

fn wire(link: &str) -> String {
    format!("network:\n  fidelity: wire\n  links:\n{link}")
}

const CONFIGS: [&str; 2] = [
    "",
    "apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins: [{type: active-request-scorer}, {type: queue-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: active-request-scorer}, {pluginRef: queue-scorer}]}]
",
];

#[test]
fn calls_and_connections_give_one_log() {
    for config in CONFIGS {
        let (direct, _) = run("", config);
        let (wire, end) = run("network: {fidelity: wire}\n", config);
        for (direct, wire) in direct.iter().zip(&wire) {
            assert_eq!(direct, wire);
        }
        assert!(direct.iter().all(|line| line.failure.is_none()));
        assert!(direct.iter().any(|line| line.tokens.1 > 0), "prefixes are found again");
        assert_eq!(run("network: {fidelity: wire}\n", config).1.digest, end.digest);
    }
}

#[test]
fn latency_shows_in_every_answer() {
    let (near, _) = run("network: {fidelity: wire}\n", "");
    let (far, _) = run(&wire("    - {latency: 10ms}\n"), "");
    for (near, far) in near.iter().zip(&far) {
        // Client to router and router to engine, there and back, and perhaps two connections to open.
        let ttft = |line: &Line| line.first_token.expect("a token") - line.arrival;
        assert!(ttft(far) >= Duration::from_millis(40), "{:?} and {:?}", ttft(near), ttft(far));
    }
}

/// Runs with one fault on the link to `to`; returns the requests, each beside what it was without the fault.
fn struck(to: &str, fault: &str) -> Vec<(Line, Line)> {
    let calm = wire("    - {latency: 1ms}\n");
    let struck = format!("{calm}    - {{to: {to}, latency: 1ms, faults: [{fault}]}}\n");
    run(&calm, "").0.into_iter().zip(run(&struck, "").0).collect()
}

/// Returns what clients were told, and when.
fn failures(lines: &[(Line, Line)]) -> Vec<(&str, Duration)> {
    lines.iter().filter_map(|(_, line)| Some((line.failure.as_deref()?, line.end))).collect()
}

/// Returns whether the answer to a request is being sent at `at`, and some of it still by its engine.
fn is_under_way(calm: &Line, at: Duration) -> bool {
    let travel = Duration::from_millis(5);
    calm.first_token.is_some_and(|first| first < at) && calm.end > at + travel
}

/// What a client is told of an answer that breaks off.
const BROKEN_OFF: &str = "connection closed before the message was complete (router:8000)";

#[test]
fn who_is_answered_when_a_connection_breaks_sees_the_answer_break_off() {
    let ms = Duration::from_millis;
    // The client hears of it a latency later, or two where the connection is closed in order.
    let cases = [
        ("engine", "{kind: reset, at: 1s}", BROKEN_OFF, SECOND + ms(1)),
        ("engine", "{kind: drop, at: 1s}", BROKEN_OFF, SECOND + ms(2)),
        ("router", "{kind: reset, at: 1s}", "connection reset by peer (router:8000)", SECOND),
        ("router", "{kind: drop, at: 1s}", BROKEN_OFF, SECOND + ms(1)),
    ];
    for (to, fault, said, at) in cases {
        let lines = struck(to, fault);
        let failures = failures(&lines);
        assert!(failures.len() >= 3, "{to} {fault}: {failures:?}");
        assert_eq!(failures, vec![(said, at); failures.len()], "{to} {fault}");
        for (calm, struck) in &lines {
            let failed = struck.failure.is_some();
            assert!(failed || !is_under_way(calm, SECOND), "{to} {fault}: {calm:?} {struck:?}");
            let concerned = calm.arrival <= SECOND && calm.end >= SECOND;
            assert!(!failed || concerned, "{to} {fault}: {calm:?} {struck:?}");
        }
    }
}

/// Who waits for an answer asks half a minute later whether anybody is there; who sends is told at once.
#[test]
fn forgotten_connections_are_noticed_when_somebody_asks_or_sends() {
    let round_trip = Duration::from_millis(2);
    for (to, sent) in [
        ("router", "connection reset by peer (router:8000)"),
        ("engine", "502: the model server gave no response: connection reset by peer (10.0.0."),
    ] {
        let lines = struck(to, "{kind: half-open, at: 1s}");
        let (mut waited, mut told) = (0, 0);
        for line in lines.iter().map(|(_, struck)| struck).filter(|line| line.failure.is_some()) {
            let why = line.failure.as_deref().unwrap_or_default();
            if line.end < 30 * SECOND {
                told += 1;
                assert!(why.starts_with(sent), "{why}");
                assert!(line.end - line.arrival <= 3 * round_trip, "{line:?}");
            } else {
                waited += 1;
                assert!(why == BROKEN_OFF || why.starts_with(sent), "{why}");
                assert!(line.end >= 31 * SECOND && line.end <= 31 * SECOND + 2 * round_trip, "{line:?}");
            }
        }
        assert!(waited >= 3 && told >= 1, "{to}: {waited} waited, {told} were told");
    }
}

#[test]
fn who_cannot_connect_is_sent_elsewhere_while_there_is_an_elsewhere() {
    assert_eq!(failures(&struck("engine-0", "{kind: refuse, at: 0s}")), []);
    let lines = struck("engine", "{kind: refuse, at: 0s}");
    assert_eq!(failures(&lines).len() as u64, REQUESTS);
    for (why, _) in failures(&lines) {
        let said = "502: the model server gave no response: connection refused (10.0.0.";
        assert!(why.starts_with(said), "{why}");
    }
}

#[test]
fn a_black_hole_delays_and_one_without_end_is_given_up() {
    let lines = struck("engine", "{kind: black-hole, at: 1s, for: 2s}");
    assert_eq!(failures(&lines), []);
    let open = lines.iter().filter(|(calm, _)| is_under_way(calm, SECOND));
    assert!(open.clone().count() >= 3 && open.clone().all(|(_, struck)| struck.end > 3 * SECOND));

    let lines = struck("engine-0", "{kind: black-hole, at: 1s}");
    assert!(!failures(&lines).is_empty());
    for (why, at) in failures(&lines) {
        assert!(why == BROKEN_OFF || why.starts_with("502: the model server gave no response: "), "{why}");
        assert!(at >= 61 * SECOND && at < 65 * SECOND, "{at:?}");
    }
}

#[test]
fn a_slow_reader_slows_its_answers_and_nobody_fails() {
    let lines = struck("router", "{kind: slow-reader, at: 0s, bytes_per_second: 2000}");
    assert_eq!(failures(&lines), []);
    assert!(lines.iter().all(|(calm, struck)| struck.end - struck.arrival > 2 * (calm.end - calm.arrival)));
}

#[test]
fn chance_fails_a_share_of_the_requests_and_always_the_same() {
    let fault = "{kind: reset, probability: 0.2}";
    let lines = struck("router", fault);
    let share = failures(&lines).len();
    assert!((3..30).contains(&share), "{share} of {REQUESTS} at 20 %");
    assert_eq!(lines, struck("router", fault));
}
