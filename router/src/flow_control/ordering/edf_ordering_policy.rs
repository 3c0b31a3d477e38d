//! `edf-ordering-policy`: earliest deadline first (flow-control spec 9.2).

use super::{Arrival, FAR, OrderKey, OrderingPolicy, nanos};
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// Name of the type.
pub const TYPE: &str = "edf-ordering-policy";

/// Builds an instance; parameters are not looked at.
pub fn factory(name: &str, _: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let rt = handle.rt();
    let started = rt.wall().unix_nanos().saturating_sub(rt.now().as_nanos());
    Ok(super::instance(name, EarliestDeadline { far: FAR.saturating_sub(started) }))
}

struct EarliestDeadline {
    /// What a missing deadline counts as, on the runtime's clock. Unit: nanoseconds.
    far: u64,
}

impl OrderingPolicy for EarliestDeadline {
    fn plugin_type(&self) -> &'static str {
        TYPE
    }

    /// Deadline, then arrival.
    fn key(&self, item: &Arrival<'_>) -> OrderKey {
        let enqueued = item.enqueued.as_nanos();
        let deadline = item.ttl.map_or(self.far, |ttl| enqueued.saturating_add(nanos(ttl)));
        OrderKey(deadline, enqueued)
    }
}
