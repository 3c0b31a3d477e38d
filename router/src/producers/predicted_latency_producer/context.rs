use std::collections::BTreeMap;
use std::rc::Rc;

use executor::Instant;

use crate::endpoint::{Endpoint, EndpointId};
use crate::latency_predictor::Prediction;

/// What is remembered of a request from its prediction to its end.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// Tokens of its prompt.
    pub(super) input_tokens: i64,
    /// Objectives; 0 = none. Unit: milliseconds.
    pub(super) ttft_slo: f64,
    pub(super) tpot_slo: f64,
    /// By the names of endpoints without their namespace, as upstream keeps them: those of one name share an entry.
    pub(super) by_name: BTreeMap<String, Seen>,
    /// Requests in flight when the request came.
    pub(super) in_flight: BTreeMap<EndpointId, InFlight>,
    /// `None` until it is sent.
    pub(super) sent: Option<Sent>,
    /// Time to its first token in whole milliseconds; 0 = unknown.
    pub(super) ttft_ms: f64,
    /// Chunks since then, the first one included.
    pub(super) generated: i64,
}

/// What was seen of an endpoint for the request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) prefix_score: f64,
    /// Multimodal items, and those that the endpoint holds.
    pub(super) encoder: (i64, i64),
    pub(super) prediction: Prediction,
}

/// Load of an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InFlight {
    pub(super) tokens: i64,
    pub(super) requests: i64,
}

/// How a request was sent.
#[derive(Debug)]
pub(super) struct Sent {
    /// The endpoint, as of then.
    pub(super) target: Rc<Endpoint>,
    /// The endpoint that computes the prompt, where it is another's task.
    pub(super) prefill: Option<Rc<Endpoint>>,
    pub(super) at: Instant,
}

impl Sent {
    /// Returns the endpoint that decides the time to the first token.
    pub(super) fn first(&self) -> &Rc<Endpoint> {
        self.prefill.as_ref().unwrap_or(&self.target)
    }
}

impl Context {
    /// Returns what was seen of an endpoint.
    pub(super) fn seen(&self, endpoint: &Endpoint) -> Seen {
        self.by_name.get(&endpoint.metadata.id.name).copied().unwrap_or_default()
    }

    /// Returns the load of an endpoint when the request came.
    pub(super) fn load(&self, endpoint: &Endpoint) -> InFlight {
        self.in_flight.get(&endpoint.metadata.id).copied().unwrap_or_default()
    }
}
