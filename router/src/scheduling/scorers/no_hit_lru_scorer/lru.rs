//! A set of endpoints in order of use.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::endpoint::EndpointId;

/// Endpoints in order of their last use, at most `capacity` of them.
#[derive(Debug)]
pub(super) struct Lru {
    capacity: usize,
    /// Uses so far; orders the entries.
    clock: u64,
    by_use: BTreeMap<u64, EndpointId>,
    /// For look-ups only: a hash map has no order.
    last_use: FxHashMap<EndpointId, u64>,
}

impl Lru {
    /// Returns an empty set for `capacity` endpoints, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        Lru { capacity: capacity.max(1), clock: 0, by_use: BTreeMap::new(), last_use: FxHashMap::default() }
    }

    /// Makes the endpoint the newest; the oldest one goes when there are too many.
    pub(super) fn add(&mut self, id: &EndpointId) {
        self.clock += 1;
        if let Some(earlier) = self.last_use.insert(id.clone(), self.clock) {
            self.by_use.remove(&earlier);
        }
        self.by_use.insert(self.clock, id.clone());
        if self.by_use.len() > self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.last_use.remove(&oldest);
        }
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.by_use.len()
    }

    /// Iterates from the oldest to the newest.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = &EndpointId> {
        self.by_use.values()
    }

    /// Returns the place of each, the oldest at zero; for look-ups.
    pub(super) fn places(&self) -> FxHashMap<&EndpointId, usize> {
        self.oldest_first().enumerate().map(|(place, id)| (id, place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lru: &Lru) -> Vec<&str> {
        lru.oldest_first().map(|id| id.name.as_str()).collect()
    }

    #[test]
    fn using_again_makes_new_and_too_many_drop_the_oldest() {
        let mut lru = Lru::new(3);
        for name in ["a", "b", "c", "a", "d"] {
            lru.add(&EndpointId::new("ns", name));
        }
        assert_eq!(names(&lru), ["c", "a", "d"]);
        assert_eq!(lru.places().get(&EndpointId::new("ns", "a")), Some(&1));
        assert_eq!(lru.places().get(&EndpointId::new("ns", "b")), None);
    }

    #[test]
    fn the_least_capacity_is_one() {
        let mut lru = Lru::new(0);
        lru.add(&EndpointId::new("ns", "a"));
        lru.add(&EndpointId::new("ns", "b"));
        assert_eq!(names(&lru), ["b"]);
    }
}
