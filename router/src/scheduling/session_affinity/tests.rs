use std::time::Duration;

use executor::Sim;
use serde_json::{Value, json};

use super::*;
use crate::attributes::Attributes;
use crate::endpoint::Endpoint;
use crate::plugin::{Instance, run_periodic};
use crate::scheduling::testing::{
    assert_kept, assert_refused, assert_scored, build, build_in, candidates, decision, kept, labelled,
    request_with,
};

/// Both types whose settings, state and hooks are those of scheduling spec 8.1, and the filter's other name.
const TYPES: [&str; 3] =
    ["session-affinity-filter", "multicluster-session-affinity-filter", "session-affinity-scorer"];

/// base64 of `/pod-b`.
const POD_B: &str = "L3BvZC1i";

fn pods() -> Candidates {
    candidates(["pod-a", "pod-b"].map(|name| labelled(name, &[])))
}

/// Scheduling spec 4.4 and 5.7, the lists under T: tokens.
#[test]
fn a_token_leads_back_to_its_endpoint() {
    let custom = json!({ "encodedEndpointHeaderConfig": { "header": " X-Custom-Session " } });
    let blank = json!({ "encodedEndpointHeaderConfig": { "header": "  " } });
    for (parameters, headers, pinned) in [
        (json!(null), &[("x-session-token", POD_B)][..], true),
        (blank, &[("x-session-token", POD_B)], true),
        (custom.clone(), &[("x-custom-session", POD_B)], true),
        (custom, &[("x-session-token", POD_B)], false),
        (json!({}), &[], false),
        (json!({}), &[("x-session-token", "garbage-token")], false),
        (json!({}), &[("x-session-token", "L3BvZC1j")], false), // /pod-c, which is gone
    ] {
        let (request, kept, score) = (
            request_with(headers),
            if pinned { &["pod-b"][..] } else { &["pod-a", "pod-b"] },
            if pinned { 1.0 } else { 0.0 },
        );
        for filter in &TYPES[..2] {
            assert_kept((filter, parameters.clone()), &request, &pods(), kept);
            assert_eq!(&*build(filter, parameters.clone()).unwrap().id.plugin_type, *filter);
        }
        assert_scored((TYPES[2], parameters.clone()), &request, &pods(), &[Some(0.0), Some(score)]);
        assert_scored((TYPES[2], parameters), &request, &candidates([]), &[]);
    }
}

/// Of several candidates with one ID the filter keeps the first; the scorer prefers them all.
#[test]
fn a_token_names_every_candidate_of_its_id() {
    let twice = candidates(["pod-b", "pod-a", "pod-b"].map(|name| labelled(name, &[])));
    let request = request_with(&[("x-session-token", POD_B)]);
    assert_kept((TYPES[0], json!({})), &request, &twice, &["pod-b"]);
    assert_scored((TYPES[2], json!({})), &request, &twice, &[1.0, 0.0, 1.0].map(Some));
}

/// Scheduling spec 8.1, the list under T of the token strategy: what is written on every response.
#[test]
fn a_response_carries_the_token_of_the_endpoint_that_served_it() {
    let metadata =
        |name: &str| Rc::new(EndpointMetadata { id: EndpointId::new("default", name), ..Default::default() });
    let pod = |name: &str| Endpoint {
        metadata: metadata(name),
        attributes: Attributes::default(),
        ..Default::default()
    };
    let all = candidates([pod("pod1"), pod("prefill-pod")]);
    let of_prefill = || json!({ "profileName": "prefill" });
    let both = Some(decision(&all, &[("decode", &[0]), ("prefill", &[1])]));
    let header = |parameters: Value, result: &Option<SchedulingResult>, target: Option<&str>| {
        let plugin = build(TYPES[0], parameters).unwrap();
        let request =
            InferenceRequest { scheduling_result: result.clone().map(Rc::new), ..Default::default() };
        let mut response = ResponseRecord::default();
        let hook = plugin.roles.response_header.expect("it writes headers");
        hook.response_header(Some(&request), &mut response, target.map(metadata).as_ref());
        let mut headers = response.headers.iter().map(|(name, value)| format!("{name}: {value}"));
        let first = headers.next();
        assert_eq!(headers.next(), None);
        first
    };
    let custom = json!({ "encodedEndpointHeaderConfig": { "header": "x-mine" } });
    let (pod1, prefill) = ("ZGVmYXVsdC9wb2Qx", "ZGVmYXVsdC9wcmVmaWxsLXBvZA==");
    assert_eq!(header(json!({}), &both, Some("pod1")), Some(format!("x-session-token: {pod1}")));
    assert_eq!(header(custom, &both, Some("pod1")), Some(format!("x-mine: {pod1}")));
    assert_eq!(header(json!({}), &both, None), None);
    assert_eq!(header(of_prefill(), &both, Some("pod1")), Some(format!("x-session-token: {prefill}")));
    for without in
        [None, Some(decision(&all, &[("decode", &[0])])), Some(decision(&all, &[("prefill", &[])]))]
    {
        assert_eq!(header(of_prefill(), &without, Some("pod1")), None);
    }
    assert_eq!(header(json!({ "strategy": "session_id" }), &both, Some("pod1")), None);
}

