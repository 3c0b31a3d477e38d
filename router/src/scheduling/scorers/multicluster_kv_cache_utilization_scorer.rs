//! `multicluster-kv-cache-utilization-scorer`: the share of a cluster's KV cache that is free (scheduling spec 5.1).

use super::multicluster;
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// Name of the type.
pub const TYPE: &str = "multicluster-kv-cache-utilization-scorer";

/// The attribute that it reads.
const ATTRIBUTE: &str = "llm-d.ai/multicluster-kv-cache-utilization";

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(multicluster::build(TYPE, name, ATTRIBUTE, multicluster::Formula::OneMinus))
}
