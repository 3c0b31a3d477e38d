//! `multicluster-session-affinity-filter`: the `session-affinity-filter` over clusters, under a type of its own
//! (scheduling spec 4.4).

use super::session_affinity_filter;
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// Name of the type.
pub const TYPE: &str = "multicluster-session-affinity-filter";

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    session_affinity_filter::build(TYPE, name, parameters, handle)
}
