//! `flow_control/`: policies, detectors, queues and the whole controller.

mod admission;
pub(crate) mod candidates;
mod config;
mod director;
mod eviction;
mod eviction_stream;
mod fairness;
mod given;
mod ordering;
mod processor;
mod queue;
mod saturation;
mod usage_limits;

use serde_json::Value;
use tests::compare::Rules;

use crate::outcome::Outcome;

/// Float tolerance of the README of these vectors.
const TOLERANCE: f64 = 1e-9;

/// Runs one case of a file of this folder.
pub(crate) fn run(file: &str, case: &Value) -> Outcome {
    let (given, then) = (&case["given"], &case["then"]);
    match file {
        "flow_control/admission" => admission::run(given, then),
        "flow_control/candidates" => candidates::run(given, then),
        "flow_control/eviction" => eviction::run(given, then),
        "flow_control/eviction_stream" => eviction_stream::run(given, then),
        "flow_control/processor" => processor::run(given, then),
        "flow_control/config" => config::run(given, then),
        "flow_control/fairness" => fairness::run(given, then),
        "flow_control/ordering" => ordering::run(given, then),
        "flow_control/queue" => queue::run(given, then),
        "flow_control/saturation" => saturation::run(given, then),
        "flow_control/usage_limits" => usage_limits::run(given, then),
        _ => Outcome::Failed(format!("no adapter for {file}")),
    }
}

/// Compares by the README: an absent member is null or empty, floats differ by rounding.
fn compare(then: &Value, answer: &Value) -> Outcome {
    Rules::within(TOLERANCE).outcome(&without_empty(then), &without_empty(answer))
}

/// Returns `value` without members that are null or empty.
fn without_empty(value: &Value) -> Value {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name.clone(), without_empty(value)));
            Value::Object(members.filter(|(_, value)| !empty(value)).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_empty).collect()),
        value => value.clone(),
    }
}
