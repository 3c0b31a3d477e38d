//! `lifecycle.jsonl`, subject `plugin-state`: what a plugin remembers of a request, and when it forgets.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use executor::Instant;
use router::producers::PluginState;
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use crate::outcome::Outcome;

const JANITOR_MS: u64 = 60_000;

/// A value with the name under which its undoing is recorded; `None` = nothing to undo.
struct Noted {
    text: String,
    undo: Option<String>,
}

pub(super) fn run(case: &Value) -> Outcome {
    let mut state: PluginState<Noted> = PluginState::default();
    let mut streams: BTreeMap<String, Rc<()>> = BTreeMap::new();
    let mut requests: BTreeSet<String> = BTreeSet::new();
    let mut now_ms = 0;
    let mut answers = Vec::new();
    for step in case["given"]["steps"].as_array().into_iter().flatten() {
        let text = |name: &str| step[name].as_str().unwrap_or_default();
        let (request, key) = (text("request"), text("key"));
        let now = at(now_ms);
        requests.insert(request.to_owned());
        let mut evicted: Vec<Noted> = Vec::new();
        let mut answer = json!({});
        match text("op") {
            "write" => {
                let value = step["value"].as_str().map_or_else(|| step["value"].to_string(), str::to_owned);
                let undo = (step["plain"] != true).then(|| format!("{request}/{key}={value}"));
                state.write(request, key, Noted { text: value, undo }, now);
            }
            "read" => answer["value"] = json!(state.read(request, key, now).map(|noted| &noted.text)),
            "touch" => state.touch(request, now),
            "delete" => evicted.extend(state.delete(request)),
            "delete_key" => evicted.extend(state.delete_key(request, key)),
            "bind" => state.bind(request, streams.entry(text("stream").to_owned()).or_default()),
            "stream_end" => {
                streams.remove(text("stream"));
            }
            "advance" => {
                let end = now_ms + step["ms"].as_f64().unwrap_or(0.0) as u64;
                let ticks = now_ms / JANITOR_MS + 1..=end / JANITOR_MS;
                evicted.extend(ticks.flat_map(|tick| state.sweep(at(tick * JANITOR_MS))));
                now_ms = end;
            }
            other => panic!("unknown step {other}"),
        }
        let mut undone: Vec<String> = evicted.into_iter().filter_map(|noted| noted.undo).collect();
        undone.sort();
        answer["evicted"] = json!(undone);
        let accessed = requests.iter().filter_map(|id| Some((id.clone(), state.last_access(id)?)));
        let accessed: Map<String, Value> =
            accessed.map(|(id, at)| (id, json!((at - Instant::ZERO).as_millis() as u64))).collect();
        answer["last_access_ms"] = Value::Object(accessed);
        answers.push(answer);
    }
    Rules::exact().outcome(&case["then"], &json!({"steps": answers}))
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}
