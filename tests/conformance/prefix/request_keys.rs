//! `request_keys.jsonl`.

use executor::Sim;
use router::plugin::Handle;
use router::producers::PrecisePrefixCacheProducer;
use router::producers::precise_prefix_cache_producer::RequestKeys;
use serde_json::{Value, json};
use tests::compare::Rules;

use super::given;
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let run = Sim::new(1).run(move |rt| async move {
        let parameters = given::parameters(&given["parameters"]);
        let Ok(producer) = PrecisePrefixCacheProducer::build("p", &parameters, &Handle::new(rt)) else {
            return json!({"error": {"kind": "bad-parameter"}});
        };
        let request = given::request(&given["request"]);
        let keys = request.tokenized_prompt().map_or_else(RequestKeys::default, |prompt| {
            producer.request_keys(&request.target_model, prompt).expect("nothing is wrong with a request")
        });
        let texts: Vec<Vec<String>> =
            keys.prompts.iter().map(|keys| keys.iter().map(u64::to_string).collect()).collect();
        json!({
            "block_size": producer.parameters().hasher.block_size(),
            "keys": texts,
            "mm_block_indices": keys.multimodal,
        })
    });
    Rules::exact().outcome(&case["then"], &run.unwrap())
}
