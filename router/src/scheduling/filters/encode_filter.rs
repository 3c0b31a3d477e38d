//! `encode-filter`: endpoints that encode multimodal input (scheduling spec 4.3).

use super::by_label::role_filter;
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// Name of the type; the instance reports `by-label`.
pub const TYPE: &str = "encode-filter";

/// Role values that pass.
const ROLES: &[&str] = &["encode", "encode-prefill", "encode-prefill-decode"];

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(role_filter(name, ROLES, false))
}
