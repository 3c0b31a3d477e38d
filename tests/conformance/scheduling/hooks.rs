//! What the adapters of this folder do with a plugin beside scoring.

use std::rc::Rc;

use executor::{Real, Rt};
use router::candidates::Candidates;
use router::scheduling::{ProfileResults, ProfileRunResult, SchedulingResult, Scored, Target};
use serde_json::Value;

/// Runs `body` on a runtime with a seed.
pub(super) fn host<T>(seed: u64, body: impl AsyncFnOnce(Rt) -> T) -> T {
    let runtime = Real::builder().current_thread().seed(seed).build().expect("the runtime starts");
    runtime.run(async |rt| body(rt).await)
}

/// Returns results whose targets are the endpoints named; they carry the scores 1, 1.25, 1.5 … in order.
pub(super) fn results(value: &Value, candidates: &Candidates) -> ProfileResults {
    let profiles = value.as_object().into_iter().flatten();
    let result = |names: &Value| {
        let names = names.as_array()?.iter().filter_map(Value::as_str);
        let scored: Vec<Scored> = names
            .enumerate()
            .filter_map(|(at, name)| {
                let candidate = find(candidates, name)?;
                Some(Scored { candidate, score: 1.0 + 0.25 * at as f64 })
            })
            .collect();
        let target = |scored: &Scored| Target {
            endpoint: Rc::clone(candidates.endpoint(scored.candidate)),
            scored: Some(*scored),
        };
        Some(ProfileRunResult { targets: scored.iter().map(target).collect(), scored })
    };
    profiles.map(|(name, names)| (Rc::from(name.as_str()), result(names))).collect()
}

/// Returns a scheduling result as scripts describe it.
pub(super) fn scheduling_result(value: &Value, candidates: &Candidates) -> SchedulingResult {
    let primary = value["primary"].as_str().unwrap_or_default().into();
    SchedulingResult { profiles: results(&value["profiles"], candidates), primary }
}

/// Returns the first candidate of that ID.
fn find(candidates: &Candidates, name: &str) -> Option<router::candidates::Candidate> {
    let id = if name.contains('/') { name.to_owned() } else { format!("/{name}") };
    candidates.all().find(|&c| candidates.endpoint(c).metadata.id.to_string() == id)
}
