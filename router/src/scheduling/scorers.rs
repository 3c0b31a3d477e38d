//! Scorers: how good each candidate is (scheduling spec 5).

pub mod active_request_scorer;
pub mod context_length_aware;
pub mod endpoint_attribute_scorer;
pub mod header_label_affinity_scorer;
pub mod kv_cache_utilization_scorer;
pub mod latency_scorer;
pub mod load_aware_scorer;
pub mod lora_affinity_scorer;
mod min_max;
pub mod mm_embeddings_cache_scorer;
mod multicluster;
pub mod multicluster_kv_cache_utilization_scorer;
pub mod multicluster_prefix_cache_scorer;
pub mod multicluster_queue_scorer;
pub mod no_hit_lru_scorer;
pub mod precise_prefix_cache_scorer;
pub mod prefix_cache_scorer;
pub mod queue_scorer;
pub mod running_requests_size_scorer;
pub mod session_affinity_scorer;
pub mod token_load_scorer;
pub mod topology_affinity_scorer;

use crate::plugin::Factory;

/// The scorer types that are built.
pub const TYPES: &[(&str, Factory)] = &[
    (active_request_scorer::TYPE, active_request_scorer::factory),
    (context_length_aware::TYPE, context_length_aware::factory),
    (endpoint_attribute_scorer::TYPE, endpoint_attribute_scorer::factory),
    (header_label_affinity_scorer::TYPE, header_label_affinity_scorer::factory),
    (kv_cache_utilization_scorer::TYPE, kv_cache_utilization_scorer::factory),
    (latency_scorer::TYPE, latency_scorer::factory),
    (load_aware_scorer::TYPE, load_aware_scorer::factory),
    (lora_affinity_scorer::TYPE, lora_affinity_scorer::factory),
    (mm_embeddings_cache_scorer::TYPE, mm_embeddings_cache_scorer::factory),
    (multicluster_kv_cache_utilization_scorer::TYPE, multicluster_kv_cache_utilization_scorer::factory),
    (multicluster_prefix_cache_scorer::TYPE, multicluster_prefix_cache_scorer::factory),
    (multicluster_queue_scorer::TYPE, multicluster_queue_scorer::factory),
    (no_hit_lru_scorer::TYPE, no_hit_lru_scorer::factory),
    (precise_prefix_cache_scorer::TYPE, precise_prefix_cache_scorer::factory),
    (prefix_cache_scorer::TYPE, prefix_cache_scorer::factory),
    (queue_scorer::TYPE, queue_scorer::factory),
    (running_requests_size_scorer::TYPE, running_requests_size_scorer::factory),
    (session_affinity_scorer::TYPE, session_affinity_scorer::factory),
    (token_load_scorer::TYPE, token_load_scorer::factory),
    (topology_affinity_scorer::TYPE, topology_affinity_scorer::factory),
];

#[cfg(test)]
mod tests;
