use std::path::Path;

use super::*;
use crate::scenario::Scenario;

const MS: Duration = Duration::from_millis(1);

fn scenario(network: &str) -> String {
    format!(
        "workload: {{trace: t.jsonl}}\ncluster:\n  - {{name: a, count: 2, model: qwen3-14b}}\n  - {{name: b, count: 1, model: qwen3-14b}}\nnetwork:\n{network}"
    )
}

fn plan(network: &str) -> NetworkPlan {
    let scenario = Scenario::parse("s.yaml", &scenario(network), Path::new(""));
    let scenario = scenario.unwrap_or_else(|problems| panic!("{problems}"));
    scenario.plan().unwrap_or_else(|errors| panic!("{errors:?}")).network
}

fn wrong(network: &str) -> String {
    match Scenario::parse("s.yaml", &scenario(network), Path::new("")) {
        Err(problems) => problems.to_string(),
        Ok(scenario) => {
            let errors = scenario.plan().expect_err("something is wrong");
            errors.iter().map(|error| format!("{error}\n")).collect()
        }
    }
}

#[test]
fn without_the_key_requests_are_calls() {
    let text = "workload: {trace: t.jsonl}\ncluster: [{count: 1, model: qwen3-14b}]\n";
    let scenario = Scenario::parse("s.yaml", text, Path::new("")).unwrap();
    assert_eq!(scenario.plan().unwrap().network, NetworkPlan::Direct);
    assert_eq!(plan("  fidelity: direct\n"), NetworkPlan::Direct);
}

#[test]
fn links_lead_to_the_router_a_group_or_an_engine_and_the_nearest_name_counts() {
    let network = plan(
        "  fidelity: wire
  connect_timeout: 1s
  links:
    - {latency: 1ms}
    - {to: router, latency: 2ms, jitter: 500us, bytes_per_second: 1000}
    - {to: a, latency: 3ms}
    - {to: a-1, latency: 4ms}
",
    );
    let latency = |ms| Link { latency: ms * MS, ..Link::default() };
    let router = Link { jitter: MS / 2, bandwidth: Some(1000), ..latency(2) };
    let engines = BTreeMap::from([(0, latency(3)), (1, latency(4))]);
    let connect_timeout = Duration::from_secs(1);
    assert_eq!(network, NetworkPlan::Wire { connect_timeout, router, engines, other: latency(1) });
}

#[test]
fn every_kind_of_fault_comes_at_an_instant_or_by_chance() {
    let NetworkPlan::Wire { router, .. } = plan(
        "  fidelity: wire
  links:
    - to: router
      faults:
        - {kind: refuse, at: 1s, for: 2s}
        - {kind: black-hole, at: 1s}
        - {kind: drop, at: 0s}
        - {kind: reset, probability: 0.5}
        - {kind: half-open, probability: 1, within: 1ms}
        - {kind: slow-reader, at: 1s, for: 1ms, bytes_per_second: 10}
",
    ) else {
        panic!("wire")
    };
    let at = |secs, length| When::At { start: Duration::from_secs(secs), length };
    let chance = |probability, within| When::Exchange { probability, within };
    let expected = [
        (FaultKind::Refuse, at(1, Some(2000 * MS))),
        (FaultKind::BlackHole, at(1, None)),
        (FaultKind::Drop, at(0, None)),
        (FaultKind::Reset, chance(0.5, Duration::ZERO)),
        (FaultKind::HalfOpen, chance(1.0, MS)),
        (FaultKind::SlowReader { rate: 10 }, at(1, Some(MS))),
    ];
    assert_eq!(router.faults, expected.map(|(kind, when)| Fault { kind, when }));
}

#[test]
fn what_is_wrong_is_said_at_its_place() {
    let fault = |fault: &str| format!("  fidelity: wire\n  links:\n    - faults:\n        - {{{fault}}}\n");
    let cases = [
        ("  links: []\n".to_owned(), "network.fidelity: missing field \"fidelity\""),
        (
            "  fidelity: wird\n".to_owned(),
            "s.yaml:6:13: network.fidelity: unknown fidelity \"wird\"; did you mean \"wire\"?; accepted: direct, wire",
        ),
        (
            "  fidelity: direct\n  links: [{latency: 1ms}]\n".to_owned(),
            "network.links: there are no connections under `fidelity: direct`",
        ),
        (
            "  fidelity: wire\n  links: [{latency: 5}]\n".to_owned(),
            "network.links[0].latency: expected a text",
        ),
        (
            "  fidelity: wire\n  links: [{lag: 5ms}]\n".to_owned(),
            "network.links[0].lag: unknown field \"lag\"",
        ),
        (
            "  fidelity: wire\n  links: [{to: c}]\n".to_owned(),
            "nothing is called \"c\"; accepted: router, a or a-0 to a-1, b or b-0 to b-0",
        ),
        ("  fidelity: wire\n  links: [{to: a-2}]\n".to_owned(), "nothing is called \"a-2\""),
        ("  fidelity: wire\n  links: [{to: a}, {to: a}]\n".to_owned(), "two links lead to \"a\""),
        ("  fidelity: wire\n  links: [{}, {}]\n".to_owned(), "two links lead to everything else"),
        (fault("kind: rest, at: 1s"), "unknown kind of fault \"rest\"; did you mean \"reset\"?"),
        (fault("kind: reset"), "either `at`, an instant of the run, or `probability`"),
        (
            fault("kind: reset, at: 1s, probability: 1"),
            "either `at`, an instant of the run, or `probability`",
        ),
        (fault("kind: reset, at: 1s, for: 1s"), "a reset happens at once"),
        (fault("kind: reset, at: 1s, within: 1s"), "`within` is accepted beside `probability` only"),
        (fault("kind: refuse, probability: 1, for: 1s"), "`for` is accepted beside `at` only"),
        (fault("kind: reset, probability: 1.5"), "1.5 is out of range; accepted: from 0 to 1"),
        (fault("kind: slow-reader, at: 1s"), "missing field \"bytes_per_second\""),
        (fault("kind: drop, at: 1s, bytes_per_second: 5"), "a drop has no rate"),
    ];
    for (network, expected) in cases {
        let said = wrong(&network);
        assert!(said.contains(expected) && said.contains("s.yaml:"), "{network}\n{said}\n{expected}");
    }
}
