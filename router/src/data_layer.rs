//! What the router knows of its endpoints, and how it learns it.
//!
//! Discovery tells the [`datastore`] which endpoints exist. For each of them a task runs the polling sources
//! ([`dispatcher`]); what a source fetched is a [`Payload`], which the source's extractors turn into
//! [`Metrics`](crate::endpoint::Metrics) and attributes of the endpoint. Decisions read the shared list of
//! [`endpoints`].

pub mod core_metrics_extractor;
pub mod datastore;
pub mod dcgm;
pub mod dispatcher;
pub mod endpoint_notification_source;
pub mod endpoints;
pub mod engine_gauges;
pub mod families;
pub mod file_discovery;
pub mod k8s_notification_source;
pub mod metric_spec;
pub mod metrics_data_source;
pub mod models_data_extractor;
pub mod models_data_source;
pub mod multicluster_metrics_extractor;
pub mod objects;
pub mod pool_gauges;
pub mod silence;
pub mod text_format;
pub mod tick;
pub mod topology_extractor;

mod collector;
mod engine_mapping;
mod http_source;
mod poll;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use executor::{Instant, Rt};
use futures::future::LocalBoxFuture;

use crate::attributes::ModelInfo;
use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use crate::plugin::Factory;

use endpoints::Endpoints;
use families::Families;

/// What a polling source fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadKind {
    /// Metric families: [`Payload::Metrics`].
    Metrics,
    /// A list of models: [`Payload::Models`].
    Models,
}

/// What a polling source fetched, decoded once for all extractors.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Metric families.
    Metrics(Families),
    /// The models of a server; `None` = the answer has no list.
    Models(Option<Vec<ModelInfo>>),
}

impl Payload {
    /// Returns the metric families.
    ///
    /// # Errors
    /// When the payload is another one, which the check of the configuration rules out.
    pub fn metrics(&self) -> Result<&Families, ExtractError> {
        match self {
            Payload::Metrics(families) => Ok(families),
            Payload::Models(_) => Err(ExtractError::new("expected metric families, found a list of models")),
        }
    }

    /// Returns the list of models.
    ///
    /// # Errors
    /// When the payload is another one, which the check of the configuration rules out.
    pub fn models(&self) -> Result<Option<&[ModelInfo]>, ExtractError> {
        match self {
            Payload::Models(models) => Ok(models.as_deref()),
            Payload::Metrics(_) => Err(ExtractError::new("expected a list of models, found metric families")),
        }
    }
}

/// Polls something of each endpoint (configuration spec 6.1).
pub trait PollingSource {
    /// Returns the URL to get for this endpoint.
    fn url(&self, endpoint: &EndpointMetadata) -> String;

    /// Returns the source's own interval, zero for the base tick.
    fn interval(&self) -> Duration;

    /// Returns what it fetches.
    fn payload(&self) -> PayloadKind;

    /// Returns how many bytes of a body are read at most.
    fn body_limit(&self) -> usize;

    /// Decodes the body of an answer.
    ///
    /// # Errors
    /// What is wrong with the body: the poll has failed then.
    fn decode(&self, body: Bytes) -> Result<Payload, String>;
}

/// Turns what a source fetched into metrics and attributes of an endpoint.
pub trait Extractor {
    /// Returns what it can read.
    fn payload(&self) -> PayloadKind;

    /// Returns the metric families that it asks for in a scrape of this endpoint.
    fn families(&self, endpoint: &EndpointMetadata) -> Vec<&str> {
        let _ = endpoint;
        Vec::new()
    }

    /// Updates `endpoint`. What cannot be read is left as it is.
    ///
    /// # Errors
    /// Everything that could not be read; the rest has been taken all the same.
    fn extract(&self, payload: &Payload, endpoint: &mut Endpoint, now: Instant) -> Result<(), ExtractError>;
}

/// What an extractor could not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.join("\n"))]
pub struct ExtractError {
    /// The problems, at least one.
    pub problems: Vec<String>,
}

impl ExtractError {
    /// Returns an error of one problem.
    pub fn new(problem: impl Into<String>) -> Self {
        ExtractError { problems: vec![problem.into()] }
    }

    /// Returns the error of `problems`, if there are any.
    fn unless_empty(problems: Vec<String>) -> Result<(), Self> {
        if problems.is_empty() { Ok(()) } else { Err(ExtractError { problems }) }
    }
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

/// A pod came, changed or left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodEvent {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// It is gone; the rest says nothing then.
    pub deleted: bool,
    /// Its condition `Ready` is true.
    pub ready: bool,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// `spec.hostname`, may be empty.
    pub hostname: String,
}

/// Takes pod notifications, synchronously.
pub trait PodListener {
    /// Sees one event. May put attributes on endpoints.
    fn on_pod(&self, event: &PodEvent, endpoints: &Endpoints);
}

/// Where discovery reports endpoints (configuration spec 7.3).
pub trait EndpointNotifier {
    /// Adds or changes an endpoint.
    fn upsert(&self, metadata: EndpointMetadata);

    /// Removes an endpoint.
    fn delete(&self, id: &EndpointId);
}

/// Finds out which endpoints exist (configuration spec 7.3).
pub trait Discovery {
    /// Reports all endpoints once; none is fine. The router is ready when this has succeeded.
    ///
    /// # Errors
    /// What is wrong; the process cannot start then, although some endpoints may have been reported.
    fn load<'a>(
        &'a self,
        rt: &'a Rt,
        notifier: &'a dyn EndpointNotifier,
    ) -> LocalBoxFuture<'a, Result<(), String>>;

    /// Reports changes from then on, in causal order, until the future is dropped; returns at once where
    /// nothing can change.
    fn follow<'a>(&'a self, rt: &'a Rt, notifier: &'a dyn EndpointNotifier) -> LocalBoxFuture<'a, ()>;
}

/// The plugin types of the data layer with their factories.
pub const TYPES: &[(&str, Factory)] = &[
    (core_metrics_extractor::TYPE, core_metrics_extractor::factory),
    (dcgm::EXTRACTOR_TYPE, dcgm::extractor_factory),
    (dcgm::SOURCE_TYPE, dcgm::source_factory),
    (endpoint_notification_source::TYPE, endpoint_notification_source::factory),
    (file_discovery::MULTICLUSTER_TYPE, file_discovery::multicluster_factory),
    (file_discovery::TYPE, file_discovery::factory),
    (k8s_notification_source::TYPE, k8s_notification_source::factory),
    (metrics_data_source::MULTICLUSTER_TYPE, metrics_data_source::multicluster_factory),
    (metrics_data_source::TYPE, metrics_data_source::factory),
    (models_data_extractor::TYPE, models_data_extractor::factory),
    (models_data_source::TYPE, models_data_source::factory),
    (multicluster_metrics_extractor::TYPE, multicluster_metrics_extractor::factory),
    (topology_extractor::TYPE, topology_extractor::factory),
];
