//! `sheddable-eviction-filter`: requests of a negative priority (flow-control spec 13.1).

use std::rc::Rc;

use super::{EvictionFilter, InFlight};
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};

/// Name of the type.
pub const TYPE: &str = "sheddable-eviction-filter";

/// Builds an instance; parameters are not looked at.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let roles = Roles { eviction_filter: Some(Rc::new(Sheddable)), ..Roles::default() };
    Ok(Instance::new(TYPE, if name.is_empty() { TYPE } else { name }, roles))
}

pub(super) struct Sheddable;

impl EvictionFilter for Sheddable {
    fn accepts(&self, request: &InFlight) -> bool {
        request.priority < 0
    }
}
