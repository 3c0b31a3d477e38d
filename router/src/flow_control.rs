//! Flow control: requests wait in queues until the pool has room for them (flow-control spec).
//!
//! A *flow* is a fairness id at a priority; the flows of one priority are a *band*. Bands go strictly by priority,
//! a [fairness policy](fairness) picks a flow inside a band, an [ordering policy](ordering) an item inside a flow.
//! How full the pool may be for each band to dispatch is said by a [usage-limit policy](usage_limits), how full it is
//! by a [saturation detector](crate::admission::SaturationDetector).

pub mod admission;
pub mod candidates;
mod controller;
pub mod eviction;
pub mod fairness;
pub mod flows;
pub mod heap;
mod lease;
mod measure;
pub mod ordering;
mod outcome;
mod processor;
pub mod queue;
mod reclamation;
mod registry;
pub mod settings;
pub mod usage_limits;

pub use controller::{BandState, FlowController, FlowRequest, Parts, Wait, WeakFlowController};
pub use outcome::{Cause, Ended, Outcome};
pub use settings::{BandSettings, ControllerSettings, RegistrySettings, Settings};

use crate::plugin::Factory;

/// Returns the flow-control plugin types that are built, each with its factory.
pub fn types() -> impl Iterator<Item = (&'static str, Factory)> {
    [eviction::TYPES, ordering::TYPES, fairness::TYPES, usage_limits::TYPES].into_iter().flatten().copied()
}
