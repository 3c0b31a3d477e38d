//! The director: from a parsed request to a routing decision, and from there to the end of the response
//! (request-control spec 2).
//!
//! [`Director::handle_request`] makes every step of a request in the order of the llm-d Router's director;
//! [`ResponseTracker`] follows the response. Both live on the core's thread. What reads sockets parses bodies
//! elsewhere, hands a [`RequestInput`] over and forwards what [`Routed`] says.

mod forward;
pub mod headers;
mod hooks;
mod locate;
mod model_rename;
mod model_rewrites;
mod response;

pub use forward::{ForwardedBody, Known, Refused, Routed};
pub use hooks::Hooks;
pub use locate::PoolLocator;
pub use model_rename::ModelRename;
pub use model_rewrites::{ModelRewrites, RewriteRule, RewriteTarget};
pub use response::ResponseTracker;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::{Rt, Stream, WallTime};
use serde_json::Value;

use crate::admission::{Admission, Admitted, Asking};
use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidates;
use crate::data_key::{self, DataKey, well_known};
use crate::endpoint::Endpoint;
use crate::error::{ErrorCode, InferenceError, PluginError};
use crate::explain::Explanation;
use crate::flow_control::candidates::Locator;
use crate::flow_control::eviction::RequestEvictor;
use crate::headers::Headers;
use crate::request::{InferenceRequest, ParsedBody, Payload};
use crate::request_control::{Metadata, Produced};
use crate::scheduling::{Scheduler, SchedulingResult};

/// What a producer may take when it declares no deadline of its own.
const PRODUCER_DEADLINE: Duration = Duration::from_millis(400);

/// What the director asks of the pool.
pub trait Pool {
    /// Returns the endpoints of this moment, in the fixed order of the datastore.
    fn endpoints(&self) -> Rc<Vec<Rc<Endpoint>>>;

    /// Returns the priority of the objective `name`; `None` for one that is unknown or has none.
    fn priority(&self, objective: &str) -> Option<i64>;

    /// Returns the rewrite rule for `model`, which may be empty.
    fn rewrite_rule(&self, model: &str) -> Option<Rc<RewriteRule>>;
}

/// Options of the command line that the director knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectorOptions {
    /// Whether the proxy is told the score of every endpoint.
    pub emit_endpoint_scores: bool,
    /// Whether the proxy's subset hint is ignored.
    pub disable_endpoint_subset_filter: bool,
}

/// A request whose body has been read and parsed.
#[derive(Debug, Default)]
pub struct RequestInput {
    /// Headers, pseudo headers included.
    pub headers: Headers,
    /// The body.
    pub body: ParsedBody,
    /// Size of the body as it came. Unit: bytes.
    pub size_bytes: usize,
    /// What the proxy says of the request.
    pub metadata: Metadata,
    /// When the headers came; `None` = just now.
    pub received: Option<WallTime>,
}

/// Decides for requests.
pub struct Director {
    rt: Rt,
    pool: Rc<dyn Pool>,
    scheduler: Scheduler,
    admission: Box<dyn Admission>,
    locator: Rc<dyn Locator>,
    /// Follows requests in flight, where they may be evicted.
    evictor: Option<Rc<RequestEvictor>>,
    hooks: Rc<Hooks>,
    /// Takes the reason of each decision; `None` = nobody asks, and nothing is collected.
    explain: Option<Box<dyn Fn(Explanation)>>,
    options: DirectorOptions,
    /// What conditional decode looks at, whatever producer is configured (request-control spec 2.2).
    prefix_key: DataKey,
    request_ids: RefCell<Stream>,
    rewrite_draws: RefCell<Stream>,
    bodyless_draws: RefCell<Stream>,
}

impl Director {
    /// Returns a director over these parts; opens the streams `request-id`, `model-rewrite` and
    /// `bodyless-request` of `rt`.
    pub fn new(
        rt: Rt,
        pool: Rc<dyn Pool>,
        scheduler: Scheduler,
        admission: impl Admission + 'static,
        hooks: Hooks,
        options: DirectorOptions,
    ) -> Self {
        Director {
            request_ids: RefCell::new(rt.stream("request-id")),
            rewrite_draws: RefCell::new(rt.stream("model-rewrite")),
            bodyless_draws: RefCell::new(rt.stream("bodyless-request")),
            prefix_key: data_key::resolve(well_known::PREFIX_CACHE_MATCH_INFO, ""),
            locator: Rc::new(PoolLocator::new(Rc::clone(&pool), options.disable_endpoint_subset_filter)),
            hooks: Rc::new(hooks),
            rt,
            pool,
            scheduler,
            admission: Box::new(admission),
            evictor: None,
            explain: None,
            options,
        }
    }

    /// Finds candidates by `locator`, and lets `evictor`, if there is one, follow what is dispatched.
    pub fn with_flow_control(
        mut self,
        locator: Rc<dyn Locator>,
        evictor: Option<Rc<RequestEvictor>>,
    ) -> Self {
        self.locator = locator;
        self.evictor = evictor;
        self
    }

