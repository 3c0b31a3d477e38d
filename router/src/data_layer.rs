//! What the router knows of its endpoints, and how it learns it.

use std::rc::Rc;

use bytes::Bytes;
use executor::Instant;

use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use crate::error::PluginError;

/// Polls something once an interval for each endpoint (configuration spec 6.1).
pub trait PollingSource {
    /// Returns the URL to get for this endpoint.
    fn url(&self, endpoint: &EndpointMetadata) -> String;

    /// Returns the source's own interval, zero for the base tick.
    fn interval(&self) -> std::time::Duration;
}

/// Turns what a source fetched into metrics and attributes of an endpoint.
pub trait Extractor {
    /// Updates `endpoint`, a private copy that replaces the published snapshot afterwards.
    fn extract(&self, payload: &Bytes, endpoint: &mut Endpoint, now: Instant) -> Result<(), PluginError>;
}

/// An endpoint came, changed or left.
#[derive(Clone, Debug)]
pub enum EndpointEvent {
    /// Added, or its metadata changed.
    AddOrUpdate(Rc<EndpointMetadata>),
    /// Gone.
    Delete(Rc<EndpointMetadata>),
}

/// Takes endpoint events, synchronously, in causal order.
pub trait EndpointListener {
    /// Sees one event. May put attributes on the endpoint before it becomes a candidate.
    fn on_event(&self, event: &EndpointEvent, endpoint: Option<&mut Endpoint>);
}

/// Where discovery reports endpoints (configuration spec 7.3).
pub trait EndpointNotifier {
    /// Adds or changes an endpoint.
    fn upsert(&self, metadata: EndpointMetadata);

    /// Removes an endpoint.
    fn delete(&self, id: &EndpointId);
}
