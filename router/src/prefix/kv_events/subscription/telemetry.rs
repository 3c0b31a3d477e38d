//! What is counted and logged of subscriptions (request-control spec 15.5).

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::TransportError;
use crate::metrics::{Metric, Registry};

/// The metrics of all subscriptions of a router.
#[derive(Clone, Debug)]
pub struct SubscriptionMetrics {
    active: Metric,
    reconnections: Metric,
    received: Metric,
    errors: Metric,
}

impl SubscriptionMetrics {
    /// Returns the metrics in `registry`.
    pub fn new(registry: &Registry) -> Self {
        let metric = |name: &str| registry.metric(&format!("llm_d_router_epp_kv_cache_events_{name}"));
        SubscriptionMetrics {
            active: metric("active_subscribers"),
            reconnections: metric("subscriber_reconnections_total"),
            received: metric("messages_received_total"),
            errors: metric("zmq_errors_total"),
        }
    }

    /// Says how many subscriptions run.
    pub fn active(&self, count: usize) {
        self.active.set(&[], count as f64);
    }

    /// Returns the part of the subscription `id`.
    pub(super) fn of(&self, id: &str) -> Telemetry {
        Telemetry { id: id.to_owned(), metrics: self.clone(), told: RefCell::default() }
    }
}

/// What is counted of one subscription; its series go with it.
#[derive(Debug)]
pub(super) struct Telemetry {
    id: String,
    metrics: SubscriptionMetrics,
    /// Causes that have been logged.
    told: RefCell<BTreeSet<&'static str>>,
}

impl Telemetry {
    pub(super) fn received(&self) {
        self.metrics.received.inc(&[&self.id]);
    }

    pub(super) fn reconnected(&self) {
        self.metrics.reconnections.inc(&[&self.id]);
    }

    pub(super) fn malformed(&self) {
        self.failed(&TransportError::new("malformed", "a message is not a topic, a number and a batch"));
    }

    pub(super) fn failed(&self, error: &TransportError) {
        self.metrics.errors.inc(&[&self.id, error.operation]);
        self.tell(error.operation, &error.message);
    }

    fn tell(&self, cause: &'static str, message: &str) {
        if self.told.borrow_mut().insert(cause) {
            tracing::warn!(
                subscriber = self.id,
                cause,
                message,
                "KV events of a server are amiss; further cases are counted only"
            );
        }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        for metric in [&self.metrics.reconnections, &self.metrics.received, &self.metrics.errors] {
            metric.remove(&[(0, &self.id)]);
        }
    }
}
