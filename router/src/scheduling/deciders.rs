//! Deciders: whether a request is worth splitting over several endpoints (scheduling spec 7.7).

pub mod always_disagg_multimodal_decider;
pub mod always_disagg_pd_decider;
pub mod prefix_based_pd_decider;

use crate::plugin::Factory;

/// The decider types that are built.
pub const TYPES: &[(&str, Factory)] = &[
    (always_disagg_multimodal_decider::TYPE, always_disagg_multimodal_decider::factory),
    (always_disagg_pd_decider::TYPE, always_disagg_pd_decider::factory),
    (prefix_based_pd_decider::TYPE, prefix_based_pd_decider::factory),
];

#[cfg(test)]
mod tests;
