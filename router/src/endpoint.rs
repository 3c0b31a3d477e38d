//! Endpoints: what is known of a model server.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use executor::Instant;

use crate::attributes::Attributes;

/// The identity of an endpoint, written `namespace/name` (with an empty namespace: `/name`).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointId {
    /// Namespace, may be empty.
    pub namespace: String,
    /// Name, unique in its namespace.
    pub name: String,
}

impl EndpointId {
    /// Returns the identity of `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        EndpointId { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// What does not change while an endpoint lives (scheduling spec 1.2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EndpointMetadata {
    /// Identity, the key of the datastore.
    pub id: EndpointId,
    /// Display name, a metric label.
    pub name: String,
    /// IP address or host name.
    pub address: String,
    /// Address of the node, empty outside Kubernetes.
    pub node_address: String,
    /// Inference port, as text.
    pub port: String,
    /// `host:port` that is scraped.
    pub metrics_host: String,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Position among the pool's target ports (data-parallel rank).
    pub rank_index: usize,
}

impl EndpointMetadata {
    /// Returns `host:port`, an IPv6 address in brackets.
    pub fn host_port(&self) -> String {
        if self.address.contains(':') {
            format!("[{}]:{}", self.address, self.port)
        } else {
            format!("{}:{}", self.address, self.port)
        }
    }
}

/// The last scrape of an endpoint (scheduling spec 1.3). Never scraped = all zero: it looks idle.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Models and adapters loaded; the counts are not used.
    pub active_models: Rc<BTreeMap<String, i64>>,
    /// Adapters waiting to be loaded.
    pub waiting_models: Rc<BTreeMap<String, i64>>,
    /// Adapter slots.
    pub max_active_models: i64,
    /// Running requests.
    pub running_requests_size: i64,
    /// Waiting requests.
    pub waiting_queue_size: i64,
    /// KV cache in use: a fraction 0..1, whatever upstream's name says.
    pub kv_cache_usage_percent: f64,
    /// Tokens that the KV cache holds; written by no extractor of the pinned release.
    pub kv_cache_max_token_capacity: i64,
    /// Tokens a KV block.
    pub cache_block_size: i64,
    /// KV blocks.
    pub cache_num_blocks: i64,
    /// When the scrape was extracted; `None` = never.
    pub update_time: Option<Instant>,
}

/// One endpoint as of one moment: immutable, shared by every decision until a scrape replaces it.
#[derive(Clone, Debug, Default)]
pub struct Endpoint {
    /// Identity and place.
    pub metadata: Rc<EndpointMetadata>,
    /// Last scrape.
    pub metrics: Metrics,
    /// Attributes that outlive a request (scraped values, topology, in-flight load).
    pub attributes: Attributes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_always_has_its_slash() {
        assert_eq!(EndpointId::new("", "pod1").to_string(), "/pod1");
        assert_eq!(EndpointId::new("ns", "pod1").to_string(), "ns/pod1");
    }

    #[test]
    fn ipv6_addresses_are_bracketed() {
        let v6 = EndpointMetadata { address: "fd00::1".into(), port: "8000".into(), ..Default::default() };
        assert_eq!(v6.host_port(), "[fd00::1]:8000");
    }
}
