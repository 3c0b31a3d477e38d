//! What the parts of a running cluster report, put together for the observer.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use executor::Instant;
use executor::http::Endpoint;
use router::server::Decided;
use rustc_hash::FxHashMap;

use crate::report::{Decision, Observer, RequestEnd};

/// Header by which a decision finds the client's request: its place in the workload.
pub(super) const REQUEST_ID: &str = "x-request-id";

/// Brings decisions, tokens and ends to an [`Observer`] under the engines' names.
pub(super) struct Watch {
    observer: Rc<RefCell<dyn Observer>>,
    engines: RefCell<Vec<Engine>>,
    /// Look-ups only.
    by_address: RefCell<FxHashMap<String, usize>>,
    /// The last decision about each open request. Look-ups only.
    decided: RefCell<FxHashMap<u64, LastDecision>>,
    /// Grows with everything that happens to a request.
    progress: Cell<u64>,
    open: Cell<OpenRequests>,
}

/// How much of a workload is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OpenRequests {
    pub(super) requests: u64,
    /// Tokens of their prompts.
    pub(super) tokens: u64,
}

struct LastDecision {
    at: Instant,
    /// The engine chosen.
    engine: Option<usize>,
}

struct Engine {
    name: Rc<str>,
    requests: Cell<u64>,
}

impl Watch {
    pub(super) fn new(observer: Rc<RefCell<dyn Observer>>) -> Self {
        Watch {
            observer,
            engines: RefCell::default(),
            by_address: RefCell::default(),
            decided: RefCell::default(),
            progress: Cell::new(0),
            open: Cell::default(),
        }
    }

    pub(super) fn add_engine(&self, endpoint: &Endpoint, name: &str) {
        let mut engines = self.engines.borrow_mut();
        self.by_address.borrow_mut().insert(endpoint.to_string(), engines.len());
        engines.push(Engine { name: name.into(), requests: Cell::new(0) });
    }

    /// Whether the observer wants the reasons of decisions.
    pub(super) fn wants_explanations(&self) -> bool {
        self.observer.borrow().wants_explanations()
    }

    /// The requests that each engine was chosen for, in order.
    pub(super) fn requests_by_engine(&self) -> Vec<u64> {
        self.engines.borrow().iter().map(|engine| engine.requests.get()).collect()
    }

    /// A number that grows with everything that happens to a request.
    pub(super) fn progress(&self) -> u64 {
        self.progress.get()
    }

    fn note_progress(&self) {
        self.progress.set(self.progress.get() + 1);
    }

    pub(super) fn tokens_followed(&self, gap: Duration, times: u64) {
        self.note_progress();
        self.observer.borrow_mut().tokens_followed(gap, times);
    }

    pub(super) fn decided(&self, decided: &Decided<'_>) {
        self.note_progress();
        let Ok(request) = decided.request_id.parse() else { return };
        let error;
        let endpoint = match decided.destinations {
            Ok(destinations) => {
                let engine =
                    destinations.first().and_then(|first| self.by_address.borrow().get(first).copied());
                match engine {
                    Some(engine) => {
                        self.note_decision(request, decided.at, Some(engine));
                        Ok(self.count(engine))
                    }
                    None => return,
                }
            }
            Err(failure) => {
                self.note_decision(request, decided.at, None);
                error = failure.to_string();
                Err(error.as_str())
            }
        };
        let endpoint = endpoint.as_deref().map_err(|error| *error);
        let (at, candidates) = (decided.at, decided.candidates);
        let explanation = decided.explanation;
        self.observer.borrow_mut().decided(&Decision { request, at, candidates, endpoint, explanation });
    }

    fn note_decision(&self, request: u64, at: Instant, engine: Option<usize>) {
        self.decided.borrow_mut().insert(request, LastDecision { at, engine });
    }

    fn count(&self, engine: usize) -> Rc<str> {
        let engine = &self.engines.borrow()[engine];
        engine.requests.set(engine.requests.get() + 1);
        Rc::clone(&engine.name)
    }

    /// How much is under way.
    pub(super) fn open(&self) -> OpenRequests {
        self.open.get()
    }

    /// Counts a request until [`Watch::request_ended`] reports it.
    pub(super) fn request_begun(&self, prompt_tokens: u32) {
        let OpenRequests { requests, tokens } = self.open.get();
        self.open.set(OpenRequests { requests: requests + 1, tokens: tokens + u64::from(prompt_tokens) });
    }

    /// Reports the end of a request under the name of the engine that was chosen for it.
    pub(super) fn request_ended(&self, end: &RequestEnd<'_>) {
        self.note_progress();
        let OpenRequests { requests, tokens } = self.open.get();
        self.open.set(OpenRequests {
            requests: requests.saturating_sub(1),
            tokens: tokens.saturating_sub(u64::from(end.prompt_tokens)),
        });
        let last = self.decided.borrow_mut().remove(&end.request);
        let engine = last.as_ref().and_then(|last| last.engine);
        let name = engine.map(|engine| Rc::clone(&self.engines.borrow()[engine].name));
        let decided = last.map(|last| last.at);
        self.observer.borrow_mut().request_ended(&RequestEnd { endpoint: name.as_deref(), decided, ..*end });
    }
}