    /// Returns the plugins of each hook.
    pub fn hooks(&self) -> &Hooks {
        &self.hooks
    }

    /// Calls `explain` with the reason of each decision of the scheduler from now on.
    pub fn explain(&mut self, explain: impl Fn(Explanation) + 'static) {
        self.explain = Some(Box::new(explain));
    }

    /// Decides where a request goes (request-control spec 2.2).
    ///
    /// # Errors
    /// Why it goes nowhere, and what was known of it by then.
    ///
    /// # Cancel safety
    /// Dropping the future is a client that went away: what hooks have taken is given back.
    pub async fn handle_request(&self, input: RequestInput) -> Result<Routed, Refused> {
        let RequestInput { mut headers, mut body, size_bytes, metadata, received } = input;
        let request_id = self.request_id(&mut headers);
        let incoming_model = body.model.clone();
        let target_model = self.rewrite_model(&headers, &mut body).map_err(Refused::unknown)?;
        let objective = headers.first_present(&headers::OBJECTIVE);
        let mut request = InferenceRequest {
            request_id,
            target_model,
            priority: objective.and_then(|name| self.pool.priority(name)).unwrap_or(0),
            fairness_id: headers.first_present(&headers::FAIRNESS_ID).unwrap_or_default().to_owned(),
            headers,
            body: Some(body),
            size_bytes,
            ..InferenceRequest::default()
        };
        match self.decide(&mut request, &metadata, received, &incoming_model).await {
            Ok((result, candidates)) => self.prepare(request, result, &candidates, incoming_model),
            Err(error) => Err(Refused::new(error, &request)),
        }
    }

    /// Takes a request from its headers to the decision.
    async fn decide(
        &self,
        request: &mut InferenceRequest,
        metadata: &Metadata,
        received: Option<WallTime>,
        incoming_model: &str,
    ) -> Result<(SchedulingResult, Candidates), PluginError> {
        for hook in &self.hooks.request_header {
            hook.plugin.process(request)?;
        }
        if request.fairness_id.is_empty() {
            let agent = request.attributes.get::<String>("agent-identity").filter(|id| !id.is_empty());
            request.fairness_id = agent.map_or(headers::DEFAULT_FAIRNESS_ID, String::as_str).to_owned();
        }
        let asking = Asking {
            now: self.rt.now(),
            received: received.unwrap_or_else(|| self.rt.wall()),
            deadline: None,
            incoming_model,
            candidates: &|| self.locator.locate(metadata),
        };
        match self.admission.admit(request, asking) {
            Admitted::Ready(admitted) => admitted?,
            Admitted::Pending(turn) => turn.await?,
        }
        let mut candidates = self.screened(request, self.locator.locate(metadata))?;
        self.produce(request, &mut candidates).await;
        self.admit(request, &candidates)?;
        let now = self.rt.now();
        let mut traces = self.explain.as_ref().map(|_| Vec::new());
        let result = self.scheduler.schedule(request, &candidates, now, traces.as_mut());
        if let (Some(explain), Some(traces)) = (&self.explain, traces) {
            let outcome = result.as_ref().map(SchedulingResult::primary_targets).map_err(ToString::to_string);
            explain(Explanation::new(request, &candidates, traces, outcome, now));
        }
        let result = result.map_err(|error| scheduling_failure(&error))?;
        if headers::prefers_if_available(&request.headers) && !self.holds_prefix(&result, &candidates) {
            let message = "no decode worker has the requested KV cache";
            return Err(InferenceError::new(ErrorCode::PreconditionFailed, message).into());
        }
        Ok((result, candidates))
    }

    /// Picks an endpoint for a request without a body, at random and past every plugin (request-control spec
    /// 2.1); returns its `host:port` and what follows the response.
    ///
    /// # Errors
    /// [`ErrorCode::Internal`] for a pool without endpoints.
    pub fn handle_bodyless(&self, headers: &mut Headers) -> Result<(String, ResponseTracker), PluginError> {
        let request_id = match self.request_id(headers) {
            // An empty id is answered with a new one here, unlike for a request with a body.
            id if id.is_empty() => uuid(&mut self.request_ids.borrow_mut()),
            id => id,
        };
        headers.insert(headers::REQUEST_ID, request_id.clone());
        let endpoints = self.pool.endpoints();
        let Some(endpoint) = self.bodyless_draws.borrow_mut().pick(&endpoints) else {
            return Err(InferenceError::new(ErrorCode::Internal, "no pods available in datastore").into());
        };
        let metadata = &endpoint.metadata;
        let tracker = ResponseTracker::new(Rc::clone(&self.hooks), None, None, request_id);
        Ok((format!("{}:{}", metadata.address, metadata.port), tracker))
    }

    /// Returns the request's id, generated into the headers where the client sent none.
    fn request_id(&self, headers: &mut Headers) -> String {
        if let Some(id) = headers.get(headers::REQUEST_ID) {
            return id.to_owned();
        }
        let id = uuid(&mut self.request_ids.borrow_mut());
        headers.insert(headers::REQUEST_ID, id.clone());
        id
    }

