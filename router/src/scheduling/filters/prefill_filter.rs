//! `prefill-filter`: endpoints that prefill (scheduling spec 4.3).

use super::by_label::role_filter;
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// Name of the type; the instance reports `by-label`.
pub const TYPE: &str = "prefill-filter";

/// Role values that pass; `both` is the old name of `prefill-decode`.
const ROLES: &[&str] = &["prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"];

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(role_filter(name, ROLES, false))
}
