//! `prefix/`: hashes, indexes, KV events and the producers that read them.

mod approx;
mod block_keys;
mod burst;
mod event_stream;
mod events_apply;
mod events_decode;
mod given;
mod hashes;
mod index;
mod p2p;
mod precise_producer;
mod precise_scores;
mod request_keys;
mod scorers;

use std::sync::Arc;

use router::plugin::Parameters;
use router::prefix::block_index::BlockIndex;
use router::request::{ParsedBody, TokenizedPrompt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::outcome::Outcome;

/// Runs one case of a file of this folder.
pub(crate) fn run(file: &str, case: &Value) -> Outcome {
    match file {
        "prefix/prompt_hashes" => hashes::run(case),
        "prefix/approx_prefix" => approx::run(case),
        "prefix/block_keys" => block_keys::run(case),
        "prefix/prefix_misc_burst" => burst::run(case),
        "prefix/prefix_misc_p2p" => p2p::run(case),
        "prefix/prefix_misc_scorers" => scorers::run(case),
        "prefix/request_keys" => request_keys::run(case),
        "prefix/index" => index::run(case),
        "prefix/precise_scores" => precise_scores::run(case),
        "prefix/precise_producer" => precise_producer::run(case),
        "prefix/event_stream" => event_stream::run(case),
        "prefix/events_decode" => events_decode::run(case),
        "prefix/events_apply" => events_apply::run(case),
        _ => Outcome::Failed(format!("no adapter for {file}")),
    }
}

/// Reads `prompt_runs`: a prompt is a list of `[token, count]`.
fn prompt_runs(runs: &Value) -> Vec<Arc<[u32]>> {
    let prompt = |prompt: &Value| {
        let runs = prompt.as_array().into_iter().flatten();
        runs.flat_map(|run| std::iter::repeat_n(token(&run[0]), token(&run[1]) as usize)).collect()
    };
    runs.as_array().into_iter().flatten().map(prompt).collect()
}

fn token(value: &Value) -> u32 {
    value.as_u64().and_then(|id| u32::try_from(id).ok()).expect("a token id or a count")
}

/// Returns the body of a request: one without tokens where the runs are `null`.
fn body(request: &Value) -> ParsedBody {
    let runs = &request["prompt_runs"];
    let tokenized = (!runs.is_null()).then(|| TokenizedPrompt {
        prompts: prompt_runs(runs),
        cache_salt: request["cache_salt"].as_str().unwrap_or_default().to_owned(),
        ..TokenizedPrompt::default()
    });
    ParsedBody { tokenized_prompt: tokenized.map(Arc::new), ..ParsedBody::default() }
}

/// Decodes a part of a plugin's parameters.
fn decoded<T: DeserializeOwned + Default + Serialize>(value: &Value) -> Result<T, String> {
    Parameters::new(value.clone()).decode().map_err(|error| error.to_string())
}

/// Reads a 64-bit number that stands as a text.
fn decimal(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).expect("a decimal text")
}

/// Reads a list of 64-bit numbers that stand as texts; null is none.
fn decimals(list: &Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().map(decimal).collect()
}

/// Reads bytes that stand as hexadecimal digits.
fn unhex(value: &Value) -> Vec<u8> {
    let digits = value.as_str().expect("hexadecimal digits").as_bytes();
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("digits");
    digits.chunks(2).map(byte).collect()
}

/// Writes what an index holds, by key.
fn content_by_key(index: &BlockIndex) -> Value {
    let mut content: Vec<(u64, Value)> = index
        .content()
        .map(|(key, entries)| {
            let entries: Vec<Value> = entries.into_iter().map(index::entry).collect();
            (key, json!({"key": key.to_string(), "entries": entries}))
        })
        .collect();
    content.sort_by_key(|(key, _)| *key);
    content.into_iter().map(|(_, block)| block).collect()
}

/// Brings a list into the order of its members' texts.
fn sort_by_text(list: &mut Value) {
    if let Some(list) = list.as_array_mut() {
        list.sort_by_cached_key(Value::to_string);
    }
}
