use super::approx_prefix_cache_producer;
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// The plugin type: the approximate producer over clusters in the place of endpoints (request-control spec 8.1).
pub const TYPE: &str = "multicluster-approx-prefix-cache-producer";

/// Builds a `multicluster-approx-prefix-cache-producer`; its consumers must name it, for no key has it as default.
///
/// # Errors
/// Parameters that do not decode or are out of range.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    approx_prefix_cache_producer::build(TYPE, name, parameters, handle)
}
