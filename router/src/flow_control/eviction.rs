//! Requests in flight that can be evicted (flow-control spec 13; request-control spec 5).

mod evictor;
pub mod priority_then_time_eviction_order_policy;
mod queue;
pub mod sheddable_eviction_filter;

pub use evictor::{EVICTED, Evictor, RequestEvictor, Signal};
pub use queue::{EvictionItem, EvictionQueue};

use std::rc::Rc;

use executor::Instant;

use crate::plugin::Factory;

/// The eviction policy types that are built, each with its factory.
pub const TYPES: &[(&str, Factory)] = &[
    (priority_then_time_eviction_order_policy::TYPE, priority_then_time_eviction_order_policy::factory),
    (sheddable_eviction_filter::TYPE, sheddable_eviction_filter::factory),
];

/// What a policy knows of a request in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Priority of its objective.
    pub priority: i64,
    /// When it was dispatched.
    pub dispatched: Instant,
}

/// Says which requests may be evicted.
pub trait EvictionFilter {
    /// Returns whether a request may be.
    fn accepts(&self, request: &InFlight) -> bool;
}

/// The place of a request among those that may be evicted: the smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EvictionKey(pub i64, pub std::cmp::Reverse<Instant>);

/// Says which request is evicted first.
pub trait EvictionOrder {
    /// Returns a request's key.
    fn key(&self, request: &InFlight) -> EvictionKey;
}

/// The two policies that flow control evicts by. No configuration chooses others.
pub fn policies() -> (Rc<dyn EvictionFilter>, Rc<dyn EvictionOrder>) {
    (
        Rc::new(sheddable_eviction_filter::Sheddable),
        Rc::new(priority_then_time_eviction_order_policy::PriorityThenTime),
    )
}
