//! `multicluster-queue-scorer`: the shorter a cluster's queue, the better (scheduling spec 5.2).

use super::multicluster;
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// Name of the type.
pub const TYPE: &str = "multicluster-queue-scorer";

/// The attribute that it reads.
const ATTRIBUTE: &str = "llm-d.ai/multicluster-queue-size";

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(multicluster::build(TYPE, name, ATTRIBUTE, multicluster::Formula::LowerIsBetter))
}
