//! Hooks around a decision (request-control spec 1.6); the [`director`](crate::director) calls them.

pub mod agent_identity;
pub mod destination_endpoint_served_verifier;
pub mod disaggregatedset_rollout_screener;
pub(crate) mod go_float;
pub mod latency_slo_admitter;
pub mod probabilistic_admitter;
pub mod request_attribute_reporter;

use std::collections::BTreeMap;
use std::rc::Rc;

use futures::future::LocalBoxFuture;
use std::time::Duration;

use crate::candidates::{Candidate, Candidates};
use crate::endpoint::EndpointMetadata;
use crate::error::PluginError;
use crate::headers::Headers;
use crate::plugin::Factory;
use crate::request::InferenceRequest;
use crate::scheduling::SchedulingResult;

/// The types of this kind that are built, each with its factory.
pub const TYPES: &[(&str, Factory)] = &[
    (agent_identity::TYPE, agent_identity::factory),
    (destination_endpoint_served_verifier::TYPE, destination_endpoint_served_verifier::factory),
    (disaggregatedset_rollout_screener::TYPE, disaggregatedset_rollout_screener::factory),
    (latency_slo_admitter::TYPE, latency_slo_admitter::factory),
    (probabilistic_admitter::TYPE, probabilistic_admitter::factory),
    (request_attribute_reporter::TYPE, request_attribute_reporter::factory),
];

/// Sees a request before admission, when there are no candidates yet.
pub trait RequestHeaderProcessor {
    /// May set attributes and headers; an error aborts the request, unmapped.
    fn process(&self, request: &mut InferenceRequest) -> Result<(), PluginError>;
}

/// Narrows the candidates before the producers run.
pub trait Screener {
    /// Returns the candidates that may stay.
    fn screen(&self, request: &InferenceRequest, candidates: &Candidates) -> Vec<Candidate>;
}

/// A producer's answer: at once, or after waiting.
pub enum Produced<'a> {
    /// Done.
    Ready(Result<(), PluginError>),
    /// Waits for something (a render server); runs under the producer's deadline.
    Pending(LocalBoxFuture<'a, Result<(), PluginError>>),
}

impl std::fmt::Debug for Produced<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Produced::Ready(result) => f.debug_tuple("Ready").field(result).finish(),
            Produced::Pending(_) => f.write_str("Pending"),
        }
    }
}

/// Finds something out about a request and its candidates before scheduling.
pub trait DataProducer {
    /// Writes columns of `candidates`, request attributes or the tokenized prompt.
    ///
    /// An error stops the producers behind it; the request goes on (request-control spec 6.3).
    fn produce<'a>(
        &'a self,
        request: &'a mut InferenceRequest,
        candidates: &'a mut Candidates,
    ) -> Produced<'a>;

    /// Returns the producer's own deadline, `None` for the default of 400 ms.
    fn timeout(&self) -> Option<Duration> {
        None
    }
}

/// Lets a request pass or not, with the candidates known.
pub trait Admitter {
    /// Denies with a reason.
    fn admit(&self, request: &InferenceRequest, candidates: &Candidates) -> Result<(), PluginError>;
}

/// Acts between the decision and the forwarding.
pub trait PreRequest {
    /// May change the request's headers and payload.
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        candidates: &Candidates,
    ) -> Result<(), PluginError>;
}

/// Token usage that a response reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: i64,
    /// Tokens generated.
    pub completion_tokens: i64,
    /// Both.
    pub total_tokens: i64,
    /// Prompt tokens that came from the prefix cache, where the response says so.
    pub cached_tokens: Option<i64>,
}

/// A response as hooks see it.
#[derive(Debug, Default)]
pub struct ResponseRecord {
    /// Value of `x-request-id`.
    pub request_id: String,
    /// Live response headers.
    pub headers: Headers,
    /// Whether this is the first body call.
    pub start_of_stream: bool,
    /// Whether this is the last body call.
    pub end_of_stream: bool,
    /// The latest usage seen, zero before.
    pub usage: Usage,
    /// What the proxy says of the response.
    pub metadata: Metadata,
    /// What hooks want attached to the response's last message.
    pub dynamic_metadata: Metadata,
}

/// Metadata that a proxy attaches to a message: namespace to fields.
pub type Metadata = BTreeMap<String, serde_json::Map<String, serde_json::Value>>;

/// Sees response headers.
pub trait ResponseHeaderProcessor {
    /// May add headers. `request` is absent for requests that the director never saw.
    fn response_header(
        &self,
        request: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        target: Option<&Rc<EndpointMetadata>>,
    );
}

/// Sees response bodies, in order, and the end of every response exactly once.
pub trait ResponseBodyProcessor {
    /// Observes a chunk or the end.
    fn response_body(
        &self,
        request: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        target: Option<&Rc<EndpointMetadata>>,
    );

    /// Returns whether the plugin has to see the chunks between the first and the last. Where none has, the
    /// server tells the core only of a response's first chunk and of its end.
    fn watches_every_chunk(&self) -> bool {
        true
    }
}
