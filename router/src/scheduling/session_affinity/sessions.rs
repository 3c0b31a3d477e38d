//! Which endpoint each session is bound to.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::Instant;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::candidates::Candidate;
use crate::endpoint::EndpointId;
use crate::plugin::Periodic;
use crate::producers::{JANITOR_PERIOD, PluginState};
use crate::request::InferenceRequest;
use crate::scheduling::SchedulingContext;

/// Key of a request's presence record.
const PRESENT: &str = "present";

/// Where a session id may stand.
#[derive(Debug)]
pub(super) enum Source {
    /// In a request header, named in lower case.
    Header(String),
    /// In a request attribute that is text.
    Attribute(String),
}

impl Source {
    fn read<'a>(&self, request: &'a InferenceRequest) -> Option<&'a str> {
        match self {
            Source::Header(name) => request.headers.get(name),
            Source::Attribute(key) => {
                let attributes = &request.attributes;
                let owned = attributes.get::<String>(key).map(String::as_str);
                let shared = || attributes.get::<Rc<str>>(key).map(|text| &**text);
                owned.or_else(shared).or_else(|| attributes.get::<&'static str>(key).copied())
            }
        }
    }
}

/// The bindings of all sessions, and which requests had their bound endpoint among the candidates.
pub(super) struct Sessions {
    sources: Vec<Source>,
    ttl: Duration,
    sweep: Duration,
    bindings: RefCell<IndexMap<String, Binding, FxBuildHasher>>,
    presence: RefCell<PluginState<bool>>,
}

struct Binding {
    endpoint: EndpointId,
    last_seen: Instant,
}

impl Sessions {
    pub(super) fn new(sources: Vec<Source>, ttl: Duration, sweep: Duration) -> Self {
        Sessions { sources, ttl, sweep, bindings: RefCell::default(), presence: RefCell::default() }
    }

    /// Returns the session of a request: the first source that says something.
    fn session<'a>(&self, request: &'a InferenceRequest) -> Option<&'a str> {
        self.sources.iter().filter_map(|s| s.read(request)).map(str::trim).find(|id| !id.is_empty())
    }

    /// Returns the candidate that the request's session is bound to, and records whether there is one. Binds
    /// nothing. Of several candidates with the bound ID the last one counts.
    pub(super) fn choose(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate]) -> Option<Candidate> {
        if survivors.is_empty() {
            return None;
        }
        let bindings = self.bindings.borrow();
        let bound = &bindings.get(self.session(cx.request)?)?.endpoint;
        let is_bound = |c: &&Candidate| cx.candidates.endpoint(**c).metadata.id == *bound;
        let target = survivors.iter().rfind(is_bound).copied();
        self.presence.borrow_mut().write(&cx.request.request_id, PRESENT, target.is_some(), cx.now);
        target
    }

    /// Takes note of where a request of the session goes. A session moves only when its endpoint was not among
    /// the candidates: one that was outvoted keeps its binding, and does not count as seen.
    pub(super) fn picked(&self, request: &InferenceRequest, endpoint: &EndpointId, now: Instant) {
        let Some(session) = self.session(request) else { return };
        let mut bindings = self.bindings.borrow_mut();
        let picked = Binding { endpoint: endpoint.clone(), last_seen: now };
        let Some(binding) = bindings.get_mut(session) else {
            bindings.insert(session.to_owned(), picked);
            return;
        };
        if binding.endpoint == *endpoint {
            binding.last_seen = now;
            return;
        }
        let mut presence = self.presence.borrow_mut();
        if presence.read(&request.request_id, PRESENT, now).is_some_and(|present| !*present) {
            *binding = picked;
        }
    }
}

/// Forgets the sessions that were not seen for longer than the time to live; one of zero keeps all.
impl Periodic for Sessions {
    fn period(&self) -> Duration {
        self.sweep
    }

    fn tick(&self, now: Instant) {
        if !self.ttl.is_zero() {
            self.bindings.borrow_mut().retain(|_, binding| now - binding.last_seen <= self.ttl);
        }
    }
}

/// Forgets the presence records of requests that are long over.
pub(super) struct Janitor(pub(super) Rc<Sessions>);

impl Periodic for Janitor {
    fn period(&self) -> Duration {
        JANITOR_PERIOD
    }

    fn tick(&self, now: Instant) {
        self.0.presence.borrow_mut().sweep(now);
    }
}
