use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::endpoint::EndpointId;

/// The requests that run on each endpoint, by their objectives of time an output token.
#[derive(Debug, Default)]
pub(super) struct Running(BTreeMap<EndpointId, Queue>);

#[derive(Debug, Default)]
struct Queue {
    objectives: FxHashMap<Rc<str>, Objective>,
    by_objective: BTreeSet<(Objective, Rc<str>)>,
}

/// An objective, ordered; none is 0.
#[derive(Clone, Copy, Debug)]
struct Objective(f64);

impl PartialEq for Objective {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Objective {}

impl PartialOrd for Objective {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Objective {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Running {
    /// Adds a request to an endpoint's, unless it is there already or its objective is below zero; the endpoint has a
    /// queue from then on in any case.
    pub(super) fn insert(&mut self, endpoint: &EndpointId, request: Option<(&str, f64)>) {
        let queue = self.0.entry(endpoint.clone()).or_default();
        let Some((id, objective)) = request else { return };
        if objective < 0.0 || queue.objectives.contains_key(id) {
            return;
        }
        let id: Rc<str> = id.into();
        queue.objectives.insert(Rc::clone(&id), Objective(objective));
        queue.by_objective.insert((Objective(objective), id));
    }

    /// Takes a request away; a queue that is empty then is gone.
    pub(super) fn remove(&mut self, endpoint: &EndpointId, id: &str) {
        let Some(queue) = self.0.get_mut(endpoint) else { return };
        if let Some((id, objective)) = queue.objectives.remove_entry(id) {
            queue.by_objective.remove(&(objective, id));
        }
        if queue.objectives.is_empty() {
            self.0.remove(endpoint);
        }
    }

    /// Returns how many requests run on an endpoint, and the smallest objective among them, 0 without any.
    pub(super) fn of(&self, endpoint: &EndpointId) -> (usize, f64) {
        self.0.get(endpoint).map_or((0, 0.0), Queue::summary)
    }

    /// Iterates over the endpoints with what [`of`](Self::of) says of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&EndpointId, usize, f64)> {
        self.0.iter().map(|(id, queue)| {
            let (requests, least) = queue.summary();
            (id, requests, least)
        })
    }
}

impl Queue {
    fn summary(&self) -> (usize, f64) {
        // What is promised any time is promised nothing.
        let least =
            self.by_objective.first().map(|(objective, _)| objective.0).filter(|least| least.is_finite());
        (self.objectives.len(), least.unwrap_or(0.0))
    }
}
