//! `prompt_hashes.jsonl`.

use std::sync::Arc;

use executor::Sim;
use router::prefix::prompt_hashes;
use router::producers::approx_prefix_cache_producer::{
    ApproxPrefixCacheParameters, ApproxPrefixCacheProducer,
};
use router::request::TokenizedPrompt;
use serde_json::{Value, json};
use tests::compare::Rules;

use super::approx::endpoints;
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = &case["given"];
    let got = if given.get("plugin_type").is_some() { factory(given) } else { hash(given) };
    Rules::exact().outcome(&case["then"], &got)
}

fn hash(given: &Value) -> Value {
    let size = |name: &str| given[name].as_i64().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let Some(prompts) = given["prompts"].as_array() else { return json!({"hashes": null}) };
    let ids = |prompt: &Value| -> Arc<[u32]> {
        prompt.as_array().into_iter().flatten().map(super::token).collect()
    };
    let prompt = TokenizedPrompt {
        prompts: prompts.iter().map(ids).collect(),
        cache_salt: text(&given["cache_salt"]),
        ..TokenizedPrompt::default()
    };
    json!({"hashes": chains(prompt_hashes(
        &text(&given["target_model"]),
        &prompt,
        size("block_size"),
        size("max_blocks"),
    ))})
}

fn factory(given: &Value) -> Value {
    let (parameters, candidates, request) =
        (given["parameters"].clone(), endpoints(&given["endpoints"]), given["request"].clone());
    let run = Sim::new(1).run(move |rt| async move {
        let parameters = router::plugin::Parameters::new(parameters);
        let decoded = parameters.decode::<ApproxPrefixCacheParameters>().map_err(|e| e.to_string());
        let checked = decoded.and_then(|p| p.checked().map_err(|e| e.to_string()));
        let Ok(parameters) = checked else { return json!({"error": {"kind": "bad-parameter"}}) };
        let producer = ApproxPrefixCacheProducer::new("p", parameters, rt);
        let body = super::body(&request);
        let (block_size, hashes) = producer.hashes(
            &text(&request["target_model"]),
            body.tokenized_prompt.as_deref(),
            &candidates.into_values().collect::<Vec<_>>(),
        );
        json!({"block_size": block_size, "hashes": chains(hashes)})
    });
    run.unwrap()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Writes hashes as decimal texts, no chains as `null`.
fn chains(chains: Vec<Vec<u64>>) -> Value {
    if chains.is_empty() {
        return Value::Null;
    }
    let texts: Vec<Vec<String>> =
        chains.iter().map(|chain| chain.iter().map(u64::to_string).collect()).collect();
    json!(texts)
}
