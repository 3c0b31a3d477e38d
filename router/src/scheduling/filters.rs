//! Filters: which candidates stay (scheduling spec 4).

pub mod by_label;
pub mod decode_filter;
pub mod encode_filter;
pub mod endpoint_attribute_filter;
pub mod header_based_testing_filter;
pub mod label_selector_filter;
pub mod multicluster_session_affinity_filter;
pub mod prefill_filter;
pub mod prefix_cache_affinity_filter;
pub mod session_affinity_filter;
pub mod slo_headroom_tier_filter;
pub mod topology_affinity_filter;
pub mod utilization_filter;

use crate::candidates::Candidate;
use crate::plugin::Factory;

/// The filter types that are built, but for `context-length-aware`, which is a scorer too and stands there.
pub const TYPES: &[(&str, Factory)] = &[
    (by_label::TYPE, by_label::factory),
    (decode_filter::TYPE, decode_filter::factory),
    (encode_filter::TYPE, encode_filter::factory),
    (endpoint_attribute_filter::TYPE, endpoint_attribute_filter::factory),
    (header_based_testing_filter::TYPE, header_based_testing_filter::factory),
    (label_selector_filter::DEPRECATED_TYPE, label_selector_filter::deprecated_factory),
    (label_selector_filter::TYPE, label_selector_filter::factory),
    (multicluster_session_affinity_filter::TYPE, multicluster_session_affinity_filter::factory),
    (prefill_filter::TYPE, prefill_filter::factory),
    (prefix_cache_affinity_filter::TYPE, prefix_cache_affinity_filter::factory),
    (session_affinity_filter::TYPE, session_affinity_filter::factory),
    (slo_headroom_tier_filter::TYPE, slo_headroom_tier_filter::factory),
    (topology_affinity_filter::TYPE, topology_affinity_filter::factory),
    (utilization_filter::TYPE, utilization_filter::factory),
];

pub(crate) use label_selector_filter::LabelSelectorText;

/// Keeps what `passes`, and everything where nothing does.
fn retain_unless_all_go(survivors: &mut Vec<Candidate>, passes: impl Fn(Candidate) -> bool) {
    if survivors.iter().any(|&candidate| passes(candidate)) {
        survivors.retain(|&candidate| passes(candidate));
    }
}

#[cfg(test)]
mod tests;
