//! Flow control as the director sees it: a request may go on, or has a status (flow-control spec 4).

use std::fmt;
use std::rc::Rc;

use executor::Instant;

use super::candidates::CachedLocator;
use super::controller::{FlowController, FlowRequest};
use super::fairness::ENQUEUE_TIME;
use super::outcome::{Cause, Ended, Outcome};
use crate::admission::{Admission, Admitted, Asking};
use crate::config::schema::Behavior;
use crate::director::headers::DROPPED_REASON;
use crate::error::{ErrorCode, InferenceError};
use crate::request::InferenceRequest;

/// Lets requests wait before they have candidates.
#[derive(Clone)]
pub struct FlowAdmission {
    controller: FlowController,
    pool: Rc<CachedLocator>,
    behavior: Behavior,
}

impl FlowAdmission {
    /// Returns the admission through `controller`.
    pub fn new(controller: FlowController, pool: Rc<CachedLocator>, behavior: Behavior) -> Self {
        FlowAdmission { controller, pool, behavior }
    }

    /// Returns the controller.
    pub fn controller(&self) -> &FlowController {
        &self.controller
    }

    /// Turns the end of a wait into what the director does next.
    fn conclude(
        &self,
        ended: &Ended,
        request: &mut InferenceRequest,
        since: Instant,
    ) -> Result<(), InferenceError> {
        if let Some(refusal) = refusal(ended, self.behavior, || self.pool.whole_pool().is_empty()) {
            return Err(refusal);
        }
        if self.controller.wants_enqueue_time(request.priority) {
            request.attributes.put(ENQUEUE_TIME, since);
        }
        Ok(())
    }
}

impl Admission for FlowAdmission {
    fn admit<'a>(&'a self, request: &'a mut InferenceRequest, asking: Asking<'a>) -> Admitted<'a> {
        match self.controller.enqueue(&queue_request(request, &asking)) {
            Ok(ended) => Admitted::Ready(self.conclude(&ended, request, asking.now)),
            Err(wait) => Admitted::Pending(Box::pin(async move {
                let ended = wait.await;
                self.conclude(&ended, request, asking.now)
            })),
        }
    }
}

impl fmt::Debug for FlowAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FlowAdmission").field(&self.controller).finish()
    }
}

/// Returns what the controller is told of a request.
pub fn queue_request<'a>(request: &'a InferenceRequest, asking: &Asking<'a>) -> FlowRequest<'a> {
    FlowRequest {
        fairness_id: &request.fairness_id,
        priority: request.priority,
        bytes: request.size_bytes as u64,
        received: asking.received,
        headers: Some(&request.headers),
        model: asking.incoming_model,
        target_model: &request.target_model,
        deadline: asking.deadline,
    }
}

/// Returns the status of a request that did not get its turn; `None` for one that did. Whether the pool is empty is asked
/// only where time ran out (flow-control spec 4.3).
pub fn refusal(
    ended: &Ended,
    behavior: Behavior,
    pool_is_empty: impl FnOnce() -> bool,
) -> Option<InferenceError> {
    let text = || match ended.causes.is_empty() {
        true => "request rejected by flow control".to_owned(),
        false => ended.to_string(),
    };
    let error = |code, what: &str, reason: &str| {
        let colon = if what.is_empty() { "" } else { ": " };
        InferenceError::new(code, format!("{what}{colon}{}", text())).with_header(DROPPED_REASON, reason)
    };
    let unavailable = |what, reason| error(ErrorCode::ServiceUnavailable, what, reason);
    let expired = |is_empty| match (is_empty, behavior) {
        (true, _) => {
            unavailable("request timed out in queue and no endpoints are available", "rejected-no-endpoints")
        }
        (false, Behavior::Parity) => {
            error(ErrorCode::ResourceExhausted, "request timed out in queue", "rejected-ttl-expired")
        }
        // The client did not ask too often: nobody came to serve it in time.
        (false, Behavior::Fixed) => unavailable("request timed out in queue", "rejected-ttl-expired"),
    };
    let gone = || unavailable("client disconnected", "rejected-context-cancelled");
    let internal = |what| InferenceError::new(ErrorCode::Internal, format!("{what}: {}", text()));
    Some(match ended.outcome {
        Outcome::Dispatched => return None,
        Outcome::RejectedCapacity => error(ErrorCode::ResourceExhausted, "", "rejected-saturated"),
        Outcome::RejectedNoEndpoints => unavailable("no endpoints available", "rejected-no-endpoints"),
        Outcome::EvictedTTL => expired(pool_is_empty()),
        Outcome::EvictedContextCancelled => gone(),
        Outcome::RejectedOther | Outcome::EvictedOther => {
            // Time that ran out is asked about first, and counts only where flow control has not ended.
            let is_empty = ended.has(&Cause::TtlExpired) && pool_is_empty();
            if ended.has(&Cause::NotRunning) {
                unavailable("flow controller shutting down", "rejected-shutting-down")
            } else if ended.has(&Cause::TtlExpired) {
                expired(is_empty)
            } else if ended.has(&Cause::ContextCancelled) {
                gone()
            } else {
                internal("internal flow control error")
            }
        }
        Outcome::NotYetFinalized => internal("unhandled flow control outcome"),
    })
}
