//! Where the index learns: KV events, and endpoints that come and go (request-control spec 8.8, 15).

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::PrecisePrefixCacheProducer;
use crate::data_layer::{EndpointEvent, EndpointListener};
use crate::endpoint::{Endpoint, EndpointMetadata};
use crate::metrics::{Metric, Registry};
use crate::prefix::PodMatch;
use crate::prefix::block_index::BlockIndex;
use crate::prefix::kv_events::{
    Applied, KvBatch, KvEventSink, MissingKind, SubscriberSpec, Subscribers, decode, reset_pod, split_topic,
};

/// Id of the subscription on a socket of our own.
const LOCAL: &str = "local-subscriber";

/// What happens to the events, counted.
pub(super) struct EventMetrics {
    name: String,
    stores_skipped: Metric,
    removals_skipped: Metric,
    suppressed: Metric,
    forwarded: Metric,
    dropped: Metric,
    bytes: Metric,
    blocks: Metric,
    index: Option<IndexMetrics>,
    /// Causes that have been logged.
    logged: RefCell<BTreeSet<&'static str>>,
}

/// What `enableMetrics` adds.
struct IndexMetrics {
    admissions: Metric,
    evictions: Metric,
    lookups: Metric,
    hits: Metric,
    best: Metric,
}

impl EventMetrics {
    pub(super) fn new(registry: &Registry, name: &str, has_index_metrics: bool) -> Self {
        let event = |name: &str| registry.metric(&format!("llm_d_router_epp_kv_cache_events_{name}_total"));
        let index = |name: &str| registry.metric(&format!("llm_d_router_epp_kv_cache_index_{name}_total"));
        EventMetrics {
            name: name.to_owned(),
            stores_skipped: event("stores_skipped"),
            removals_skipped: event("removals_skipped"),
            suppressed: event("dedup_removed_hashes_suppressed"),
            forwarded: event("dedup_removed_hashes_forwarded"),
            dropped: registry.metric("lockstep_kv_cache_events_dropped_total"),
            bytes: registry.metric("lockstep_kv_cache_index_bytes"),
            blocks: registry.metric("lockstep_kv_cache_index_blocks"),
            index: has_index_metrics.then(|| IndexMetrics {
                admissions: index("admissions"),
                evictions: index("evictions"),
                lookups: index("lookup_requests"),
                hits: index("lookup_hits"),
                best: index("max_pod_hit_count"),
            }),
            logged: RefCell::default(),
        }
    }

    /// Counts look-ups that found `matches`.
    pub(super) fn looked_up(&self, matches: &[PodMatch]) {
        let Some(index) = &self.index else { return };
        let best = matches.iter().map(|found| found.blocks).max().unwrap_or(0);
        index.lookups.inc(&[]);
        index.best.add(&[], best as f64);
        index.hits.add(&[], best as f64);
    }

    fn applied(&self, applied: &Applied) {
        for ((kind, reason), times) in &applied.stores_skipped {
            self.stores_skipped.add(&[kind, reason], *times as f64);
        }
        for ((kind, reason), times) in &applied.removals_skipped {
            self.removals_skipped.add(&[kind, reason], *times as f64);
        }
        for (reason, times) in &applied.stores_dropped {
            self.drop(reason, *times);
        }
        self.suppressed.add(&[], applied.removed_suppressed as f64);
        self.forwarded.add(&[], applied.removed_forwarded as f64);
        if let Some(index) = &self.index {
            index.admissions.add(&[], applied.stored as f64);
            index.evictions.add(&[], applied.removed_forwarded as f64);
        }
    }

    /// Counts what was lost, and says so once a cause.
    fn drop(&self, reason: &'static str, times: u64) {
        self.dropped.add(&[&self.name, reason], times as f64);
        if self.logged.borrow_mut().insert(reason) {
            tracing::warn!(
                plugin = self.name,
                reason,
                "KV events are dropped; further ones are counted only"
            );
        }
    }

    fn size(&self, index: &BlockIndex) {
        self.bytes.set(&[&self.name], index.bytes() as f64);
        self.blocks.set(&[&self.name], index.len() as f64);
    }