/// Scheduling spec 8.1, the table and what is tested of configurations.
#[test]
fn settings_are_checked_for_the_chosen_strategy_only() {
    let sessions = |config: Value| json!({ "strategy": "session_id", "sessionIdConfig": config });
    for plugin_type in TYPES {
        assert_refused(
            plugin_type,
            &[
                (json!({ "strategy": "" }), "strategy"),
                (json!({ "strategy": "cookie" }), "strategy"),
                (sessions(json!({ "sources": [{}] })), "exactly one"),
                (sessions(json!({ "sources": [{ "header": "a", "attribute": "b" }] })), "exactly one"),
                (sessions(json!({ "evictionTtlSeconds": -1 })), "evictionTtlSeconds"),
                (sessions(json!({ "evictionSweepSeconds": -0.5 })), "evictionSweepSeconds"),
            ],
        );
        for accepted in [
            sessions(json!({ "sources": [], "evictionTtlSeconds": 0, "evictionSweepSeconds": 0 })),
            json!({ "sessionIdConfig": { "evictionTtlSeconds": -1 } }),
        ] {
            assert!(build(plugin_type, accepted.clone()).is_ok(), "{plugin_type} {accepted}");
        }
    }
}

/// A filter of the strategy `session_id` and the requests that it sees.
struct Desk {
    filter: Instance,
    requests: u32,
}

impl Desk {
    fn new(config: Value, profile: &str) -> Self {
        let parameters =
            json!({ "strategy": "session_id", "profileName": profile, "sessionIdConfig": config });
        Desk { filter: build(TYPES[0], parameters).unwrap(), requests: 0 }
    }

    fn request(&mut self, session: &str) -> InferenceRequest {
        self.requests += 1;
        let request_id = format!("r{}", self.requests);
        InferenceRequest { request_id, ..request_with(&[("x-session-id", session)]) }
    }

    /// Filters `all` for a new request of the session, and says that it went to candidate `to`.
    fn serve(&mut self, session: &str, all: &Candidates, to: u32) -> Vec<String> {
        let mut request = self.request(session);
        let kept = kept(&self.filter, &request, all);
        self.went(&mut request, all, &[("default", &[to])]);
        kept
    }

    fn went(&self, request: &mut InferenceRequest, all: &Candidates, profiles: &[(&str, &[u32])]) {
        let hook = self.filter.roles.pre_request.as_ref().expect("it is told of decisions");
        hook.pre_request(request, &decision(all, profiles), all).expect("nothing fails");
    }

    fn kept(&mut self, session: &str, all: &Candidates) -> Vec<String> {
        let request = self.request(session);
        kept(&self.filter, &request, all)
    }
}

/// Scheduling spec 8.1, the list under T of the strategy `session_id`.
#[test]
fn a_session_stays_where_it_first_went_until_that_is_gone() {
    let (mut desk, both) = (Desk::new(json!({}), ""), pods());
    let only_a = candidates([labelled("pod-a", &[])]);
    assert_eq!(desk.serve("s", &both, 1), ["pod-a", "pod-b"], "unbound");
    assert_eq!(desk.kept("s", &both), ["pod-b"]);
    assert_eq!(desk.kept("t", &both), ["pod-a", "pod-b"], "another session");
    assert_eq!(desk.kept("  ", &both), ["pod-a", "pod-b"], "blank is none");
    assert!(desk.kept("s", &candidates([])).is_empty());

    assert_eq!(desk.serve("s", &both, 0), ["pod-b"], "outvoted");
    assert_eq!(desk.kept("s", &both), ["pod-b"], "the pin holds");
    assert_eq!(desk.serve("s", &only_a, 0), ["pod-a"], "the bound one is gone");
    assert_eq!(desk.kept("s", &both), ["pod-a"], "it moved");
}

