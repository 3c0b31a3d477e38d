//! `soft-reflective-ceiling-policy`: the fuller the pool, the more seldom lower bands dispatch (flow-control spec 11.3).

use std::cell::Cell;

use serde::{Deserialize, Serialize};

use super::UsageLimitPolicy;
use crate::plugin::{FactoryError, Handle, Instance, ParameterError, Parameters};

/// Name of the type.
pub const TYPE: &str = "soft-reflective-ceiling-policy";

/// Keeps the share of open cycles finite on a pool that is almost full.
const EPSILON: f64 = 1e-9;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct NoParameters {}

/// Builds an instance.
///
/// # Errors
/// Any parameter.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    parameters
        .decode::<NoParameters>()
        .map_err(|error| ParameterError::new(format!("{TYPE} takes no parameters: {error}")))?;
    Ok(super::instance(TYPE, if name.is_empty() { TYPE } else { name }, SoftReflective::default()))
}

/// Counts cycles while the pool is more than half full, and opens the bands that are due to be closed in one cycle of so
/// many.
#[derive(Default)]
struct SoftReflective {
    cycles: Cell<u64>,
}

impl UsageLimitPolicy for SoftReflective {
    fn limit(&self, saturation: f64, _: &[i64], ceilings: &mut [f64]) {
        let Some(lower) = ceilings.len().checked_sub(1).filter(|lower| *lower > 0) else { return };
        let mut open = false;
        if saturation >= 1.0 - saturation && saturation < 1.0 {
            // Half away from zero, as Rust rounds; at least 1, since the saturation is at least a half.
            let period = (saturation / ((1.0 - saturation) + EPSILON)).round().max(1.0) as u64;
            self.cycles.set(self.cycles.get().wrapping_add(1));
            open = self.cycles.get().is_multiple_of(period);
        }
        for (i, ceiling) in ceilings.iter_mut().enumerate().skip(1) {
            let reflected = 1.0 - i as f64 * saturation / lower as f64;
            // A saturation that is no number is below nothing.
            let below = saturation < reflected;
            *ceiling = if below || (open && saturation < 1.0) { 1.0 } else { 0.0 };
        }
    }

    fn counts_cycles(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ceilings(policy: &SoftReflective, saturation: f64, bands: usize) -> Vec<f64> {
        let mut ceilings = vec![1.0; bands];
        policy.limit(saturation, &vec![0; bands], &mut ceilings);
        ceilings
    }

    #[test]
    fn lower_bands_open_in_one_cycle_of_the_period() {
        let second = |saturation| {
            let policy = SoftReflective::default();
            (0..6).map(|_| ceilings(&policy, saturation, 2)[1]).collect::<Vec<_>>()
        };
        assert_eq!(second(0.3), [1.0; 6]);
        assert_eq!(second(0.6), [1.0; 6], "an exact half rounds down");
        assert_eq!(second(0.7), [0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
        assert_eq!(second(0.75), [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
        assert_eq!(second(1.0), [0.0; 6]);
    }

    #[test]
    fn the_first_band_is_never_held_back_and_the_others_open_together() {
        let policy = SoftReflective::default();
        assert_eq!(ceilings(&policy, 0.3, 3), [1.0; 3]);
        assert_eq!(ceilings(&policy, 1.0, 3), [1.0, 0.0, 0.0]);
        assert_eq!(ceilings(&policy, 1.0, 1), [1.0]);
        assert_eq!(ceilings(&policy, 0.7, 4), [1.0, 1.0, 0.0, 0.0]);
        (0..3).for_each(|_| drop(ceilings(&policy, 0.6, 3)));
        let after: Vec<Vec<f64>> = (0..100).map(|_| ceilings(&policy, 0.7, 3)).collect();
        assert!(after.iter().all(|ceilings| ceilings[1] == ceilings[2]));
        assert!(after.iter().any(|ceilings| ceilings[1] > 0.0));
    }
}
