//! `profiles.jsonl`: one whole profile.

use std::rc::Rc;

use router::error::InferenceError;
use router::plugin::Handle;
use router::scheduling::{Picker, Profile, ProfileRunResult, SchedulingContext, TwoPickers};
use serde_json::{Map, Value, json};
use tests::compare::{any_of, float};

use super::{compare, given, hooks, plugins, refused};
use crate::outcome::Outcome;

/// Runs in which every picked list must be one of the listed ones.
const RUNS: usize = 200;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    hooks::host(1, async |rt| {
        let handle = plugins::handle(&rt);
        if plugins::build_all(given.get("plugins"), &handle).is_err() {
            return compare(then, &refused());
        }
        let Ok(profile) = build("profile", &given["profile"], &handle) else {
            return compare(then, &json!({ "error": { "kind": "two-pickers" } }));
        };
        let (request, candidates) =
            (given::request(&given["request"]), given::candidates(given.get("candidates")));
        let cx = SchedulingContext { request: &request, candidates: &candidates, now: given::now() };
        let listed = any_of(&then["targets"]).unwrap_or_default();
        for _ in 0..RUNS {
            let result = match profile.run(&cx, None) {
                Ok(result) => result,
                Err(error) => return compare(then, &no_endpoints(&error)),
            };
            let answer = json!({ "scored": scored(&result, &cx) });
            let outcome = compare(&json!({ "scored": then["scored"] }), &answer);
            let targets = json!(targets(&result));
            let complete = result.scored.iter().all(|s| !s.score.is_nan());
            if outcome == Outcome::Passed && complete && !listed.contains(&targets) {
                return Outcome::Failed(format!("targets {targets} are none of the listed ones"));
            }
            if outcome != Outcome::Passed {
                return outcome;
            }
        }
        Outcome::Passed
    })
}

/// Builds a profile from its references; the default picker picks where none is referenced.
pub(super) fn build(name: &str, references: &Value, handle: &Handle) -> Result<Profile, TwoPickers> {
    let mut builder = Profile::builder(name);
    for reference in references.as_array().into_iter().flatten() {
        let plugin = given::text(reference, "plugin_ref");
        let instance = handle.instance(plugin).expect("a profile references plugins of its case");
        builder.add(&instance, reference.get("weight").and_then(Value::as_f64))?;
    }
    Ok(builder.build(|| default_picker(handle)))
}

fn default_picker(handle: &Handle) -> Rc<dyn Picker> {
    let picker = json!({ "type": "max-score-picker", "name": "default picker" });
    let instance = plugins::build(&picker, handle).expect("the default picker has defaults");
    instance.roles.picker.expect("it is a picker")
}

fn no_endpoints(error: &InferenceError) -> Value {
    let (status, code) = (error.code.http_status(), error.code.to_string());
    json!({ "error": { "kind": "no-endpoints", "status": status, "status_code": code } })
}

/// Returns ID to total of all that was scored.
pub(super) fn scored(result: &ProfileRunResult, cx: &SchedulingContext<'_>) -> Map<String, Value> {
    let entry = |s: &router::scheduling::Scored| {
        (cx.candidates.endpoint(s.candidate).metadata.id.to_string(), float(s.score))
    };
    result.scored.iter().map(entry).collect()
}

/// Returns the IDs of the targets in order.
pub(super) fn targets(result: &ProfileRunResult) -> Vec<String> {
    result.targets.iter().map(|t| t.endpoint.metadata.id.to_string()).collect()
}

/// Returns "address port" of the targets in order.
pub(super) fn addresses(result: &ProfileRunResult) -> Vec<String> {
    let metadata = result.targets.iter().map(|t| &t.endpoint.metadata);
    metadata.map(|m| format!("{} {}", m.address, m.port)).collect()
}

/// Returns the targets, and the scores where the profile handler kept them.
pub(super) fn answer(result: &ProfileRunResult, cx: &SchedulingContext<'_>) -> Value {
    let mut answer = json!({ "targets": targets(result) });
    if !result.scored.is_empty() {
        answer["scored"] = json!(scored(result, cx));
    }
    answer
}
