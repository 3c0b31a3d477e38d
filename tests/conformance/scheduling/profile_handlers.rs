//! `profile_handlers.jsonl`: handlers and deciders, call by call, and the scheduler over several profiles.

use std::cell::RefCell;
use std::rc::Rc;

use router::candidates::Candidates;
use router::endpoint::Endpoint;
use router::error::PluginError;
use router::plugin::{Handle, Instance};
use router::request::InferenceRequest;
use router::scheduling::{
    PEER_ENDPOINT, ProfileHandler, ProfileResults, ProfileRunResult, Scheduler, SchedulingContext,
    SchedulingResult,
};
use serde_json::{Map, Value, json};
use tests::compare::{any_of, float};

use super::{compare, given, hooks, plugins, profiles, refused};
use crate::outcome::Outcome;

/// Runs of a schedule whose ties may fall either way.
const RUNS: usize = 200;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    hooks::host(1, async |rt| {
        let handle = plugins::handle(&rt);
        let built = plugins::build_all(given.get("other_plugins"), &handle)
            .and_then(|()| plugins::build(&given["plugin"], &handle));
        let Ok(instance) = built else { return compare(then, &refused()) };
        let call = given::text(given, "call");
        if given["request"]["nil"] == Value::Bool(true) {
            return compare(then, &without_request(call));
        }
        match call {
            "create" => compare(
                then,
                &json!({ "reported_type": &*instance.id.plugin_type, "reported_name": &*instance.id.name }),
            ),
            "pick" => compare(then, &pick(given, &handler(&instance))),
            "process" => compare(then, &process(given, &handler(&instance))),
            "pre-request" => compare(then, &pre_request(given, &instance)),
            "schedule" => schedule(given, then, &handler(&instance), &handle),
            other => Outcome::Failed(format!("no adapter for the call {other}")),
        }
    })
}

/// What a caller without a request can get: a handler takes a request, not a pointer that may be null, so it is
/// not called; no profile is next, no decision is made, no header is written.
fn without_request(call: &str) -> Value {
    match call {
        "pick" => json!({ "next": [], "results_after": {} }),
        "process" => json!({ "error": { "kind": "nil-request", "status": 429 } }),
        _ => json!({ "headers": {} }),
    }
}

fn handler(instance: &Instance) -> Rc<dyn ProfileHandler> {
    instance.roles.profile_handler.clone().expect("the plugin is a profile handler")
}

