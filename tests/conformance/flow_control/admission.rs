//! `admission.jsonl`: from an outcome to a status, and admission without flow control.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use executor::{Instant, WallTime};
use router::admission::{Asking, EndpointList, LegacyAdmission, SaturationDetector};
use router::config::schema::Behavior;
use router::director::PoolLocator;
use router::endpoint::Endpoint;
use router::error::InferenceError;
use router::flow_control::admission::{queue_request, refusal};
use router::flow_control::{Cause, Ended, Outcome as Flow};
use router::request::InferenceRequest;
use router::request_control::Metadata;
use serde_json::{Map, Value, json};

use super::given;
use crate::outcome::Outcome;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let case = given.clone();
    // Three subjects, told apart by what is given.
    if case.get("admission").is_some() {
        return super::director::run(given, then);
    }
    let answer = given::run(|handle| async move {
        let pool = given::endpoints(&case["endpoints"], handle.rt().now());
        if case.get("outcome").is_some() { flow_control(&case, &pool) } else { legacy(&case, pool, &handle) }
    });
    super::compare(then, &answer)
}

/// Describes a refusal.
pub(super) fn described(error: &InferenceError) -> Value {
    let headers: Map<String, Value> =
        error.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({"code": error.code.to_string(), "status": error.code.http_status(), "headers": headers})
}

/// What is recorded of the error beside its parts: the reason it gives, or its class.
pub(super) fn with_kind(error: &InferenceError, without_reason: &str) -> Value {
    let mut answer = described(error);
    let reason = error.headers.first().map_or(without_reason, |(_, reason)| reason.as_str());
    answer["kind"] = json!(reason);
    answer
}

/// Reads the end that the stub of a controller returns.
pub(super) fn ended(case: &Value) -> Ended {
    let causes = case["error_chain"].as_array().into_iter().flatten();
    let cause = |cause: &Value| match cause.as_str().unwrap_or_default() {
        "rejected" => Cause::Rejected,
        "evicted" => Cause::Evicted,
        "queue-at-capacity" => Cause::QueueAtCapacity,
        "no-endpoints" => Cause::NoEndpoints,
        "ttl-expired" => Cause::TtlExpired,
        "context-cancelled" => Cause::ContextCancelled,
        "not-running" => Cause::NotRunning,
        "deadline-exceeded" => Cause::DeadlineExceeded,
        "canceled" => Cause::Canceled,
        other => Cause::Other(other.to_owned().into()),
    };
    let outcome = [
        Flow::NotYetFinalized,
        Flow::Dispatched,
        Flow::RejectedCapacity,
        Flow::RejectedNoEndpoints,
        Flow::RejectedOther,
        Flow::EvictedTTL,
        Flow::EvictedContextCancelled,
        Flow::EvictedOther,
    ];
    let named = |outcome: &Flow| case["outcome"] == outcome.to_string();
    Ended {
        outcome: outcome.into_iter().find(named).unwrap_or_else(|| panic!("no outcome {}", case["outcome"])),
        causes: causes.map(cause).collect(),
    }
}

fn flow_control(case: &Value, pool: &EndpointList) -> Value {
    let asked = &case["request"];
    let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
    let request = InferenceRequest {
        request_id: text("request_id"),
        fairness_id: text("fairness_id"),
        target_model: text("target_model"),
        priority: asked["objective"]["priority"].as_i64().unwrap_or_default(),
        size_bytes: asked["size_bytes"].as_u64().unwrap_or_default() as usize,
        ..InferenceRequest::default()
    };
    let incoming_model = text("incoming_model");
    let received_ms = asked["received_ms"].as_u64().unwrap_or_default();
    let asking = Asking {
        now: Instant::ZERO,
        incoming_model: &incoming_model,
        received: WallTime::from_unix_nanos(received_ms * 1_000_000),
        deadline: None,
        candidates: &|| Rc::clone(pool),
    };
    let queued = queue_request(&request, &asking);
    let probes = Cell::new(0);
    let refused = refusal(&ended(case), Behavior::Parity, || {
        probes.set(probes.get() + 1);
        pool.is_empty()
    });
    json!({
        "admitted": refused.is_none(),
        "error": refused.map(|error| with_kind(&error, "internal")),
        "pool_probes": probes.get(),
        // The pool is the controller's, and no request has a time of its own.
        "queue_request": {
            "id": request.request_id,
            "fairness_id": queued.fairness_id,
            "priority": queued.priority,
            "size_bytes": queued.bytes,
            "received_ms": queued.received.unix_nanos() / 1_000_000,
            "model": queued.model,
            "target_model": queued.target_model,
            "pool": "pool-1",
            "ttl_hint_ms": 0,
        },
    })
}

/// A detector that says what it is told to, and remembers what it was asked.
struct Fixed {
    saturation: f64,
    saw: RefCell<Vec<Vec<String>>>,
}

impl SaturationDetector for Fixed {
    fn plugin_type(&self) -> &'static str {
        "fixed"
    }

    fn saturation(&self, endpoints: &[Rc<Endpoint>], _: Instant) -> f64 {
        self.saw.borrow_mut().push(endpoints.iter().map(|e| e.metadata.id.to_string()).collect());
        self.saturation
    }
}

fn legacy(case: &Value, pool: EndpointList, handle: &router::plugin::Handle) -> Value {
    let saturation = tests::compare::read_float(&case["saturation"]).unwrap_or_default();
    let fixed = Rc::new(Fixed { saturation, saw: RefCell::default() });
    let detector: Rc<dyn SaturationDetector> = match case["detector"]["type"].as_str() {
        None => fixed.clone(),
        Some(plugin_type) => {
            let instance = given::build(plugin_type, &case["detector"]["parameters"], handle);
            instance.expect("a detector").roles.saturation_detector.expect("a detector")
        }
    };
    let lookups = Cell::new(0);
    let priority = case["request"]["objective"]["priority"].as_i64().unwrap_or_default();
    let outcome = LegacyAdmission::new(detector).decide(priority, handle.rt().now(), || {
        lookups.set(lookups.get() + 1);
        PoolLocator::subset(&pool, &subset(&case["subset"]), false)
    });
    json!({
        "admitted": outcome.is_ok(),
        "error": outcome.err().map(|error| with_kind(&error, "saturated")),
        "lookups": lookups.get(),
        "detector_saw": fixed.saw.take(),
    })
}

/// Returns metadata with a subset hint; null = none.
pub(super) fn subset(list: &Value) -> Metadata {
    let mut metadata = Metadata::new();
    if !list.is_null() {
        let fields = json!({"x-gateway-destination-endpoint-subset": list});
        metadata.insert("envoy.lb.subset_hint".to_owned(), fields.as_object().expect("a map").clone());
    }
    metadata
}
