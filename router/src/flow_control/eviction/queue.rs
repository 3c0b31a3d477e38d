use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::{EvictionFilter, EvictionKey, EvictionOrder, InFlight};
use crate::flow_control::heap::{Heap, Place};

/// A request in flight with what its owner needs to evict it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvictionItem<T> {
    /// Its `x-request-id`.
    pub id: Rc<str>,
    /// What the policies see.
    pub request: InFlight,
    /// What the owner needs.
    pub owned: T,
}

/// The requests in flight by id, and those of them that may be evicted in their order.
pub struct EvictionQueue<T> {
    filter: Rc<dyn EvictionFilter>,
    order: Rc<dyn EvictionOrder>,
    in_flight: BTreeMap<Rc<str>, Option<Place>>,
    evictable: Heap<EvictionKey, EvictionItem<T>>,
}

impl<T> EvictionQueue<T> {
    /// Returns an empty queue under these policies.
    pub fn new(filter: Rc<dyn EvictionFilter>, order: Rc<dyn EvictionOrder>) -> Self {
        EvictionQueue { filter, order, in_flight: BTreeMap::new(), evictable: Heap::default() }
    }

    /// Adds a request, in place of one with its id.
    pub fn track(&mut self, item: EvictionItem<T>) {
        self.untrack(&item.id.clone());
        let id = Rc::clone(&item.id);
        let accepted = self.filter.accepts(&item.request);
        let place = accepted.then(|| self.evictable.push(self.order.key(&item.request), item));
        self.in_flight.insert(id, place);
    }

    /// Removes a request, if it is there.
    pub fn untrack(&mut self, id: &str) {
        if let Some(Some(place)) = self.in_flight.remove(id) {
            self.evictable.remove(place);
        }
    }

    /// Takes out the request that goes first.
    pub fn pop(&mut self) -> Option<EvictionItem<T>> {
        let (_, item) = self.evictable.pop()?;
        self.in_flight.remove(&item.id);
        Some(item)
    }

    /// Returns the request that goes first.
    pub fn peek(&self) -> Option<&EvictionItem<T>> {
        self.evictable.peek().map(|(_, item, _)| item)
    }

    /// Returns how many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns how many of them may be evicted.
    pub fn evictable(&self) -> usize {
        self.evictable.len()
    }
}

impl<T> fmt::Debug for EvictionQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvictionQueue")
            .field("in_flight", &self.in_flight())
            .field("evictable", &self.evictable())
            .finish_non_exhaustive()
    }
}