fn pick(given: &Value, handler: &Rc<dyn ProfileHandler>) -> Value {
    let candidates = given::candidates(given.get("endpoints"));
    let mut request = given::request(&given["request"]);
    let mut results = hooks::results(&given["results"], &candidates);
    let profiles = given["profiles"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let profiles: Vec<Rc<str>> = profiles.map(Rc::from).collect();
    let mut next: Vec<String> = handler
        .pick(&mut request, &candidates, &profiles, &mut results)
        .iter()
        .map(ToString::to_string)
        .collect();
    next.sort_unstable();
    let result = |r: &Option<ProfileRunResult>| r.as_ref().map(profiles::targets);
    let after: Map<String, Value> =
        results.iter().map(|(name, r)| (name.to_string(), json!(result(r)))).collect();
    let peer = request.attributes.get::<Rc<Endpoint>>(PEER_ENDPOINT);
    let peer = peer.map(|peer| peer.metadata.id.to_string());
    json!({ "next": next, "results_after": after, "peer_endpoint": peer })
}

fn process(given: &Value, handler: &Rc<dyn ProfileHandler>) -> Value {
    let candidates = given::candidates(given.get("endpoints"));
    let mut request = given::request(&given["request"]);
    let results = hooks::results(&given["results"], &candidates);
    let decision = match handler.process_results(&mut request, results) {
        Ok(decision) => decision,
        Err(error) => return json!({ "error": failure(&error) }),
    };
    let profile = |result: &Option<ProfileRunResult>| {
        let result = result.as_ref()?;
        let target = |t: &router::scheduling::Target| {
            let (metadata, mut keys) = (
                &t.endpoint.metadata,
                t.endpoint.attributes.keys().map(ToString::to_string).collect::<Vec<_>>(),
            );
            keys.sort_unstable();
            json!({
                "name": metadata.id.to_string(),
                "address": metadata.address,
                "port": metadata.port,
                "attribute_keys": keys,
                "score": t.scored.map(|s| float(s.score)),
            })
        };
        let targets: Vec<Value> = result.targets.iter().map(target).collect();
        Some(json!({ "targets": targets, "scored_candidates": result.scored.len() }))
    };
    let profiles: Map<String, Value> =
        decision.profiles.iter().map(|(name, r)| (name.to_string(), json!(profile(r)))).collect();
    json!({ "primary": &*decision.primary, "profiles": profiles, "headers": headers(&request) })
}

fn pre_request(given: &Value, instance: &Instance) -> Value {
    let candidates = given::candidates(given.get("endpoints"));
    let mut request = given::request(&given["request"]);
    // Without a result there is nothing to forward, so no hook runs.
    if given["result_nil"] != Value::Bool(true) {
        let profiles = hooks::results(&given["results"], &candidates);
        let result = SchedulingResult { profiles, primary: "decode".into() };
        run_pre_request(instance, &mut request, &result, &candidates);
    }
    json!({ "headers": headers(&request) })
}

fn run_pre_request(
    instance: &Instance,
    request: &mut InferenceRequest,
    result: &SchedulingResult,
    candidates: &Candidates,
) {
    if let Some(hook) = &instance.roles.pre_request {
        hook.pre_request(request, result, candidates).expect("these hooks never fail");
    }
}

fn schedule(given: &Value, then: &Value, handler: &Rc<dyn ProfileHandler>, handle: &Handle) -> Outcome {
    let definitions = given["profile_definitions"].as_object().into_iter().flatten();
    let mut profiles = Vec::new();
    for (name, references) in definitions {
        match profiles::build(name, references, handle) {
            Ok(profile) => profiles.push(profile),
            Err(error) => return Outcome::Failed(error.to_string()),
        }
    }
    let recorder = Rc::new(Recorder { handler: Rc::clone(handler), runs: RefCell::default() });
    let scheduler = Scheduler::new(Rc::clone(&recorder) as Rc<dyn ProfileHandler>, profiles);
    let runs = if any_of(then).is_some() { RUNS } else { 1 };
    for _ in 0..runs {
        let outcome = compare(then, &schedule_once(given, &scheduler, &recorder, handle));
        if outcome != Outcome::Passed {
            return outcome;
        }
    }
    Outcome::Passed
}

fn schedule_once(given: &Value, scheduler: &Scheduler, recorder: &Recorder, handle: &Handle) -> Value {
    let candidates = given::candidates(given.get("endpoints"));
    let mut request = given::request(&given["request"]);
    let decision = scheduler.schedule(&mut request, &candidates, given::now(), None);
    let runs = json!(recorder.runs.take());
    let decision = match decision {
        Ok(decision) => decision,
        Err(error) => return json!({ "error": failure(&error), "runs": runs }),
    };
    for instance in handle.instances() {
        run_pre_request(&instance, &mut request, &decision, &candidates);
    }
    let cx = SchedulingContext { request: &request, candidates: &candidates, now: given::now() };
    let profile = |result: &Option<ProfileRunResult>| {
        let result = result.as_ref()?;
        let mut answer = profiles::answer(result, &cx);
        answer["addresses"] = json!(profiles::addresses(result));
        Some(answer)
    };
    let profiles: Map<String, Value> =
        decision.profiles.iter().map(|(name, r)| (name.to_string(), json!(profile(r)))).collect();
    json!({
        "runs": runs,
        "primary": &*decision.primary,
        "profiles": profiles,
        "headers": headers(&request),
    })
}

/// Notes which profiles a handler runs.
struct Recorder {
    handler: Rc<dyn ProfileHandler>,
    runs: RefCell<Vec<String>>,
}

impl ProfileHandler for Recorder {
    fn pick(
        &self,
        request: &mut InferenceRequest,
        candidates: &Candidates,
        profiles: &[Rc<str>],
        results: &mut ProfileResults,
    ) -> Vec<Rc<str>> {
        let next = self.handler.pick(request, candidates, profiles, results);
        self.runs.borrow_mut().extend(next.iter().map(ToString::to_string));
        next
    }

    fn process_results(
        &self,
        request: &mut InferenceRequest,
        results: ProfileResults,
    ) -> Result<SchedulingResult, PluginError> {
        self.handler.process_results(request, results)
    }
}

fn headers(request: &InferenceRequest) -> Value {
    request.headers.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>().into()
}

/// Returns the kind of a failure by its message, and the status that the director gives it.
pub(super) fn failure(error: &PluginError) -> Value {
    let message = error.to_string();
    let kinds = [
        ("failed to run any scheduler profile", "no-profile-run"),
        ("failed to run scheduler profile '", "profile-failed"),
        ("failed to find available decode workers", "no-decode-worker"),
        ("is intended to run a single profile", "not-one-result"),
        ("no scheduling profile configured for", "no-profile-for-header"),
        ("missing \"", "no-profile-for-header"),
    ];
    let kind = kinds.iter().find(|(text, _)| message.contains(text)).map(|(_, kind)| *kind);
    let status = match error.inference() {
        Some(error) => error.code.http_status(),
        None => Some(429),
    };
    json!({ "kind": kind.unwrap_or(&message), "status": status })
}
