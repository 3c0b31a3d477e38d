use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::plugin::{ParameterError, Parameters};

/// What a configuration says of the policy.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ProgramAwareParameters {
    /// How programs are scored; `las`, or empty for the same.
    pub(super) strategy: String,
    /// How long a program is remembered after its last completion; zero = for ever.
    pub(super) eviction_ttl_seconds: f64,
    /// How often programs are looked through for some to forget.
    pub(super) eviction_sweep_seconds: f64,
    /// Weight of the service that a program got.
    pub(super) las_weight_service: f64,
    /// Weight of the wait of a program's head.
    pub(super) las_weight_head_wait: f64,
    /// What is left of the service of an idle program after one pick.
    pub(super) las_decay_factor: f64,
    /// Time after which half is left; above zero it stands in for the factor.
    pub(super) las_half_life_seconds: f64,
}

impl Default for ProgramAwareParameters {
    fn default() -> Self {
        ProgramAwareParameters {
            strategy: "las".to_owned(),
            eviction_ttl_seconds: 3600.0,
            eviction_sweep_seconds: 300.0,
            las_weight_service: 0.8,
            las_weight_head_wait: 0.2,
            las_decay_factor: 0.999_97,
            las_half_life_seconds: 0.0,
        }
    }
}

impl ProgramAwareParameters {
    /// Decodes and checks the parameters of the instance `name`.
    pub(super) fn read(name: &str, parameters: &Parameters) -> Result<Self, ParameterError> {
        let read: Self = parameters.decode()?;
        if !matches!(read.strategy.as_str(), "" | "las") {
            let message = format!("unknown scoring strategy {:?}: only \"las\" is supported", read.strategy);
            return Err(ParameterError::at("strategy", message));
        }
        let must = |key: &str, is: bool, be: &str, value: f64| {
            let message =
                format!("{TYPE} plugin {name:?}: {key} must be {be}, got {value}", TYPE = super::TYPE);
            if is { Ok(()) } else { Err(ParameterError::at(key, message)) }
        };
        let at_least_zero = |key: &str, value: f64| must(key, value >= 0.0, "zero or more", value);
        at_least_zero("evictionTtlSeconds", read.eviction_ttl_seconds)?;
        let sweep = read.eviction_sweep_seconds;
        must("evictionSweepSeconds", sweep > 0.0, "above zero", sweep)?;
        at_least_zero("lasWeightService", read.las_weight_service)?;
        at_least_zero("lasWeightHeadWait", read.las_weight_head_wait)?;
        let factor = read.las_decay_factor;
        must("lasDecayFactor", factor > 0.0 && factor <= 1.0, "above 0 and at most 1", factor)?;
        at_least_zero("lasHalfLifeSeconds", read.las_half_life_seconds)?;
        Ok(read)
    }
}

/// Returns `seconds` as a duration; more than can be told is the longest.
pub(super) fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
