//! `saturation.jsonl`: detectors, and the filters that they are.

use std::time::Duration;

use router::candidates::{Candidate, Candidates};
use router::request::InferenceRequest;
use router::scheduling::SchedulingContext;
use serde_json::{Value, json};

use super::given;
use crate::outcome::Outcome;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let case = given.clone();
    let answer = given::run(|handle| async move {
        // Late enough for metrics of any age.
        handle.rt().sleep(Duration::from_secs(1 << 20)).await;
        let now = handle.rt().now();
        let plugin_type = case["plugin"].as_str().expect("a detector");
        let instance = match given::build(plugin_type, &case["parameters"], &handle) {
            Ok(instance) => instance,
            Err(error) => return json!({"error": error.to_string()}),
        };
        let endpoints = given::endpoints(&case["endpoints"], now);
        let saturation = instance.roles.saturation_detector.expect("a detector").saturation(&endpoints, now);
        let candidates = Candidates::new(endpoints);
        let mut kept: Vec<Candidate> = candidates.all().collect();
        let request = InferenceRequest::default();
        let cx = SchedulingContext { request: &request, candidates: &candidates, now };
        instance.roles.filter.expect("a filter").filter(&cx, &mut kept);
        let name = |candidate: Candidate| candidates.endpoint(candidate).metadata.id.to_string();
        json!({
            "saturation": tests::compare::float(saturation),
            "gated_at_1": saturation >= 1.0,
            "filter_keeps": kept.into_iter().map(name).collect::<Vec<_>>(),
        })
    });
    match answer["error"].as_str() {
        Some(error) => given::compare_refusal(then, error),
        None => super::compare(then, &answer),
    }
}
