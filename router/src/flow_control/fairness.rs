//! Fairness policies: which flow of a band goes next (flow-control spec 10).

pub mod global_strict_fairness_policy;
pub mod program_aware_fairness;
pub mod round_robin_fairness_policy;

use executor::Instant;

use super::flows::{FlowKey, Flows, IncompatibleOrdering};
use crate::plugin::Factory;

/// The fairness policy types that are built, each with its factory.
pub const TYPES: &[(&str, Factory)] = &[
    (global_strict_fairness_policy::TYPE, global_strict_fairness_policy::factory),
    (program_aware_fairness::TYPE, program_aware_fairness::factory),
    (round_robin_fairness_policy::TYPE, round_robin_fairness_policy::factory),
];

/// Request attribute under which the moment of queueing is left for the policy's own hook: an [`Instant`].
pub const ENQUEUE_TIME: &str = "program-aware/enqueue-time";

/// Shares a band among its flows. One instance serves every band that refers to it.
pub trait FairnessPolicy {
    /// Returns what the policy does for one band, with the state that it keeps for this band alone.
    fn for_band(&self) -> Box<dyn BandFairness>;

    /// Returns whether the policy wants to know from its hook when a request was queued, see [`ENQUEUE_TIME`].
    fn wants_enqueue_time(&self) -> bool {
        false
    }
}

/// A fairness policy at work in one band.
pub trait BandFairness {
    /// Returns the flow whose head goes next; `None` where nothing waits. Called in every dispatch cycle that reaches
    /// the band, also while nothing waits.
    ///
    /// # Errors
    /// When the heads of the flows do not compare; the band is passed over in this cycle.
    fn pick(&mut self, flows: &Flows, now: Instant) -> Result<Option<FlowKey>, IncompatibleOrdering>;

    /// Returns whether picking while nothing waits would change nothing: such picks may be left out.
    fn is_settled(&self) -> bool;

    /// Returns the flow that had its turn last, of a policy that goes by turns.
    fn cursor(&self) -> Option<&str> {
        None
    }
}
