//! The way to the core: one message in, one decision out.
//!
//! The director and everything it owns live on one thread and are not `Send`. Whatever reads sockets, on any
//! thread, holds a [`CoreHandle`]; both hosts use it alike.

mod handle;

use std::cell::RefCell;
use std::fmt;
use std::pin::pin;
use std::rc::Rc;

use executor::http::Endpoint;
use executor::sync::{mpsc, oneshot};
use executor::{Instant, Rt};
use futures::future::{Either, select};
use slab::Slab;

pub use handle::CoreHandle;
pub(crate) use handle::Ticket;

use super::pool::HealthyPool;
use super::request_metrics::{Measured, RequestMetrics};
use crate::data_layer::silence::Silence;
use crate::director::headers::REQUEST_ID;
use crate::director::{Director, ForwardedBody, Pool, RequestInput, ResponseTracker};
use crate::error::{ErrorCode, InferenceError, PluginError};
use crate::explain::{Explanation, Explanations};
use crate::headers::Headers;
use crate::metrics::{Metric, Registry};
use crate::request_control::Usage;

/// What a request to the core asks for.
enum Command {
    Route { input: Box<RequestInput>, reply: oneshot::Sender<Result<Route, InferenceError>> },
    Bodyless { headers: Headers, reply: oneshot::Sender<Result<Route, InferenceError>> },
    Head { key: usize, headers: Headers, reply: oneshot::Sender<Headers> },
    Chunk { key: usize, usage: Option<Usage> },
    End { key: usize, usage: Option<Usage>, seen: bool },
    Rerouted { endpoint: Endpoint, why: Rerouted },
    Explain { request_id: String, reply: oneshot::Sender<Option<String>> },
    Ready { reply: oneshot::Sender<usize> },
    Metrics { reply: oneshot::Sender<String> },
}

/// Why a request is routed anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rerouted {
    /// No connection to its endpoint could be made.
    Refused,
    /// Its endpoint fell silent before it began to answer.
    Silent,
}

/// Where a request goes, and with what.
#[derive(Debug)]
pub(crate) struct Route {
    /// The endpoint to send it to.
    pub(crate) endpoint: Endpoint,
    /// All endpoints that were chosen, best first, joined with commas.
    pub(crate) destination_header: String,
    /// The request's headers as the plugins left them.
    pub(crate) headers: Headers,
    /// The body to forward; `None` = the client's, which is empty.
    pub(crate) body: Option<ForwardedBody>,
    /// The model as the client named it, and as it was rewritten, where the two differ.
    pub(crate) renamed: Option<Renamed>,
    /// The decision in a line, where decisions are explained.
    pub(crate) decision: Option<String>,
    /// Whether the response passes unseen.
    pub(crate) skip_response_processing: bool,
    /// Told when the request is to break off; `None` for one that cannot be evicted.
    pub(crate) evicted: Option<oneshot::Receiver<()>>,
    /// Follows the response.
    pub(crate) ticket: Ticket,
}

/// A model that the router renamed for the model server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renamed {
    /// As the client knows it.
    pub(crate) incoming: String,
    /// As the model server knows it.
    pub(crate) target: String,
}

/// The core: the director, and the responses that it follows.
pub struct Core {
    rt: Rt,
    director: Director,
    pool: Rc<HealthyPool>,
    metrics: Registry,
    commands: mpsc::Receiver<Command>,
    handle: mpsc::UnboundedSender<Command>,
    requests: RequestMetrics,
    rerouted: Metric,
    explanations: Option<Rc<RefCell<Explanations>>>,
    responses: RefCell<Slab<Followed>>,
    watch: Option<Watch>,
}

/// A response, and what is counted of its request; nothing for a request without a body.
struct Followed {
    tracker: ResponseTracker,
    measured: Option<Measured>,
}

type Watch = Box<dyn Fn(&Decided<'_>)>;

/// A decision, as those see it who watch the core.
#[derive(Clone, Copy, Debug)]
pub struct Decided<'a> {
    /// The request's id.
    pub request_id: &'a str,
    /// When.
    pub at: Instant,
    /// How many endpoints the pool had.
    pub candidates: usize,
    /// The chosen endpoints as `host:port`, best first, or the error that the client gets.
    pub destinations: Result<&'a [String], &'a InferenceError>,
    /// Its reason, where decisions are explained and the scheduler was asked.
    pub explanation: Option<&'a Explanation>,
}

