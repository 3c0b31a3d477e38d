//! What the director answers: where a request goes and with what, or why it goes nowhere.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::response::{Evictable, ResponseTracker};
use super::{Director, headers};
use crate::candidates::Candidates;
use crate::error::{ErrorCode, InferenceError, PluginError};
use crate::flow_control::eviction::Signal;
use crate::request::{CompletionCall, InferenceRequest, ParsedBody, Payload, json};
use crate::scheduling::{SchedulingResult, Scored};

/// How much longer a body may become by being written anew before its buffer has to grow: a rewritten model, a
/// parameter that a plugin added. Unit: bytes.
const ROOM: usize = 128;

/// Where a request goes, and with what.
#[derive(Debug)]
pub struct Routed {
    /// The chosen endpoints as `host:port`, best first; the first one is to be used.
    pub destinations: Vec<String>,
    /// The body to forward.
    pub body: ForwardedBody,
    /// `host:port` and score of every endpoint that the primary profile scored, where it is asked for.
    pub scores: Option<Vec<(String, f64)>>,
    /// Model as the client named it.
    pub incoming_model: String,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// Whether the response passes unseen: the tracker is to be dropped once the request has been forwarded.
    pub skip_response_processing: bool,
    /// Fires when the request is to break off, if it can be evicted.
    pub eviction: Option<Signal>,
    /// Follows the response; dropping it ends it.
    pub response: ResponseTracker,
}

impl Routed {
    /// Returns the request as the plugins left it.
    ///
    /// # Panics
    /// Never: a routed request has been seen by the director.
    pub fn request(&self) -> &InferenceRequest {
        self.response.request().expect("a routed request is kept by its tracker")
    }

    /// Returns the headers to set on the forwarded request, in the order of their arrival.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.request().headers.iter().filter(|(name, _)| !headers::is_system_owned(name))
    }

    /// Returns the value of the destination header: all chosen endpoints.
    pub fn destination_header(&self) -> String {
        self.destinations.join(",")
    }
}

/// A body on its way to a model server.
#[derive(Clone, Debug)]
pub enum ForwardedBody {
    /// Bytes, possibly none.
    Bytes(Bytes),
    /// A call that stays in this process.
    InProcess(Arc<CompletionCall>),
}

impl ForwardedBody {
    /// Returns the length in bytes, zero for what stays in the process.
    pub fn len(&self) -> usize {
        match self {
            ForwardedBody::Bytes(bytes) => bytes.len(),
            ForwardedBody::InProcess(_) => 0,
        }
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A request that goes nowhere.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Refused {
    /// Why. An [`InferenceError`] has a status for the client; any other error has none of its own.
    #[source]
    pub error: PluginError,
    /// What was known of the request by then.
    pub known: Box<Known>,
}

/// What is known of a request that was refused, as it counts in metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Model after rewriting; empty where the body names none.
    pub target_model: String,
    /// Flow-control key of the tenant.
    pub fairness_id: String,
    /// Priority of the objective.
    pub priority: i64,
}

impl Default for Known {
    /// Returns what stands for a request that was refused before anything was known of it.
    fn default() -> Self {
        let fairness_id = headers::DEFAULT_FAIRNESS_ID.to_owned();
        Known { target_model: String::new(), fairness_id, priority: 0 }
    }
}

impl Refused {
    /// Returns the refusal of `request`.
    pub(super) fn new(error: impl Into<PluginError>, request: &InferenceRequest) -> Self {
        let InferenceRequest { target_model, fairness_id, priority, .. } = request;
        let mut known = Known { target_model: target_model.clone(), priority: *priority, ..Known::default() };
        // It is empty until the hooks of the headers have run.
        if !fairness_id.is_empty() {
            known.fairness_id.clone_from(fairness_id);
        }
        Refused { error: error.into(), known: Box::new(known) }
    }

