//! `prefix/`: prompt hashes and the approximate producer.

mod approx;
mod hashes;

use std::sync::Arc;

use router::request::{ParsedBody, TokenizedPrompt};
use serde_json::Value;

use crate::outcome::Outcome;

/// Runs one case of a file of this folder.
pub(crate) fn run(file: &str, case: &Value) -> Outcome {
    match file {
        "prefix/prompt_hashes" => hashes::run(case),
        "prefix/approx_prefix" => approx::run(case),
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