impl Core {
    /// Returns the core, and the way to it.
    ///
    /// `director` makes the director over the pool that it is given: `pool`, without endpoints that refuse
    /// connections or are silent.
    pub fn new(
        rt: &Rt,
        pool: Rc<dyn Pool>,
        silence: Silence,
        metrics: Registry,
        director: impl FnOnce(Rc<dyn Pool>) -> Director,
    ) -> (Self, CoreHandle) {
        let silent = silence.subscribe();
        let pool = Rc::new(HealthyPool::new(rt, pool, silence, &metrics));
        let director = director(Rc::clone(&pool) as Rc<dyn Pool>);
        let requests = RequestMetrics::new(&metrics);
        let rerouted = metrics.metric("lockstep_requests_rerouted_total");
        // Bounded by the requests that clients have open.
        let (sender, commands) = rt.mpsc_unbounded();
        let handle = CoreHandle {
            rt: rt.clone(),
            commands: sender.clone(),
            silent,
            watches_heads: director.hooks().watch_heads(),
            watches_chunks: director.hooks().watch_chunks(),
        };
        let core = Core {
            rt: rt.clone(),
            director,
            pool,
            metrics,
            commands,
            handle: sender,
            requests,
            rerouted,
            explanations: None,
            responses: RefCell::default(),
            watch: None,
        };
        (core, handle)
    }

    /// Keeps the reasons of the last `capacity` decisions from now on, for [`CoreHandle::explanation`].
    pub fn explain(&mut self, capacity: usize) {
        let explanations = Rc::new(RefCell::new(Explanations::new(capacity)));
        self.explanations = Some(Rc::clone(&explanations));
        self.director.explain(move |explanation| explanations.borrow_mut().push(explanation));
    }

