//! Filters: which candidates stay (scheduling spec 4).

pub mod by_label;
pub mod decode_filter;
pub mod encode_filter;
pub mod label_selector_filter;
pub mod prefill_filter;

use crate::plugin::Factory;

/// The filter types that are built.
pub const TYPES: &[(&str, Factory)] = &[
    (by_label::TYPE, by_label::factory),
    (label_selector_filter::DEPRECATED_TYPE, label_selector_filter::deprecated_factory),
    (decode_filter::TYPE, decode_filter::factory),
    (encode_filter::TYPE, encode_filter::factory),
    (label_selector_filter::TYPE, label_selector_filter::factory),
    (prefill_filter::TYPE, prefill_filter::factory),
];

#[cfg(test)]
mod tests;
