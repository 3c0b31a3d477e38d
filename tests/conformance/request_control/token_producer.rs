//! `producers.jsonl`, plugin `token-producer`: estimated token ids of bodies that the usual parsers read.

use executor::Rt;
use router::candidates::Candidates;
use router::plugin::Handle;
use router::producers::token_producer::{self, TokenProducerParameters};
use router::request::{InferenceRequest, ParserRegistry, TokenizedPrompt};
use router::request_control::Produced;
use serde_json::{Value, json};
use tests::compare::Rules;

use super::parsers;
use crate::outcome::Outcome;

pub(super) fn run(case: &Value, rt: Rt) -> Outcome {
    Rules::exact().outcome(&case["then"], &answer(&case["given"], rt))
}

fn answer(given: &Value, rt: Rt) -> Value {
    let name = given["plugin_name"].as_str().unwrap_or_default();
    let parameters = super::parameters(&given["parameters"]);
    let instance = match token_producer::factory(name, &parameters, &Handle::new(rt)) {
        Ok(instance) => instance,
        Err(_) => {
            let decodes = parameters.decode::<TokenProducerParameters>().is_ok();
            let kind = if decodes { "bad-parameter" } else { "undecodable-parameters" };
            return json!({"error": {"kind": kind}});
        }
    };
    let mut headers = parsers::headers(&given["request"]["headers"]);
    headers.insert(":path", given["request"]["path"].as_str().unwrap_or_default());
    let registry = ParserRegistry::default();
    let (body, _) =
        registry.parse(&headers, parsers::bytes(&given["request"], "body")).expect("a body that parses");
    let mut request = InferenceRequest { headers, body: Some(body), ..InferenceRequest::default() };
    let mut candidates = Candidates::default();
    let producer = instance.roles.producer.expect("a producer");
    match producer.produce(&mut request, &mut candidates) {
        Produced::Ready(Ok(())) => {}
        Produced::Ready(Err(_)) => return json!({"error": {"kind": "unsupported-body"}}),
        Produced::Pending(_) => panic!("an estimate does not wait"),
    }
    json!({"tokenized_prompt": request.tokenized_prompt().map(tokenized)})
}

pub(super) fn tokenized(prompt: &TokenizedPrompt) -> Value {
    let features = prompt
        .features
        .iter()
        .map(|f| json!({"modality": f.modality, "hash": f.hash, "offset": f.offset, "length": f.length}));
    json!({
        "prompts": prompt.prompts.iter().map(|ids| written(ids)).collect::<Vec<_>>(),
        "features": if prompt.features.is_empty() { Value::Null } else { features.collect() },
        "cache_salt": prompt.cache_salt,
    })
}

/// Writes token ids as a list or, above 150 of them, as runs.
fn written(ids: &[u32]) -> Value {
    if ids.len() <= 150 {
        return json!(ids);
    }
    let runs: Vec<(u32, usize)> = ids.chunk_by(|a, b| a == b).map(|run| (run[0], run.len())).collect();
    json!({"runs": runs, "count": ids.len()})
}
