//! `priority-then-time-eviction-order-policy`: the lowest priority first, of one the newest (flow-control spec 13.1).

use std::cmp::Reverse;
use std::rc::Rc;

use super::{EvictionKey, EvictionOrder, InFlight};
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};

/// Name of the type.
pub const TYPE: &str = "priority-then-time-eviction-order-policy";

/// Builds an instance; parameters are not looked at.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let roles = Roles { eviction_order: Some(Rc::new(PriorityThenTime)), ..Roles::default() };
    Ok(Instance::new(TYPE, if name.is_empty() { TYPE } else { name }, roles))
}

pub(super) struct PriorityThenTime;

impl EvictionOrder for PriorityThenTime {
    fn key(&self, request: &InFlight) -> EvictionKey {
        EvictionKey(request.priority, Reverse(request.dispatched))
    }
}
