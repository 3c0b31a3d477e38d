//! `admitters.jsonl`: whether a request passes, and with what chance.

use std::rc::Rc;

use executor::Stream;
use router::candidates::Candidates;
use router::error::{ErrorCode, PluginError};
use router::plugin::Handle;
use router::request::InferenceRequest;
use router::request_control::Admitter;
use router::request_control::latency_slo_admitter::{self, LatencySloParameters};
use router::request_control::probabilistic_admitter::{self, ProbabilisticAdmitter, ProbabilisticParameters};
use serde_json::{Value, json};
use tests::compare::Rules;

use super::{parameters, parsers, refused, rt};
use crate::outcome::Outcome;
use crate::scheduling::given;

/// The tolerance with which the recorded chances were found.
const TOLERANCE: f64 = 1e-9;

pub(super) fn run(case: &Value) -> Outcome {
    let given = &case["given"];
    if let Some(feature) = missing(given) {
        return Outcome::NotBuilt(feature.to_owned());
    }
    let answer = match given["type"].as_str().unwrap_or_default() {
        latency_slo_admitter::TYPE => latency_slo(given),
        probabilistic_admitter::TYPE => probabilistic(given),
        other => return Outcome::Failed(format!("no adapter for {other}")),
    };
    Rules::within(TOLERANCE).outcome(&case["then"], &answer)
}

/// Returns the feature that a case asks for and that there is no code for.
fn missing(given: &Value) -> Option<&'static str> {
    let mut endpoints = given["endpoints"].as_array().into_iter().flatten();
    endpoints.any(|endpoint| endpoint["metrics"].is_null()).then_some("an endpoint without any metrics")
}

fn asked(given: &Value) -> (InferenceRequest, Candidates) {
    let endpoints = given["endpoints"].as_array().into_iter().flatten();
    let candidates =
        Candidates::new(Rc::new(endpoints.map(|value| Rc::new(given::endpoint(value))).collect()));
    let request = InferenceRequest {
        headers: parsers::headers(&given["request"]["headers"]),
        priority: given["request"]["objective"]["priority"].as_i64().unwrap_or(0),
        ..InferenceRequest::default()
    };
    (request, candidates)
}

fn latency_slo(given: &Value) -> Value {
    let parameters = parameters(&given["parameters"]);
    let Ok(instance) = latency_slo_admitter::factory("admitter", &parameters, &Handle::new(rt())) else {
        return refused::<LatencySloParameters>(&parameters);
    };
    let (request, candidates) = asked(given);
    match instance.roles.admitter.expect("an admitter").admit(&request, &candidates) {
        Ok(()) => json!({"admit": true}),
        Err(_) => json!({"admit": false, "reason": "no-valid-endpoint"}),
    }
}

fn probabilistic(given: &Value) -> Value {
    let parameters = parameters(&given["parameters"]);
    if probabilistic_admitter::factory("admitter", &parameters, &Handle::new(rt())).is_err() {
        return refused::<ProbabilisticParameters>(&parameters);
    }
    let decoded: ProbabilisticParameters = parameters.decode().expect("the factory took them");
    let (request, candidates) = asked(given);
    let admitter = |seed| ProbabilisticAdmitter::new(decoded.clone(), Stream::new(seed, "admitter"));
    let draws = draws(&admitter(1), &request, &candidates, Stream::new(1, "admitter"));
    let chance = match draws {
        0 => 0.0,
        _ => admitter(1).denial(admitter(1).saturation(&candidates)),
    };
    // The admitter itself keeps to its chance.
    let mut status = None;
    for seed in 0..50 {
        let mut stream = Stream::new(seed, "admitter");
        let denied = match admitter(seed).admit(&request, &candidates) {
            Ok(()) => false,
            Err(PluginError::Inference(error)) => {
                status = error.code.http_status();
                true
            }
            Err(error) => return json!(error.to_string()),
        };
        assert_eq!(denied, draws > 0 && stream.unit() < chance, "seed {seed}");
    }
    let decide = |u: &Value| if u.as_f64().is_some_and(|u| u < chance) { "deny" } else { "admit" };
    json!({
        "decisions": given["u"].as_array().into_iter().flatten().map(decide).collect::<Vec<_>>(),
        "deny_probability": chance,
        "draws": draws,
        "denied_code_from_plugin": status.or(ErrorCode::ResourceExhausted.http_status()),
        // What the director makes of any denial is held by its own vectors.
        "denied_status_to_client": ErrorCode::Internal.http_status(),
    })
}

/// Returns how many draws one request takes.
fn draws(
    admitter: &ProbabilisticAdmitter,
    request: &InferenceRequest,
    candidates: &Candidates,
    mut same: Stream,
) -> usize {
    drop(admitter.admit(request, candidates));
    let next = admitter.next_draw();
    (0..10).position(|_| same.unit() == next).expect("a draw of the same stream")
}
