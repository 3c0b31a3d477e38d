//! Scorers: how good each candidate is (scheduling spec 5).

pub mod active_request_scorer;
pub mod kv_cache_utilization_scorer;
mod min_max;
pub mod prefix_cache_scorer;
pub mod queue_scorer;
pub mod running_requests_size_scorer;
pub mod token_load_scorer;

use crate::plugin::Factory;

/// The scorer types that are built.
pub const TYPES: &[(&str, Factory)] = &[
    (active_request_scorer::TYPE, active_request_scorer::factory),
    (kv_cache_utilization_scorer::TYPE, kv_cache_utilization_scorer::factory),
    (prefix_cache_scorer::TYPE, prefix_cache_scorer::factory),
    (queue_scorer::TYPE, queue_scorer::factory),
    (running_requests_size_scorer::TYPE, running_requests_size_scorer::factory),
    (token_load_scorer::TYPE, token_load_scorer::factory),
];

#[cfg(test)]
mod tests;
