//! `scheduling/`: scorers, filters, pickers, profiles and profile handlers, built through their factories;
//! whole configurations, loaded as at start-up.

pub(crate) mod given;
mod helpers;
mod hooks;
mod pickers;
pub(crate) mod plugins;
mod profile_handlers;
mod profiles;
mod samples;
mod scheduler;
mod scoring;

use serde_json::{Value, json};
use tests::compare::{REWRITE_TOLERANCE, Rules};

use self::scoring::Ask;
use crate::outcome::Outcome;

/// Runs one case of a file of this folder.
pub(crate) fn run(file: &str, case: &Value) -> Outcome {
    if let Some(plugin_type) = plugins::not_built(&case["given"]) {
        return Outcome::NotBuilt(format!("plugin type {plugin_type}"));
    }
    let (given, then) = (&case["given"], &case["then"]);
    match file {
        "scheduling/scorers" => scoring::run(Ask::Score, given, then),
        "scheduling/filters" => scoring::run(Ask::Filter, given, then),
        "scheduling/pickers" => pickers::run(given, then),
        "scheduling/profiles" => profiles::run(given, then),
        "scheduling/profile_handlers" => profile_handlers::run(given, then),
        "scheduling/scheduler" => scheduler::run(given, then),
        "scheduling/helpers" => helpers::run(group(case), given, then),
        _ => Outcome::Failed(format!("no adapter for {file}")),
    }
}

/// The group in an id `helpers-<group>-<number>`, which says what the case asks.
fn group(case: &Value) -> &str {
    let id = case["id"].as_str().unwrap_or_default();
    let rest = id.strip_prefix("helpers-").unwrap_or(id);
    rest.rsplit_once('-').map_or(rest, |(group, _)| group)
}

/// Compares a deterministic answer.
fn compare(then: &Value, answer: &Value) -> Outcome {
    Rules::within(REWRITE_TOLERANCE).outcome(then, answer)
}

/// The answer of a factory that refuses.
fn refused() -> Value {
    json!({ "error": { "kind": "bad-parameter" } })
}
