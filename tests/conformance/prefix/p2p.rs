//! `prefix_misc_p2p.jsonl`.

use std::rc::Rc;

use executor::Sim;
use router::plugin::Handle;
use router::producers::p2p_source_producer::{BestMatch, factory};
use router::request::InferenceRequest;
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::given;
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let run = Sim::new(1).run(move |rt| async move { answer(&Handle::new(rt), &given) });
    Rules::exact().outcome(&case["then"], &run.unwrap())
}

fn answer(handle: &Handle, given: &Value) -> Value {
    let parameters = given::parameters(&given["parameters"]);
    let name = given["plugin_name"].as_str().unwrap_or_default();
    let Ok(instance) = factory(name, &parameters, handle) else {
        return json!({"error": {"kind": "bad-parameter"}});
    };
    let endpoints = given::endpoints(&given["endpoints"]);
    let names: Vec<&str> = endpoints.keys().map(String::as_str).collect();
    let mut candidates = given::candidates(&endpoints, &names);
    let headers = given["headers"].as_object().into_iter().flatten();
    let mut request = InferenceRequest {
        request_id: given::text(&given["request_id"]),
        headers: headers.map(|(name, value)| (name, value.as_str().unwrap_or_default())).collect(),
        ..InferenceRequest::default()
    };
    given::produce(&instance, &mut request, &mut candidates);
    let stash = request.attributes.keys().map(str::to_owned).next();
    let stash = stash.and_then(|key| {
        let BestMatch { host_port, cached_tokens } = request.attributes.get(&key)?;
        Some(json!({"key": key, "host_port": host_port, "cached_tokens": cached_tokens}))
    });
    let result = given::scheduling_result(&endpoints, given);
    let hook = instance.roles.pre_request.as_ref().map(Rc::clone).expect("a PreRequest plugin");
    hook.pre_request(&mut request, &result, &candidates).expect("never fails");
    let headers: Map<String, Value> =
        request.headers.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    json!({"stash": stash, "headers": headers})
}
