//! `index.jsonl`.

use router::plugin::Parameters;
use router::prefix::block_index::{BlockIndex, IndexError, PodEntry, key_cost};
use router::producers::precise_prefix_cache_producer::{Backend, IndexerParameters};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::{decimal, decimals, sort_by_text};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = &case["given"];
    if given.get("steps").is_none() {
        let cost = key_cost(decimal(&given["key"]), &entries(&given["entries"]));
        return Rules::exact().outcome(&case["then"], &json!({"cost": cost}));
    }
    let parameters = Parameters::new(json!({"indexerConfig": given["indexer_config"]}));
    let limits = IndexerParameters::read(&parameters).and_then(|p| p.backend());
    let limits = match limits {
        Ok(Backend::Redis) => return Outcome::NotBuilt("the Redis index".to_owned()),
        Ok(limits) => limits,
        Err(_) => return Rules::exact().outcome(&case["then"], &json!({"error": {"kind": "bad-parameter"}})),
    };
    let in_memory = matches!(limits, Backend::InMemory(_));
    let mut index = BlockIndex::new(limits.limits());
    let mut seen = Vec::new();
    let steps = given["steps"].as_array().into_iter().flatten();
    let steps: Vec<Value> = steps.map(|step| run_step(&mut index, step, in_memory, &mut seen)).collect();
    let rules = Rules::exact().set("found");
    let rules = if in_memory { rules } else { rules.set("entries") };
    rules.outcome(&sets_in_order(&case["then"]), &json!({"steps": steps}))
}

/// `found` holds sets of entries: their members come in the order of their text.
fn sets_in_order(then: &Value) -> Value {
    let mut then = then.clone();
    for step in then.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten() {
        for (_, entries) in step.get_mut("found").and_then(Value::as_object_mut).into_iter().flatten() {
            sort_by_text(entries);
        }
    }
    then
}

fn run_step(index: &mut BlockIndex, step: &Value, in_memory: bool, seen: &mut Vec<u64>) -> Value {
    let mut answer = Map::new();
    match step["op"].as_str().unwrap_or_default() {
        "add" => {
            let engine_keys = decimals(&step["engine_keys"]);
            let added = index.add(&engine_keys, &decimals(&step["request_keys"]), &entries(&step["entries"]));
            if added != Err(IndexError::NothingToAdd) {
                seen.extend(engine_keys);
            }
            note(&mut answer, added);
        }
        "evict" => {
            let (key, entries) = (decimal(&step["key"]), entries(&step["entries"]));
            let evicted = match step["key_type"].as_str() {
                Some("engine") => index.evict_engine_key(key, &entries),
                _ => index.evict_block(key, &entries),
            };
            note(&mut answer, evicted);
        }
        "clear" => index.clear(step["pod"].as_str().unwrap_or_default()),
        "lookup" => {
            answer = lookup(index, step);
            if !in_memory {
                return Value::Object(answer);
            }
        }
        "get_request_key" => {
            return match index.block_of(decimal(&step["key"])) {
                Ok(key) => json!({"key": key.to_string()}),
                Err(error) => error_of(error),
            };
        }
        other => panic!("unknown step {other}"),
    }
    answer.insert("state".to_owned(), state(index, in_memory, seen));
    Value::Object(answer)
}

fn state(index: &mut BlockIndex, in_memory: bool, seen: &[u64]) -> Value {
    let mut content: Vec<(u64, Value)> = index
        .content()
        .map(|(key, entries)| (key, json!({"key": key.to_string(), "entries": entries.iter().map(|e| entry(e)).collect::<Vec<_>>()})))
        .collect();
    if !in_memory {
        content.sort_by_key(|(key, _)| *key);
    }
    let content: Vec<Value> = content.into_iter().map(|(_, value)| value).collect();
    if in_memory {
        let keys: Map<String, Value> =
            index.engine_keys().map(|(key, blocks)| (key.to_string(), texts(blocks))).collect();
        return json!({"content": content, "engine_keys": keys});
    }
    let last: Map<String, Value> = seen
        .iter()
        .filter_map(|key| Some((key.to_string(), json!(index.block_of(*key).ok()?.to_string()))))
        .collect();
    json!({"content": content, "last_request_key": last})
}

fn lookup(index: &mut BlockIndex, step: &Value) -> Map<String, Value> {
    let keys = decimals(&step["request_keys"]);
    if keys.is_empty() {
        // Nobody asks for nothing here: there is no such error.
        return Map::from_iter([("error".to_owned(), json!({"kind": "no-keys"}))]);
    }
    let pods: Vec<&str> = step["pods"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut found: Vec<(u64, Vec<u32>)> = Vec::new();
    index.visit(&keys, |at, ids| found.push((keys[at], ids.to_vec())));
    let mut answer = Map::new();
    for (key, ids) in found {
        let entries = ids.iter().filter_map(|id| index.entry(*id));
        let entries = entries.filter(|e| pods.is_empty() || pods.contains(&&*e.pod));
        let mut entries: Value = entries.map(entry).collect();
        if entries.as_array().is_some_and(Vec::is_empty) {
            continue;
        }
        sort_by_text(&mut entries);
        answer.insert(key.to_string(), entries);
    }
    Map::from_iter([("found".to_owned(), Value::Object(answer))])
}

fn note(answer: &mut Map<String, Value>, result: Result<(), IndexError>) {
    if let Err(error) = result {
        answer.insert("error".to_owned(), error_of(error)["error"].clone());
    }
}

fn error_of(error: IndexError) -> Value {
    let kind = match error {
        IndexError::NothingToAdd => "nothing-to-add",
        IndexError::NothingToEvict => "nothing-to-evict",
        IndexError::EngineKeyNotFound(_) => "engine-key-not-found",
        IndexError::NoRoomForHolders | IndexError::TooManyEntries => "bad-capacity",
    };
    json!({"error": {"kind": kind}})
}

/// Reads pod entries.
pub(super) fn entries(list: &Value) -> Vec<PodEntry> {
    let entry = |value: &Value| PodEntry {
        pod: value["pod"].as_str().unwrap_or_default().into(),
        tier: value["tier"].as_str().unwrap_or_default().into(),
        speculative: value["speculative"].as_bool().unwrap_or(false),
        group: value["group"].as_i64(),
    };
    list.as_array().into_iter().flatten().map(entry).collect()
}

/// Writes a pod entry.
pub(super) fn entry(entry: &PodEntry) -> Value {
    let mut value = json!({"pod": &*entry.pod, "tier": &*entry.tier});
    if entry.speculative {
        value["speculative"] = json!(true);
    }
    if let Some(group) = entry.group {
        value["group"] = json!(group);
    }
    value
}

fn texts(keys: Vec<u64>) -> Value {
    keys.iter().map(u64::to_string).collect()
}
