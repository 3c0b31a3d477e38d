//! Ordering policies: which item of a flow goes first (flow-control spec 9).

pub mod edf_ordering_policy;
pub mod fcfs_ordering_policy;
pub mod slo_deadline_ordering_policy;

use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, WallTime};

use crate::headers::Headers;
use crate::plugin::{Factory, Instance, Roles};

/// The ordering policy types that are built, each with its factory.
pub const TYPES: &[(&str, Factory)] = &[
    (edf_ordering_policy::TYPE, edf_ordering_policy::factory),
    (fcfs_ordering_policy::TYPE, fcfs_ordering_policy::factory),
    (slo_deadline_ordering_policy::TYPE, slo_deadline_ordering_policy::factory),
];

/// The last moment of 64-bit Unix nanoseconds: what a missing deadline counts as. A deadline can be later.
const FAR: u64 = i64::MAX as u64;

/// What an ordering policy knows of an item. It does not change while the item waits.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// When the item asked to be queued.
    pub enqueued: Instant,
    /// How long it may wait; `None` = for ever.
    pub ttl: Option<Duration>,
    /// When the request's headers came.
    pub received: WallTime,
    /// Headers of the request, where the item carries one.
    pub headers: Option<&'a Headers>,
}

/// The place of an item in its flow: smaller goes first, and neither goes before the other when they are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrderKey(pub u64, pub u64);

/// Orders the items of a flow.
pub trait OrderingPolicy {
    /// Returns the type of the policy: keys of different types do not compare.
    fn plugin_type(&self) -> &'static str;

    /// Returns an item's key.
    fn key(&self, item: &Arrival<'_>) -> OrderKey;
}

fn instance(name: &str, policy: impl OrderingPolicy + 'static) -> Instance {
    let plugin_type = policy.plugin_type();
    let name = if name.is_empty() { plugin_type } else { name };
    let roles = Roles { ordering_policy: Some(Rc::new(policy)), ..Roles::default() };
    Instance::new(plugin_type, name, roles)
}

/// Returns `duration` in nanoseconds; what does not fit is the most that does.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