    /// Finds the model that the request is for and writes it into the payload (request-control spec 2.3).
    fn rewrite_model(&self, headers: &Headers, body: &mut ParsedBody) -> Result<String, InferenceError> {
        let asked = headers.first_present(&headers::MODEL_REWRITE).unwrap_or_default();
        if matches!(body.payload, Payload::Empty | Payload::Raw(_) | Payload::Protobuf(_)) {
            return Ok(asked.to_owned());
        }
        let target = match self.pool.rewrite_rule(&body.model) {
            Some(rule) => rule.draw(&mut self.rewrite_draws.borrow_mut()).unwrap_or_default().to_owned(),
            None if asked.is_empty() => body.model.clone(),
            None => asked.to_owned(),
        };
        if target.is_empty() {
            return Err(InferenceError::new(ErrorCode::BadRequest, "model not found in request body"));
        }
        if let Payload::Json(fields) = &mut body.payload {
            match fields.get_mut("model") {
                Some(model) if *model == target.as_str() => {}
                Some(model) => *model = Value::String(target.clone()),
                None => {
                    fields.insert("model".to_owned(), Value::String(target.clone()));
                }
            }
        }
        Ok(target)
    }

    /// Keeps the candidates that every screener keeps; each sees all of them.
    fn screened(
        &self,
        request: &InferenceRequest,
        endpoints: Rc<Vec<Rc<Endpoint>>>,
    ) -> Result<Candidates, InferenceError> {
        let unavailable = |message| InferenceError::new(ErrorCode::ServiceUnavailable, message);
        if endpoints.is_empty() {
            return Err(unavailable("failed to find endpoint candidates for serving the request"));
        }
        let all = Candidates::new(endpoints);
        if self.hooks.screeners.is_empty() {
            return Ok(all);
        }
        let mut votes = vec![0usize; all.len()];
        for (round, hook) in self.hooks.screeners.iter().enumerate() {
            for kept in hook.plugin.screen(request, &all) {
                // Counts only what every screener before has kept, and only once.
                if let Some(vote) = votes.get_mut(kept.index()).filter(|vote| **vote == round) {
                    *vote += 1;
                }
            }
        }
        let kept: Vec<_> = all
            .endpoints()
            .iter()
            .zip(votes)
            .filter(|(_, votes)| *votes == self.hooks.screeners.len())
            .map(|(endpoint, _)| Rc::clone(endpoint))
            .collect();
        if kept.is_empty() {
            return Err(unavailable("screeners eliminated all endpoint candidates"));
        }
        Ok(Candidates::new(Rc::new(kept)))
    }

    /// Runs the producers one after the other; the first that fails or is late stops those behind it, and the
    /// request goes on with what there is (request-control spec 6.3).
    async fn produce(&self, request: &mut InferenceRequest, candidates: &mut Candidates) {
        for hook in &self.hooks.producers {
            let limit = hook.plugin.timeout().filter(|t| !t.is_zero()).unwrap_or(PRODUCER_DEADLINE);
            let outcome = match hook.plugin.produce(request, candidates) {
                Produced::Ready(outcome) => outcome.map_err(|error| error.to_string()),
                Produced::Pending(future) => match self.rt.timeout(limit, future).await {
                    Ok(outcome) => outcome.map_err(|error| error.to_string()),
                    Err(elapsed) => Err(format!("DataProducer execution timed out: {elapsed}")),
                },
            };
            if let Err(error) = outcome {
                tracing::warn!(plugin = %hook.id, error, "a data producer failed, the producers behind it do not run");
                return;
            }
        }
    }

    fn admit(&self, request: &InferenceRequest, candidates: &Candidates) -> Result<(), InferenceError> {
        for hook in &self.hooks.admitters {
            hook.plugin.admit(request, candidates).map_err(|reason| {
                // Also where the reason has a status of its own (request-control spec 2.2, step 12).
                let message = format!("request cannot be admitted: {reason}");
                InferenceError::new(ErrorCode::Internal, message)
            })?;
        }
        Ok(())
    }

    /// Returns whether the first target is known to hold some of the prompt.
    fn holds_prefix(&self, result: &SchedulingResult, candidates: &Candidates) -> bool {
        let target = result.primary_targets().first();
        let found = target.and_then(|t| t.read::<PrefixCacheMatchInfo>(candidates, &self.prefix_key));
        found.is_some_and(|found| found.match_blocks > 0)
    }
}

impl std::fmt::Debug for Director {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Director")
            .field("scheduler", &self.scheduler)
            .field("hooks", &self.hooks)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

fn scheduling_failure(error: &PluginError) -> InferenceError {
    error.inference().cloned().unwrap_or_else(|| {
        let message = format!("failed to find target endpoint: {error}");
        InferenceError::new(ErrorCode::ResourceExhausted, message)
    })
}

/// Draws a random UUID (version 4).
fn uuid(stream: &mut Stream) -> String {
    let bits = u128::from(stream.u64()) << 64 | u128::from(stream.u64());
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let hex = format!("{bits:032x}");
    let mut text = String::with_capacity(36);
    for (i, digit) in hex.chars().enumerate() {
        if matches!(i, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
