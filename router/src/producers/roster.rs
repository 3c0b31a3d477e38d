use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::data_layer::{EndpointEvent, EndpointListener};
use crate::endpoint::{Endpoint, EndpointId};

/// The endpoints that the data layer has.
#[derive(Debug, Default)]
pub(super) struct Roster(RefCell<BTreeSet<EndpointId>>);

impl Roster {
    pub(super) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    pub(super) fn contains(&self, id: &EndpointId) -> bool {
        self.0.borrow().contains(id)
    }
}

impl EndpointListener for Roster {
    fn on_event(&self, event: &EndpointEvent, _endpoint: Option<&mut Endpoint>) {
        let mut endpoints = self.0.borrow_mut();
        match event {
            EndpointEvent::AddOrUpdate(metadata) => endpoints.insert(metadata.id.clone()),
            EndpointEvent::Delete(metadata) => endpoints.remove(&metadata.id),
        };
    }
}
