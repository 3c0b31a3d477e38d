//! `block_keys.jsonl`.

use router::prefix::block_keys::{BlockHasher, ExtraKeys};
use router::prefix::multimodal::{Item, extra_keys};
use router::producers::precise_prefix_cache_producer::TokenProcessorParameters;
use serde_json::{Value, json};
use tests::compare::Rules;

use super::{decimal, decoded};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = &case["given"];
    let got = if given.get("items").is_some() { multimodal(given) } else { chain(given) };
    Rules::exact().outcome(&case["then"], &got)
}

fn chain(given: &Value) -> Value {
    let hasher = decoded::<TokenProcessorParameters>(&given["token_processor_config"])
        .and_then(|parameters| parameters.hasher().map_err(|error| error.to_string()));
    let Ok(hasher) = hasher else { return json!({"error": {"kind": "bad-parameter"}}) };
    let tokens = tokens(given);
    let extra: Option<Vec<ExtraKeys>> =
        serde_json::from_value(given["extra"].clone()).expect("lists of hashes or null");
    let (parent, model) =
        (decimal(&given["parent_key"]), given["model"].as_str().expect("the model is a text"));
    let start = if parent == 0 { hasher.root(model) } else { parent };
    let mut keys = Vec::new();
    if hasher.chain(start, &tokens, extra.as_deref(), &mut keys).is_err() {
        return json!({"error": {"kind": "extra-length-mismatch"}});
    }
    let mut answer = json!({
        "block_size": hasher.block_size(),
        "keys": keys.iter().map(u64::to_string).collect::<Vec<_>>(),
    });
    if tokens.len() <= 48 {
        let parents = std::iter::once(&start).chain(&keys);
        let blocks = tokens.chunks_exact(hasher.block_size()).zip(parents).enumerate();
        let encode = |(at, (block, parent)): (usize, (&[u32], &u64))| {
            let extra = extra.as_ref().and_then(|extra| extra[at].as_deref());
            hex(&BlockHasher::encoded_block(*parent, block, extra))
        };
        let blocks: Vec<String> = blocks.map(encode).collect();
        let blocks = if blocks.is_empty() { Value::Null } else { json!(blocks) };
        answer["encoded"] = json!({"init": hasher.init().to_string(), "blocks_cbor": blocks});
        if parent == 0 {
            answer["encoded"]["root"] = json!(start.to_string());
            answer["encoded"]["root_cbor"] = json!(hex(&hasher.encoded_root(model)));
        }
    }
    answer
}

fn tokens(given: &Value) -> Vec<u32> {
    let arith = &given["tokens_arith"];
    if arith.is_null() {
        return serde_json::from_value(given["tokens"].clone()).expect("token ids");
    }
    let number = |name: &str| arith[name].as_u64().expect("a number");
    (0..number("count"))
        .map(|i| number("start").wrapping_add(number("step").wrapping_mul(i)) as u32)
        .collect()
}

fn multimodal(given: &Value) -> Value {
    let number = |value: &Value| value.as_i64().expect("a number");
    let items: Vec<Item<'_>> = given["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| Item {
            hash: item["hash"].as_str().expect("a hash"),
            offset: number(&item["offset"]),
            length: number(&item["length"]),
        })
        .collect();
    let tokens = number(&given["num_tokens"]) as usize;
    json!({"extra": extra_keys(&items, tokens, number(&given["block_size"]) as usize)})
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
