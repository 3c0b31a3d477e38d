//! `events_apply.jsonl`.

use std::rc::Rc;

use router::config::schema::Behavior;
use router::prefix::block_index::BlockIndex;
use router::prefix::block_keys::BlockHasher;
use router::prefix::kv_events::{Applied, EngineType, KvEventApplier, decode, reset_pod, split_topic};
use router::prefix::{LongestPrefix, PodMatch, TierWeights};
use router::producers::precise_prefix_cache_producer::{IndexerParameters, TokenProcessorParameters};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::{content_by_key, decoded, given, unhex};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = &case["given"];
    let parameters = given::parameters(&json!({"indexerConfig": given["indexer_config"]}));
    let indexer = IndexerParameters::read(&parameters).expect("an index");
    let hasher = decoded::<TokenProcessorParameters>(&given["token_processor_config"]).expect("decodes");
    let hasher = hasher.hasher().expect("a block size");
    let mut script = Script {
        index: BlockIndex::new(indexer.backend().expect("an index").limits()),
        applier: KvEventApplier::new(hasher.clone(), Behavior::Parity),
        engine: EngineType::of(given["engine"].as_str().unwrap_or_default()).expect("a known engine"),
        hasher,
        weights: indexer.weights,
        prompts: given["score_prompts"].as_array().cloned().unwrap_or_default(),
    };
    let steps = given["steps"].as_array().into_iter().flatten();
    let steps: Vec<Value> = steps.map(|step| script.step(step)).collect();
    Rules::exact().set("entries").outcome(&case["then"], &json!({"steps": steps}))
}

struct Script {
    index: BlockIndex,
    applier: KvEventApplier,
    engine: EngineType,
    hasher: BlockHasher,
    weights: TierWeights,
    prompts: Vec<Value>,
}

impl Script {
    fn step(&mut self, step: &Value) -> Value {
        let (source, topic) = (given::text(&step["source"]), given::text(&step["topic"]));
        let mut applied = Applied::default();
        match step["op"].as_str().unwrap_or_default() {
            "message" => {
                if let Ok(batch) = decode(self.engine, &unhex(&step["payload_hex"])) {
                    applied = self.applier.apply(&mut self.index, &source, &topic, &batch);
                }
            }
            "reset" => {
                let pod = if source.is_empty() { split_topic(&topic).0 } else { &source };
                reset_pod(&mut self.index, pod);
            }
            "clear" => self.index.clear(&given::text(&step["pod"])),
            other => panic!("unknown step {other}"),
        }
        let mut answer = json!({
            "content": content_by_key(&self.index),
            "engine_keys": self.engine_keys(),
            "scores": self.prompts.clone().iter().map(|prompt| self.scores(prompt)).collect::<Vec<_>>(),
        });
        count(&mut answer, "stores_skipped", applied.stores_skipped);
        count(&mut answer, "removals_skipped", applied.removals_skipped);
        for (name, value) in [
            ("removed_forwarded", applied.removed_forwarded),
            ("removed_suppressed", applied.removed_suppressed),
        ] {
            if value > 0 {
                answer[name] = json!(value);
            }
        }
        answer
    }

    fn engine_keys(&self) -> Value {
        let keys = self
            .index
            .engine_keys()
            .map(|(key, blocks)| (key.to_string(), blocks.iter().map(u64::to_string).collect::<Value>()));
        Value::Object(keys.collect())
    }

    fn scores(&mut self, prompt: &Value) -> Value {
        let mut keys = Vec::new();
        let root = self.hasher.root(prompt["model"].as_str().unwrap_or_default());
        let tokens = given::consecutive(&prompt["token_runs"]);
        self.hasher.chain(root, &tokens, None, &mut keys).expect("no extra keys");
        let mut pods: Vec<Rc<str>> = self.index.entries().map(|(_, entry)| Rc::clone(&entry.pod)).collect();
        pods.sort_unstable();
        pods.dedup();
        let names: Vec<&str> = pods.iter().map(|pod| &**pod).collect();
        let mut matches = vec![PodMatch::default(); names.len()];
        LongestPrefix::default().add(&mut self.index, &keys, &names, &self.weights, &mut matches);
        let found = names.iter().zip(matches).filter(|(_, found)| found.blocks > 0);
        Value::Object(found.map(|(pod, found)| ((*pod).to_owned(), json!(found.score))).collect())
    }
}

fn count(answer: &mut Value, name: &str, counts: std::collections::BTreeMap<(String, &'static str), u64>) {
    if !counts.is_empty() {
        let counts = counts.into_iter().map(|((kind, reason), n)| (format!("{kind}/{reason}"), json!(n)));
        answer[name] = Value::Object(counts.collect::<Map<String, Value>>());
    }
}