    fn missing_kind(&self) {
        tracing::warn!(
            plugin = self.name,
            "engines report blocks of cache groups without saying their kind, as vLLM 0.21 does: the llm-d Router \
             v0.10.0 drops every one of them, and so does this router; `lockstep: {{compat: {{kvEvents: fixed}}}}` \
             stores them"
        );
    }
}

impl KvEventSink for PrecisePrefixCacheProducer {
    fn subscribe_with(&self, subscribers: Box<dyn Subscribers>) {
        let events = &self.parameters.events;
        if !events.zmq_endpoint.is_empty() {
            subscribers.ensure(SubscriberSpec {
                id: LOCAL.to_owned(),
                endpoint: events.zmq_endpoint.clone(),
                filter: events.topic_filter.clone(),
                ..SubscriberSpec::default()
            });
        }
        let _ = self.subscribers.set(subscribers);
    }

    fn has_own_socket(&self) -> bool {
        !self.parameters.events.zmq_endpoint.is_empty()
    }

    fn ingest(&self, source: &str, topic: &str, payload: &[u8]) {
        match decode(self.parameters.engine, payload) {
            Ok(batch) => self.ingest_batch(source, topic, &batch),
            Err(error) => {
                tracing::debug!(source, topic, %error, "a batch of KV events cannot be read");
                self.metrics.drop("undecodable_batch", 1);
            }
        }
    }

    fn ingest_batch(&self, source: &str, topic: &str, batch: &KvBatch) {
        let core = &mut *self.up_to_date();
        let applied = core.applier.apply(&mut core.index, source, topic, batch);
        self.metrics.applied(&applied);
        self.metrics.size(&core.index);
        if let Some(MissingKind) = core.applier.take_missing_kind() {
            self.metrics.missing_kind();
        }
    }

    fn reset(&self, source: &str, topic: &str) {
        let pod = if source.is_empty() { split_topic(topic).0 } else { source };
        let core = &mut *self.up_to_date();
        reset_pod(&mut core.index, pod);
        self.metrics.size(&core.index);
    }

    fn clear_endpoint(&self, pod: &str) {
        let core = &mut *self.up_to_date();
        core.index.clear(pod);
        self.metrics.size(&core.index);
    }
}

impl PrecisePrefixCacheProducer {
    /// Returns the subscription to an endpoint; `None` where endpoints are not subscribed to.
    fn subscription(&self, endpoint: &EndpointMetadata) -> Option<SubscriberSpec> {
        let events = &self.parameters.events;
        let discovery = events.pod_discovery_config.as_ref().filter(|_| events.discover_pods)?;
        let address = &endpoint.address;
        let at = |port: i64| format!("tcp://{address}:{}", port.saturating_add(endpoint.rank_index as i64));
        Some(SubscriberSpec {
            id: endpoint.id.to_string(),
            source: format!("{address}:{}", endpoint.port),
            endpoint: at(discovery.socket_port),
            replay: match discovery.replay_socket_port {
                ..=0 => String::new(),
                port => at(port),
            },
            filter: events.topic_filter.clone(),
            dial: true,
        })
    }
}

impl EndpointListener for PrecisePrefixCacheProducer {
    fn on_event(&self, event: &EndpointEvent, _endpoint: Option<&mut Endpoint>) {
        let (EndpointEvent::AddOrUpdate(metadata) | EndpointEvent::Delete(metadata)) = event;
        let Some(spec) = self.subscription(metadata) else { return };
        let subscribers = self.subscribers.get();
        let has_address = !metadata.address.is_empty();
        match event {
            EndpointEvent::AddOrUpdate(_) => {
                if let Some(subscribers) = subscribers.filter(|_| has_address) {
                    subscribers.ensure(spec);
                }
            }
            EndpointEvent::Delete(_) => {
                if let Some(subscribers) = subscribers {
                    subscribers.remove(&spec.id);
                }
                if has_address {
                    self.clear_endpoint(&spec.source);
                }
            }
        }
    }
}
