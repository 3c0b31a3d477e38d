//! Which endpoints exist (configuration spec 7.4).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use executor::Rt;

use super::collector::{Collecting, Collector};
use super::dispatcher::BoundSource;
use super::endpoints::Endpoints;
use super::silence::Silence;
use super::{EndpointEvent, EndpointListener, EndpointNotifier};
use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use crate::metrics::Registry;

/// What the data layer runs for each endpoint.
#[derive(Clone, Default)]
pub struct Plan {
    /// Polling sources, in the order in which they poll.
    pub sources: Vec<BoundSource>,
    /// Base tick of the sources, see [`tick::base`](super::tick::base).
    pub base: Duration,
    /// Who sees endpoints come and go, in order.
    pub listeners: Vec<Rc<dyn EndpointListener>>,
}

/// The endpoints, each with its collector.
///
/// Discovery adds and removes them. Listeners see an endpoint before it can be a candidate.
pub struct Datastore {
    endpoints: Endpoints,
    silence: Silence,
    collecting: Collecting,
    collectors: RefCell<BTreeMap<EndpointId, Option<Collector>>>,
    listeners: Vec<Rc<dyn EndpointListener>>,
}

impl Datastore {
    /// Returns a datastore without endpoints.
    ///
    /// # Panics
    /// When there are sources and the base tick is zero.
    pub fn new(rt: &Rt, plan: Plan, registry: &Registry) -> Self {
        assert!(plan.sources.is_empty() || !plan.base.is_zero(), "sources need a base tick above zero");
        let endpoints = Endpoints::default();
        let silence = Silence::new(rt);
        let collecting = Collecting::new(
            rt.clone(),
            endpoints.clone(),
            plan.sources,
            plan.base,
            silence.clone(),
            registry,
        );
        Datastore {
            endpoints,
            silence,
            collecting,
            collectors: RefCell::default(),
            listeners: plan.listeners,
        }
    }

    /// Returns the endpoints.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// Returns which model servers leave polls unanswered.
    pub fn silence(&self) -> &Silence {
        &self.silence
    }

    /// Removes every endpoint that `gone` picks, in order of their IDs.
    pub fn delete_where(&self, gone: impl Fn(&EndpointMetadata) -> bool) {
        for endpoint in self.endpoints.snapshot().iter().filter(|endpoint| gone(&endpoint.metadata)) {
            self.delete(&endpoint.metadata.id);
        }
    }

    fn add(&self, metadata: Rc<EndpointMetadata>) {
        let id = metadata.id.clone();
        let mut endpoint = Endpoint { metadata: Rc::clone(&metadata), ..Endpoint::default() };
        self.tell(&EndpointEvent::AddOrUpdate(metadata), Some(&mut endpoint));
        self.endpoints.insert(endpoint);
        let collector = self.collecting.start(id.clone());
        self.collectors.borrow_mut().insert(id, collector);
    }

    fn tell(&self, event: &EndpointEvent, mut endpoint: Option<&mut Endpoint>) {
        for listener in &self.listeners {
            listener.on_event(event, endpoint.as_deref_mut());
        }
    }
}

impl EndpointNotifier for Datastore {
    /// Adds an endpoint, or changes the one of its ID; equal metadata are no event.
    fn upsert(&self, metadata: EndpointMetadata) {
        let Some(known) = self.endpoints.get(&metadata.id) else {
            return self.add(Rc::new(metadata));
        };
        if *known.metadata == metadata {
            return;
        }
        let metadata = Rc::new(metadata);
        // Not inside `update`: a listener may look at the list.
        let mut endpoint = Endpoint::clone(&known);
        self.silence.forget(&metadata.id);
        endpoint.metadata = Rc::clone(&metadata);
        self.tell(&EndpointEvent::AddOrUpdate(metadata), Some(&mut endpoint));
        self.endpoints.insert(endpoint);
    }

    /// Removes an endpoint, if it is there, and ends its polls.
    fn delete(&self, id: &EndpointId) {
        let Some(endpoint) = self.endpoints.remove(id) else { return };
        self.tell(&EndpointEvent::Delete(Rc::clone(&endpoint.metadata)), None);
        self.collectors.borrow_mut().remove(id);
        self.silence.forget(id);
    }
}

impl fmt::Debug for Datastore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Datastore").field("endpoints", &self.endpoints).finish_non_exhaustive()
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("sources", &self.sources)
            .field("base", &self.base)
            .field("listeners", &self.listeners.len())
            .finish()
    }
}

#[cfg(test)]
mod tests;
