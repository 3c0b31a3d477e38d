//! `usage_limits.jsonl`: how full the pool may be for each band.

use serde_json::{Value, json};
use tests::compare::read_float;

use super::given;
use crate::outcome::Outcome;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let case = given.clone();
    let answer = given::run(|handle| async move {
        let plugin_type = case["plugin"].as_str().expect("a policy");
        let instance = match given::build(plugin_type, &case["parameters"], &handle) {
            Ok(instance) => instance,
            Err(error) => return json!({"error": error.to_string()}),
        };
        let policy = instance.roles.usage_limit_policy.expect("a usage-limit policy");
        let call = |call: &Value| {
            let saturation = read_float(&call["saturation"]).expect("a float");
            let priorities: Vec<i64> =
                call["priorities"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
            let mut ceilings = vec![1.0; priorities.len()];
            policy.limit(saturation, &priorities, &mut ceilings);
            let gated = ceilings.iter().position(|ceiling| saturation >= *ceiling);
            let ceilings: Vec<Value> = ceilings.into_iter().map(tests::compare::float).collect();
            json!({"ceilings": ceilings, "first_gated": gated})
        };
        json!({"calls": case["calls"].as_array().into_iter().flatten().map(call).collect::<Vec<_>>()})
    });
    match answer["error"].as_str() {
        Some(error) => given::compare_refusal(then, error),
        None => super::compare(then, &answer),
    }
}
