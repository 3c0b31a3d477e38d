//! `admission.jsonl`, subject `director`: from the request headers to the decision whether a request may go on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use executor::Instant;
use router::admission::{Admission, Admitted, Asking, EndpointList, LegacyAdmission, SaturationDetector};
use router::config::assembly::Assembly;
use router::config::loader::{Options, load};
use router::config::schema::Behavior;
use router::director::{Director, DirectorOptions, Hooks, Pool, RequestInput, RewriteRule};
use router::endpoint::Endpoint;
use router::error::PluginError;
use router::flow_control::Ended;
use router::flow_control::admission::refusal;
use router::request::{InferenceRequest, ParsedBody};
use router::support::Registry;
use serde_json::{Value, json};

use super::{admission, given};
use crate::outcome::Outcome;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let case = given.clone();
    let answer = given::run(|handle| async move {
        let assembly = load("", "", &Registry::default(), &handle, &Options::default());
        let Assembly { scheduler, .. } = assembly.expect("the built-in configuration loads");
        let endpoints = given::endpoints(&case["endpoints"], handle.rt().now());
        let pool = Rc::new(FixedPool {
            endpoints: Rc::clone(&endpoints),
            objectives: objectives(&case["objectives"]),
        });
        let inner: Box<dyn Admission> = if case["admission"] == "legacy" {
            let saturation = tests::compare::read_float(&case["saturation"]).unwrap_or_default();
            Box::new(LegacyAdmission::new(Rc::new(Saturated(saturation))))
        } else {
            Box::new(Stub { ended: admission::ended(&case), endpoints })
        };
        let asked = Rc::new(RefCell::new(json!({})));
        let gate = Recording { inner, asked: Rc::clone(&asked) };
        let director = Director::new(
            handle.rt().clone(),
            pool,
            scheduler,
            gate,
            Hooks::default(),
            DirectorOptions::default(),
        );
        let headers = case["headers"].as_object().map(given::headers).unwrap_or_default();
        let input = RequestInput {
            headers,
            size_bytes: case["size_bytes"].as_u64().unwrap_or_default() as usize,
            body: ParsedBody { model: "m".to_owned(), ..ParsedBody::default() },
            metadata: admission::subset(&case["subset"]),
            ..RequestInput::default()
        };
        let routed = director.handle_request(input).await.map_err(|refused| refused.error);
        let mut answer = asked.take();
        answer["reached_scheduler"] = json!(routed.is_ok());
        match routed {
            Ok(_) => {}
            Err(PluginError::Inference(error)) => answer["error"] = described(&case, &error),
            Err(error) => answer["error"] = json!(error.to_string()),
        }
        answer
    });
    super::compare(then, &answer)
}

fn described(case: &Value, error: &router::error::InferenceError) -> Value {
    let without_reason = match case["admission"].as_str() {
        _ if error.message.starts_with("failed to find endpoint candidates") => "no-candidates",
        Some("legacy") => "saturated",
        _ => "internal",
    };
    admission::with_kind(error, without_reason)
}

fn objectives(value: &Value) -> BTreeMap<String, Option<i64>> {
    let all = value.as_object().into_iter().flatten();
    all.map(|(name, objective)| (name.clone(), objective["priority"].as_i64())).collect()
}

struct FixedPool {
    endpoints: EndpointList,
    objectives: BTreeMap<String, Option<i64>>,
}

impl Pool for FixedPool {
    fn endpoints(&self) -> EndpointList {
        Rc::clone(&self.endpoints)
    }

    fn priority(&self, objective: &str) -> Option<i64> {
        self.objectives.get(objective).copied().flatten()
    }

    fn rewrite_rule(&self, _: &str) -> Option<Rc<RewriteRule>> {
        None
    }
}

struct Saturated(f64);

impl SaturationDetector for Saturated {
    fn plugin_type(&self) -> &'static str {
        "fixed"
    }

    fn saturation(&self, _: &[Rc<Endpoint>], _: Instant) -> f64 {
        self.0
    }
}

/// A controller that answers as it is told to.
struct Stub {
    ended: Ended,
    endpoints: EndpointList,
}

impl Admission for Stub {
    fn admit<'a>(&'a self, _: &'a mut InferenceRequest, _: Asking<'a>) -> Admitted<'a> {
        let refused = refusal(&self.ended, Behavior::Parity, || self.endpoints.is_empty());
        Admitted::Ready(refused.map_or(Ok(()), Err))
    }
}

/// Writes down what admission was asked.
struct Recording {
    inner: Box<dyn Admission>,
    asked: Rc<RefCell<Value>>,
}

impl Admission for Recording {
    fn admit<'a>(&'a self, request: &'a mut InferenceRequest, asking: Asking<'a>) -> Admitted<'a> {
        *self.asked.borrow_mut() = json!({"priority": request.priority, "fairness_id": request.fairness_id});
        self.inner.admit(request, asking)
    }
}