/// Scheduling spec 8.1: two first requests race, and a request that was never scored moves nothing.
#[test]
fn the_first_bind_stands() {
    let (mut desk, both) = (Desk::new(json!({}), ""), pods());
    let (mut one, mut other) = (desk.request("s"), desk.request("s"));
    for request in [&one, &other] {
        assert_eq!(kept(&desk.filter, request, &both).len(), 2);
    }
    desk.went(&mut one, &both, &[("default", &[1])]);
    desk.went(&mut other, &both, &[("default", &[0])]);
    assert_eq!(desk.kept("s", &both), ["pod-b"]);
    let mut unseen = desk.request("s");
    desk.went(&mut unseen, &both, &[("default", &[0])]);
    assert_eq!(desk.kept("s", &both), ["pod-b"]);
}

/// Scheduling spec 8.1: `profileName`.
#[test]
fn a_session_may_follow_another_profile() {
    let (mut desk, both) = (Desk::new(json!({}), "prefill"), pods());
    let mut request = desk.request("s");
    desk.went(&mut request, &both, &[("decode", &[0])]);
    assert_eq!(desk.kept("s", &both).len(), 2);
    desk.went(&mut request, &both, &[("decode", &[0]), ("prefill", &[1])]);
    assert_eq!(desk.kept("s", &both), ["pod-b"]);
}

/// Scheduling spec 8.1: the sources of an id, in order.
#[test]
fn the_first_source_that_says_something_names_the_session() {
    let sources = json!({ "sources": [{ "header": " X-Chat " }, { "attribute": "agent-identity" }] });
    let both = pods();
    let request = |header: &str, attribute: Option<Rc<str>>| {
        let mut request = request_with(&[("x-chat", header)]);
        if let Some(attribute) = attribute {
            request.attributes.put("agent-identity", attribute);
        }
        request
    };
    let desk = Desk::new(sources, "");
    let mut first = request("", Some(" agent ".into()));
    desk.went(&mut first, &both, &[("default", &[1])]);
    for (header, attribute, bound) in [
        ("agent", None, true),
        ("  ", Some("agent"), true),
        ("other", Some("agent"), false),
        ("agent", Some("other"), true),
        ("", None, false),
    ] {
        let kept = kept(&desk.filter, &request(header, attribute.map(Into::into)), &both);
        assert_eq!(kept.len(), if bound { 1 } else { 2 }, "{header:?} {attribute:?}");
    }
    let mut number = request_with(&[]);
    number.attributes.put("agent-identity", 7_i64);
    desk.went(&mut number, &both, &[("default", &[1])]);
    assert_eq!(kept(&desk.filter, &number, &both).len(), 2, "a number is no id");
}

/// Scheduling spec 8.1: sweeps, which the assembly's daemons drive. A session goes at the first sweep after it was
/// not seen for longer than its time to live; one that is outvoted is not seen.
#[test]
fn sessions_that_are_not_seen_are_forgotten_at_a_sweep() {
    let run = Sim::builder().seed(7).build().run(async |rt| {
        let config = json!({ "evictionTtlSeconds": 25, "evictionSweepSeconds": 10 });
        let parameters = json!({ "strategy": "session_id", "sessionIdConfig": config });
        let filter = build_in(&Handle::new(rt.clone()), TYPES[0], parameters).unwrap();
        run_periodic(&rt, std::slice::from_ref(&filter));
        let (mut desk, both) = (Desk { filter, requests: 0 }, pods());
        let seconds = |n| rt.sleep(Duration::from_secs(n));
        for session in ["used", "outvoted", "left"] {
            desk.serve(session, &both, 1);
        }
        seconds(15).await; // 15 s
        desk.serve("used", &both, 1);
        desk.serve("outvoted", &both, 0);
        seconds(14).await; // 29 s: older than 25 s, and no sweep since 20 s
        let before = ["used", "outvoted", "left"].map(|session| desk.kept(session, &both).len());
        seconds(2).await; // 31 s
        let after = ["used", "outvoted", "left"].map(|session| desk.kept(session, &both).len());
        (before, after)
    });
    assert_eq!(run.output, Some(([1, 1, 1], [1, 2, 2])));
}
