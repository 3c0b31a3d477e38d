//! `multicluster-prefix-cache-scorer`: the `prefix-cache-scorer` over clusters, under a type of its own
//! (scheduling spec 5.10).

use super::prefix_cache_scorer;
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// Name of the type.
pub const TYPE: &str = "multicluster-prefix-cache-scorer";

/// Builds an instance; it reads the default producer's matches unless `prefixMatchInfoProducerName` says
/// otherwise.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    prefix_cache_scorer::build(TYPE, name, parameters)
}
