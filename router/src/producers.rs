//! Data producers: what is found out about a request and its candidates before scheduling (request-control
//! spec 8).

pub mod approx_prefix_cache_producer;
pub mod burst_prefix_cache_producer;
pub mod inflight_load_producer;
pub mod mm_embeddings_cache_producer;
pub mod multicluster_approx_prefix_cache_producer;
pub mod p2p_source_producer;
pub mod precise_prefix_cache_producer;
pub mod predicted_latency_producer;
pub mod session_id_producer;
pub mod token_producer;

mod plugin_state;
mod roster;

pub use approx_prefix_cache_producer::ApproxPrefixCacheProducer;
pub use burst_prefix_cache_producer::BurstPrefixCacheProducer;
pub use inflight_load_producer::InflightLoadProducer;
pub use p2p_source_producer::P2pSourceProducer;
pub(crate) use plugin_state::JANITOR_PERIOD;
pub use plugin_state::PluginState;
pub use precise_prefix_cache_producer::PrecisePrefixCacheProducer;
pub use token_producer::TokenProducer;

use crate::plugin::Factory;

/// The data producer types that are built, each with its factory.
pub const TYPES: &[(&str, Factory)] = &[
    (ApproxPrefixCacheProducer::TYPE, approx_prefix_cache_producer::factory),
    (BurstPrefixCacheProducer::TYPE, burst_prefix_cache_producer::factory),
    (InflightLoadProducer::TYPE, inflight_load_producer::factory),
    (mm_embeddings_cache_producer::TYPE, mm_embeddings_cache_producer::factory),
    (multicluster_approx_prefix_cache_producer::TYPE, multicluster_approx_prefix_cache_producer::factory),
    (P2pSourceProducer::TYPE, p2p_source_producer::factory),
    (PrecisePrefixCacheProducer::TYPE, precise_prefix_cache_producer::factory),
    (predicted_latency_producer::TYPE, predicted_latency_producer::factory),
    (session_id_producer::TYPE, session_id_producer::factory),
    (TokenProducer::TYPE, token_producer::factory),
    (TokenProducer::LEGACY_TYPE, token_producer::factory),
];
