use std::collections::BTreeMap;
use std::rc::Rc;

use crate::attributes::InFlightLoad;
use crate::endpoint::{EndpointId, EndpointMetadata};

/// The counters of all endpoints.
///
/// An endpoint that is deleted and comes back starts from zero, while what was taken from its former life is
/// given back to nobody: each life has an epoch of its own.
#[derive(Debug, Default)]
pub(super) struct Counters {
    endpoints: BTreeMap<EndpointId, Counter>,
    epochs: u64,
}

#[derive(Debug)]
struct Counter {
    load: Rc<InFlightLoad>,
    epoch: u64,
    /// Whether anything was taken in this life.
    tracked: bool,
    /// The endpoint as last announced.
    object: Option<Rc<EndpointMetadata>>,
}

/// What was taken from a counter and not given back.
#[derive(Debug)]
pub(super) struct Held {
    load: Rc<InFlightLoad>,
    id: EndpointId,
    epoch: u64,
    requests: i64,
    tokens: i64,
}

impl Counters {
    /// Takes one request with `tokens`.
    pub(super) fn take(&mut self, id: &EndpointId, tokens: i64) -> Held {
        let counter = self.counter(id);
        counter.tracked = true;
        add(&counter.load, 1, tokens);
        Held { load: Rc::clone(&counter.load), id: id.clone(), epoch: counter.epoch, requests: 1, tokens }
    }

    /// Gives everything back that is still held.
    pub(super) fn release(&self, held: &mut Held) {
        let requests = std::mem::take(&mut held.requests);
        let tokens = std::mem::take(&mut held.tokens);
        self.give_back(held, requests, tokens);
    }

    /// Gives the tokens back and keeps the request.
    pub(super) fn release_tokens(&self, held: &mut Held) {
        let tokens = std::mem::take(&mut held.tokens);
        self.give_back(held, 0, tokens);
    }

    fn give_back(&self, held: &Held, requests: i64, tokens: i64) {
        let same_life = self.endpoints.get(&held.id).is_some_and(|counter| counter.epoch == held.epoch);
        if same_life {
            add(&held.load, -requests, -tokens);
        }
    }

    /// Notes that an endpoint was added or changed, and returns its live counts.
    pub(super) fn attach(&mut self, endpoint: &Rc<EndpointMetadata>) -> Rc<InFlightLoad> {
        let counter = self.counter(&endpoint.id);
        counter.object = Some(Rc::clone(endpoint));
        Rc::clone(&counter.load)
    }

    /// Notes that an endpoint is gone; an endpoint that has been replaced since is another one, and stays.
    pub(super) fn detach(&mut self, endpoint: &Rc<EndpointMetadata>) {
        let Some(counter) = self.endpoints.get_mut(&endpoint.id) else { return };
        if counter.object.as_ref().is_some_and(|known| !Rc::ptr_eq(known, endpoint)) {
            return;
        }
        self.epochs += 1;
        counter.epoch = self.epochs;
        counter.tracked = false;
        counter.object = None;
        counter.load.requests.set(0);
        counter.load.tokens.set(0);
        // Snapshots of a deleted endpoint read on, so a counter goes when nobody looks at it any more.
        self.endpoints.retain(|_, c| c.tracked || c.object.is_some() || Rc::strong_count(&c.load) > 1);
    }

    /// Iterates over the endpoints that anything was taken from, in order of identity.
    pub(super) fn tracked(&self) -> impl Iterator<Item = (&EndpointId, &InFlightLoad)> {
        self.endpoints.iter().filter(|(_, counter)| counter.tracked).map(|(id, counter)| (id, &*counter.load))
    }

    fn counter(&mut self, id: &EndpointId) -> &mut Counter {
        if !self.endpoints.contains_key(id) {
            self.epochs += 1;
            let counter = Counter { load: Rc::default(), epoch: self.epochs, tracked: false, object: None };
            self.endpoints.insert(id.clone(), counter);
        }
        self.endpoints.get_mut(id).expect("the counter was just made")
    }
}

/// Adds to both counts; neither falls below zero.
fn add(load: &InFlightLoad, requests: i64, tokens: i64) {
    load.requests.set(load.requests.get().saturating_add(requests).max(0));
    load.tokens.set(load.tokens.get().saturating_add(tokens).max(0));
}
