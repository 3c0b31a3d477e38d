//! The list of endpoints that decisions choose from.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use crate::endpoint::{Endpoint, EndpointId};

/// All endpoints, sorted by ID. Cheap to clone: all clones are one list.
///
/// A decision takes a [`snapshot`](Self::snapshot) and keeps it, whatever happens meanwhile: a change copies
/// what a snapshot still holds (the vector of pointers, the one endpoint) and nothing else.
#[derive(Clone, Default)]
pub struct Endpoints(Rc<RefCell<Rc<Vec<Rc<Endpoint>>>>>);

impl Endpoints {
    /// Returns the endpoints as of now.
    pub fn snapshot(&self) -> Rc<Vec<Rc<Endpoint>>> {
        Rc::clone(&self.0.borrow())
    }

    /// Returns an endpoint as of now.
    pub fn get(&self, id: &EndpointId) -> Option<Rc<Endpoint>> {
        let list = self.0.borrow();
        position(&list, id).ok().map(|at| Rc::clone(&list[at]))
    }

    /// Returns how many there are.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets `change` alter an endpoint; `None` where there is none of that ID. The ID itself must stay.
    ///
    /// # Panics
    /// When `change` uses the list.
    pub fn update<T>(&self, id: &EndpointId, change: impl FnOnce(&mut Endpoint) -> T) -> Option<T> {
        let mut list = self.0.borrow_mut();
        let at = position(&list, id).ok()?;
        let changed = change(Rc::make_mut(&mut Rc::make_mut(&mut list)[at]));
        debug_assert_eq!(&list[at].metadata.id, id, "an endpoint keeps its ID");
        Some(changed)
    }

    /// Adds an endpoint, or replaces the one of its ID.
    pub(super) fn insert(&self, endpoint: Endpoint) {
        let mut list = self.0.borrow_mut();
        let at = position(&list, &endpoint.metadata.id);
        let list = Rc::make_mut(&mut list);
        match at {
            Ok(at) => list[at] = Rc::new(endpoint),
            Err(at) => list.insert(at, Rc::new(endpoint)),
        }
    }

    /// Takes an endpoint out.
    pub(super) fn remove(&self, id: &EndpointId) -> Option<Rc<Endpoint>> {
        let mut list = self.0.borrow_mut();
        let at = position(&list, id).ok()?;
        Some(Rc::make_mut(&mut list).remove(at))
    }
}

fn position(list: &[Rc<Endpoint>], id: &EndpointId) -> Result<usize, usize> {
    list.binary_search_by(|endpoint| endpoint.metadata.id.cmp(id))
}

impl fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.borrow().iter().map(|endpoint| endpoint.metadata.id.to_string()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointMetadata;

    fn endpoint(name: &str) -> Endpoint {
        let metadata = EndpointMetadata { id: EndpointId::new("ns", name), ..EndpointMetadata::default() };
        Endpoint { metadata: Rc::new(metadata), ..Endpoint::default() }
    }

    #[test]
    fn the_list_is_sorted_by_id() {
        let endpoints = Endpoints::default();
        for name in ["b", "c", "a", "b"] {
            endpoints.insert(endpoint(name));
        }
        let names: Vec<String> = endpoints.snapshot().iter().map(|e| e.metadata.id.name.clone()).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn a_snapshot_does_not_see_what_comes_after() {
        let endpoints = Endpoints::default();
        endpoints.insert(endpoint("a"));
        endpoints.insert(endpoint("b"));
        let before = endpoints.snapshot();
        let id = EndpointId::new("ns", "a");
        assert_eq!(endpoints.update(&id, |endpoint| endpoint.metrics.waiting_queue_size = 3), Some(()));
        endpoints.remove(&EndpointId::new("ns", "b"));
        assert_eq!(before.len(), 2);
        assert_eq!(before[0].metrics.waiting_queue_size, 0);
        assert_eq!(endpoints.get(&id).unwrap().metrics.waiting_queue_size, 3);
        assert_eq!(endpoints.update(&EndpointId::new("ns", "b"), |_| ()), None);
    }

    #[test]
    fn nothing_is_copied_while_nobody_holds_a_snapshot() {
        let endpoints = Endpoints::default();
        endpoints.insert(endpoint("a"));
        let id = EndpointId::new("ns", "a");
        let before = Rc::as_ptr(&endpoints.get(&id).unwrap());
        endpoints.update(&id, |endpoint| endpoint.metrics.waiting_queue_size = 3);
        assert_eq!(Rc::as_ptr(&endpoints.get(&id).unwrap()), before);
    }
}