    /// Returns the refusal of a request of which nothing is known.
    pub(super) fn unknown(error: impl Into<PluginError>) -> Self {
        Refused { error: error.into(), known: Box::default() }
    }
}

impl Director {
    /// Turns the decision into what is forwarded (request-control spec 2.4, 2.5).
    pub(super) fn prepare(
        &self,
        mut request: InferenceRequest,
        result: SchedulingResult,
        candidates: &Candidates,
        incoming_model: String,
    ) -> Result<Routed, Refused> {
        let targets = result.primary_targets();
        let Some(first) = targets.first() else {
            let error = InferenceError::new(ErrorCode::Internal, "results must be greater than zero");
            return Err(Refused::new(error, &request));
        };
        let destinations = targets.iter().map(|t| t.endpoint.metadata.host_port()).collect();
        let target = Rc::clone(&first.endpoint.metadata);
        let scores = self.options.emit_endpoint_scores.then(|| scores(&result, candidates)).flatten();

        let mut result = Rc::new(result);
        request.scheduling_result = Some(Rc::clone(&result));
        let request_id = request.request_id.clone();
        let mut tracker =
            ResponseTracker::new(Rc::clone(&self.hooks), Some(request), Some(target), request_id);
        let request = tracker.request.as_mut().expect("the tracker was made with the request");
        if let Err(error) = self.pre_request(request, &result, candidates) {
            return Err(Refused::new(error, request));
        }
        let id = request.headers.get(headers::REQUEST_ID).unwrap_or_default();
        let tracked = self.evictor.as_ref().and_then(|evictor| {
            let signal = evictor.dispatched(id, request.priority)?;
            Some((signal, Evictable::new(Rc::clone(evictor), id)))
        });
        let (eviction, evictable) = tracked.unzip();
        tracker.evictable = evictable;
        let request = tracker.request.as_mut().expect("the tracker was made with the request");

        let body = request.body.as_mut();
        let (body, stream, skip_response_processing) = match body {
            Some(body) => (repackage(body, request.size_bytes), body.stream, body.skip_response_processing),
            None => (ForwardedBody::Bytes(Bytes::new()), false, false),
        };
        if let ForwardedBody::Bytes(bytes) = &body {
            request.size_bytes = bytes.len();
        }
        // An open stream keeps its targets, not the score of every endpoint.
        request.scheduling_result = None;
        if let Some(result) = Rc::get_mut(&mut result) {
            result.profiles.values_mut().flatten().for_each(|profile| profile.scored = Vec::new());
        }
        request.scheduling_result = Some(result);
        Ok(Routed {
            destinations,
            body,
            scores,
            incoming_model,
            stream,
            skip_response_processing,
            eviction,
            response: tracker,
        })
    }

    /// Runs every PreRequest plugin, also behind one that failed, and joins their failures.
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        candidates: &Candidates,
    ) -> Result<(), InferenceError> {
        let mut failures = Vec::new();
        for hook in &self.hooks.pre_request {
            if let Err(error) = hook.plugin.pre_request(request, result, candidates) {
                failures.push((&hook.id, error));
            }
        }
        if let [(_, only)] = failures.as_slice()
            && let Some(error) = only.inference()
        {
            return Err(error.clone());
        }
        if failures.is_empty() {
            return Ok(());
        }
        let lines: Vec<String> =
            failures.iter().map(|(id, error)| format!("PreRequest \"{id}\" failed: {error}")).collect();
        Err(InferenceError::new(ErrorCode::Internal, lines.join("\n")))
    }
}

/// Returns `host:port` and score of what the primary profile scored, `None` where it scored nothing.
fn scores(result: &SchedulingResult, candidates: &Candidates) -> Option<Vec<(String, f64)>> {
    let profile = result.profiles.get(&result.primary)?.as_ref().filter(|p| !p.scored.is_empty())?;
    let score = |s: &Scored| (candidates.endpoint(s.candidate).metadata.host_port(), s.score);
    Some(profile.scored.iter().map(score).collect())
}

/// Takes what is forwarded out of a body that came with `size` bytes; what only the decision needed goes with it.
fn repackage(body: &mut ParsedBody, size: usize) -> ForwardedBody {
    body.embedded = None;
    body.verbatim = None;
    body.tokenized_prompt = None;
    match std::mem::take(&mut body.payload) {
        Payload::Empty => ForwardedBody::Bytes(Bytes::new()),
        Payload::Json(fields) => {
            ForwardedBody::Bytes(json::encode_object_of_size(&fields, size + ROOM).into())
        }
        Payload::Raw(bytes) | Payload::Protobuf(bytes) => ForwardedBody::Bytes(bytes),
        Payload::InProcess(call) => ForwardedBody::InProcess(call),
    }
}
