//! `ordering.jsonl`: which of two items goes first.

use router::flow_control::ordering::OrderKey;
use serde_json::{Value, json};

use super::given::{self, Item};
use crate::outcome::Outcome;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let case = given.clone();
    let answer = given::run(|handle| async move {
        let plugin_type = case["ordering_policy"].as_str().expect("a policy");
        let instance =
            given::build(plugin_type, &case["parameters"], &handle).expect("no parameter is refused");
        let policy = instance.roles.ordering_policy.expect("an ordering policy");
        let items = case["items"].as_array().expect("a list of items").clone();
        // An absent item goes last, and no absent item before another.
        let key = |item: &Value| (!item.is_null()).then(|| policy.key(&Item::read(item, None).arrival()));
        let keys: Vec<Option<OrderKey>> = items.iter().map(key).collect();
        let less = |a: &Option<OrderKey>, b: &Option<OrderKey>| match (a, b) {
            (Some(a), Some(b)) => a < b,
            (a, b) => a.is_some() && b.is_none(),
        };
        let row = |a| keys.iter().map(|b| i32::from(less(a, b))).collect::<Vec<_>>();
        json!({"less": keys.iter().map(row).collect::<Vec<_>>()})
    });
    // No clock here shows a time before 1970: what the case says of such an item is not asked.
    let told: Vec<bool> = given["items"].as_array().into_iter().flatten().map(is_told).collect();
    super::compare(&only(then, &told), &only(&answer, &told))
}

fn is_told(item: &Value) -> bool {
    ["enqueue_ms", "received_ms"].iter().all(|name| item[*name].as_i64().unwrap_or(0) >= 0)
}

/// Returns rows and columns of the items that are told.
fn only(answer: &Value, told: &[bool]) -> Value {
    let pick = |list: &Value| -> Vec<Value> {
        let list = list.as_array().into_iter().flatten().zip(told);
        list.filter(|(_, told)| **told).map(|(value, _)| value.clone()).collect()
    };
    json!({"less": pick(&answer["less"]).iter().map(pick).collect::<Vec<_>>()})
}
