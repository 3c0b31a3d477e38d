//! `fcfs-ordering-policy`: first come, first served (flow-control spec 9.1).

use super::{Arrival, OrderKey, OrderingPolicy};
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// Name of the type.
pub const TYPE: &str = "fcfs-ordering-policy";

/// Builds an instance; parameters are not looked at.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(super::instance(name, Fcfs))
}

struct Fcfs;

impl OrderingPolicy for Fcfs {
    fn plugin_type(&self) -> &'static str {
        TYPE
    }

    fn key(&self, item: &Arrival<'_>) -> OrderKey {
        OrderKey(item.enqueued.as_nanos(), 0)
    }
}