    /// Calls `watch` for every decision about a request with a body, in order.
    pub fn watch_decisions(&mut self, watch: impl Fn(&Decided<'_>) + 'static) {
        self.watch = Some(Box::new(watch));
    }

    /// Serves until the run ends.
    pub async fn run(mut self) {
        let (_, closed) = self.rt.mpsc_unbounded();
        let mut commands = std::mem::replace(&mut self.commands, closed);
        let core = Rc::new(self);
        while let Some(command) = commands.recv().await {
            match command {
                Command::Route { input, reply } => {
                    let this = Rc::clone(&core);
                    drop(core.rt.daemon("route", async move { this.route(*input, reply).await }));
                }
                Command::Bodyless { mut headers, reply } => {
                    let routed = core.director.handle_bodyless(&mut headers);
                    // A client that went away drops the route, and with it its ticket.
                    drop(reply.send(routed.map_err(without_status).and_then(|(destination, tracker)| {
                        let ticket = core.follow(Followed { tracker, measured: None });
                        Ok(Route {
                            endpoint: parse_endpoint(&destination)?,
                            destination_header: destination,
                            headers,
                            body: None,
                            renamed: None,
                            decision: None,
                            skip_response_processing: false,
                            evicted: None,
                            ticket,
                        })
                    })));
                }
                Command::Head { key, headers, reply } => {
                    if let Some(followed) = core.responses.borrow_mut().get_mut(key) {
                        drop(reply.send(followed.tracker.head(headers, Default::default()).clone()));
                    }
                }
                Command::Chunk { key, usage } => {
                    if let Some(followed) = core.responses.borrow_mut().get_mut(key) {
                        followed.tracker.chunk(usage);
                        if let Some(measured) = &mut followed.measured {
                            measured.chunk(core.rt.now());
                        }
                    }
                }
                Command::End { key, usage, seen } => {
                    let followed = core.responses.borrow_mut().try_remove(key);
                    if let Some(followed) = followed {
                        core.ended(followed, usage, seen);
                    }
                }
                Command::Rerouted { endpoint, why } => {
                    let reason = match why {
                        Rerouted::Refused => "refused",
                        Rerouted::Silent => "silent",
                    };
                    core.rerouted.inc(&[reason]);
                    if why == Rerouted::Refused {
                        core.pool.eject(endpoint.to_string());
                    }
                }
                Command::Explain { request_id, reply } => {
                    let explanations = core.explanations.as_ref().map(|explanations| explanations.borrow());
                    let found = explanations.as_ref().and_then(|explanations| explanations.of(&request_id));
                    drop(reply.send(found.and_then(|found| serde_json::to_string(&**found).ok())));
                }
                Command::Ready { reply } => drop(reply.send(core.pool.len())),
                Command::Metrics { reply } => {
                    core.pool.publish();
                    drop(reply.send(core.metrics.text()));
                }
            }
        }
    }

    async fn route(&self, input: RequestInput, mut reply: oneshot::Sender<Result<Route, InferenceError>>) {
        let request_id =
            self.watch.as_ref().and(input.headers.get(REQUEST_ID)).unwrap_or_default().to_owned();
        let (received, model) = (self.rt.now(), input.body.model.clone());
        let routed = {
            let decision = pin!(self.director.handle_request(input));
            let gone = pin!(reply.closed());
            match select(decision, gone).await {
                Either::Left((routed, _)) => routed,
                // Dropping the decision gives back what its hooks have taken.
                Either::Right(((), _)) => return,
            }
        };
        let routed = routed.map_err(|refused| {
            let error = without_status(refused.error);
            self.requests.failed(&model, &refused.known, &error.code.to_string());
            error
        });
        if let Some(watch) = &self.watch {
            let explanation = self.explanation(&request_id);
            watch(&Decided {
                request_id: &request_id,
                at: self.rt.now(),
                candidates: self.pool.len(),
                destinations: routed.as_ref().map(|routed| routed.destinations.as_slice()),
                explanation: explanation.as_deref(),
            });
        }
        let route = routed.and_then(|routed| {
            let measured = self.requests.routed(&model, &routed.response, received, routed.stream);
            let destination_header = routed.destination_header();
            let first = routed.destinations.first().map_or("", String::as_str);
            let target = &routed.request().target_model;
            let renames =
                !target.is_empty() && !routed.incoming_model.is_empty() && *target != routed.incoming_model;
            Ok(Route {
                endpoint: parse_endpoint(first)?,
                renamed: renames
                    .then(|| Renamed { incoming: routed.incoming_model.clone(), target: target.clone() }),
                headers: routed.request().headers.clone(),
                decision: self
                    .explanation(&routed.request().request_id)
                    .map(|explanation| explanation.line()),
                destination_header,
                body: Some(routed.body),
                skip_response_processing: routed.skip_response_processing,
                evicted: routed.eviction.map(|signal| {
                    let (evict, evicted) = self.rt.oneshot();
                    // A response that has ended hears of nothing any more.
                    signal.on_fire(move || {
                        let _ = evict.send(());
                    });
                    evicted
                }),
                ticket: self.follow(Followed { tracker: routed.response, measured }),
            })
        });
        drop(reply.send(route));
    }

    /// Returns the reason of the latest decision about a request, where decisions are explained.
    fn explanation(&self, request_id: &str) -> Option<Rc<Explanation>> {
        self.explanations.as_ref()?.borrow().of(request_id).cloned()
    }

    fn ended(&self, followed: Followed, usage: Option<Usage>, seen: bool) {
        let Followed { tracker, measured } = followed;
        if let Some(measured) = &measured {
            self.requests.ended(measured, usage, seen, self.rt.now());
        }
        // Dropped, the tracker tells its hooks that the response broke off.
        if seen {
            tracker.end(usage);
        }
    }

    fn follow(&self, followed: Followed) -> Ticket {
        let key = self.responses.borrow_mut().insert(followed);
        Ticket { key, commands: Some(self.handle.clone()) }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("responses", &self.responses.borrow().len()).finish_non_exhaustive()
    }
}

/// A failure without a status of its own ends an ext_proc stream with a gRPC error; over HTTP it is a 500.
fn without_status(error: PluginError) -> InferenceError {
    match error {
        PluginError::Inference(error) => error,
        other => InferenceError::new(ErrorCode::Internal, other.to_string()),
    }
}

fn parse_endpoint(destination: &str) -> Result<Endpoint, InferenceError> {
    destination.parse().map_err(|error| {
        InferenceError::new(
            ErrorCode::Internal,
            format!("the chosen endpoint has no usable address: {error}"),
        )
    })
}
