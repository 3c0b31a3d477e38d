//! Deciders: whether a request is worth splitting over several endpoints (scheduling spec 7.7).

use crate::plugin::Factory;

/// The decider types that are built.
pub const TYPES: &[(&str, Factory)] = &[];
