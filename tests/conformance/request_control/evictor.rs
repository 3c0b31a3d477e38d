//! `evictor.jsonl`: following requests in flight and evicting some of them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::Sim;
use router::flow_control::eviction::{RequestEvictor, Signal};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let answer = Sim::new(1)
        .run(|rt| async move {
            let evictor = RequestEvictor::new(rt.clone());
            let terminated: Rc<RefCell<Vec<String>>> = Rc::default();
            let told = Rc::clone(&terminated);
            evictor.on_terminated(move |id| told.borrow_mut().push(id.to_owned()));
            let mut ids: BTreeMap<String, String> = BTreeMap::new();
            let mut signals: BTreeMap<String, Signal> = BTreeMap::new();
            let mut steps = Vec::new();
            for step in given["steps"].as_array().into_iter().flatten() {
                let text = |name: &str| step[name].as_str().unwrap_or_default().to_owned();
                let mut answer = json!({});
                match text("op").as_str() {
                    "dispatch" => {
                        let (request, id) = (text("request"), text("request_id"));
                        ids.insert(request, id.clone());
                        // The director lets the evictor know of a request that has a target, and of no other.
                        if step["result"].is_null() && step.get("result").is_none() {
                            let priority = step["priority"].as_i64().unwrap_or_default();
                            signals.extend(evictor.dispatched(&id, priority).map(|signal| (id, signal)));
                        }
                    }
                    "chunk" => {}
                    "complete" | "stream_end" => {
                        if let Some(id) = ids.get(&text("request")) {
                            evictor.ended(id);
                        }
                    }
                    "advance" => {
                        rt.sleep(Duration::from_secs_f64(step["ms"].as_f64().unwrap_or_default() / 1e3)).await
                    }
                    "evict" => {
                        let count = step["n"].as_u64().unwrap_or_default() as usize;
                        let evicted =
                            evictor.evict(count, step["priority_bound"].as_i64().unwrap_or_default());
                        answer["evicted"] = evicted.iter().map(|id| json!(**id)).collect();
                    }
                    other => panic!("unknown step {other}"),
                }
                let (in_flight, evictable) = evictor.counts();
                answer["in_flight"] = json!(in_flight);
                answer["evictable"] = json!(evictable);
                answer["next_victim_priority"] = json!(evictor.victim_priority());
                answer["confirmed_terminated"] = json!(terminated.take());
                answer["signals"] = Value::Object(described(&evictor, &ids, &signals));
                steps.push(answer);
            }
            json!({ "steps": steps })
        })
        .unwrap();
    Rules::exact().outcome(&case["then"], &answer)
}

/// Describes the signal of each id that was dispatched, as it is registered.
fn described(
    evictor: &RequestEvictor,
    ids: &BTreeMap<String, String>,
    signals: &BTreeMap<String, Signal>,
) -> Map<String, Value> {
    let state = |id: &String| match evictor.reason(id) {
        None => "not-registered".to_owned(),
        Some(reason) if signals[id].has_fired() => format!("fired:{reason}"),
        Some(_) => "armed".to_owned(),
    };
    ids.values().filter(|id| !id.is_empty()).map(|id| (id.clone(), json!(state(id)))).collect()
}
