//! `priority-holdback-policy`: the lower a band, the emptier the pool must be (flow-control spec 11.2).

use serde::{Deserialize, Serialize};

use super::UsageLimitPolicy;
use crate::plugin::{FactoryError, Handle, Instance, ParameterError, Parameters};

/// Name of the type.
pub const TYPE: &str = "priority-holdback-policy";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HoldbackParameters {
    shape: Option<String>,
    domain: Option<String>,
    min_ceiling: Option<f64>,
    max_ceiling: Option<f64>,
}

/// Along what the ceiling falls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Domain {
    /// The band's place among all bands.
    Rank,
    /// The number that its priority is.
    Value,
}

/// Builds an instance.
///
/// # Errors
/// Parameters that do not decode, and all that are out of range together.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let policy = Holdback::new(&parameters.decode()?)?;
    Ok(super::instance(TYPE, if name.is_empty() { TYPE } else { name }, policy))
}

struct Holdback {
    domain: Domain,
    min: f64,
    max: f64,
}

impl Holdback {
    fn new(parameters: &HoldbackParameters) -> Result<Self, ParameterError> {
        let mut wrong = Vec::new();
        let shape = parameters.shape.as_deref().unwrap_or("linear");
        if shape != "linear" {
            wrong.push(format!("unsupported shape {shape:?}, must be \"linear\""));
        }
        let domain = match parameters.domain.as_deref().unwrap_or("rank") {
            "rank" => Domain::Rank,
            "value" => Domain::Value,
            other => {
                wrong.push(format!("unsupported domain {other:?}, must be one of: \"rank\", \"value\""));
                Domain::Rank
            }
        };
        let max = parameters.max_ceiling.unwrap_or(1.0);
        let min = parameters.min_ceiling;
        match min {
            None => wrong.push("minCeiling is required".to_owned()),
            Some(min) if !(0.0..1.0).contains(&min) => {
                wrong.push(format!("minCeiling must be in [0.0, 1.0), got {min:.6}"));
            }
            Some(_) => {}
        }
        if !(max > 0.0 && max <= 1.0) {
            wrong.push(format!("maxCeiling must be in (0.0, 1.0], got {max:.6}"));
        }
        if let Some(min) = min.filter(|min| *min >= max) {
            wrong.push(format!("minCeiling ({min:.6}) must be strictly less than maxCeiling ({max:.6})"));
        }
        match min {
            Some(min) if wrong.is_empty() => Ok(Holdback { domain, min, max }),
            _ => Err(ParameterError::new(format!(
                "invalid priority holdback policy configuration: {}",
                wrong.join("\n")
            ))),
        }
    }
}

impl UsageLimitPolicy for Holdback {
    fn limit(&self, _: f64, priorities: &[i64], ceilings: &mut [f64]) {
        let spread = self.max - self.min;
        let [highest, .., lowest] = priorities else { return ceilings.fill(self.max) };
        let steps = (priorities.len() - 1) as f64;
        // As numbers of the llm-d Router's: 64-bit integers that wrap, then floats.
        let range = highest.wrapping_sub(*lowest) as f64;
        for (i, (priority, ceiling)) in priorities.iter().zip(ceilings).enumerate() {
            *ceiling = match self.domain {
                Domain::Rank => self.max - (i as f64 * spread) / steps,
                Domain::Value if highest == lowest => self.max,
                Domain::Value => self.min + priority.wrapping_sub(*lowest) as f64 / range * spread,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(domain: &str, min: f64, max: f64) -> Holdback {
        Holdback::new(&HoldbackParameters {
            domain: Some(domain.to_owned()),
            min_ceiling: Some(min),
            max_ceiling: Some(max),
            ..HoldbackParameters::default()
        })
        .unwrap()
    }

    #[test]
    fn the_ceiling_falls_with_the_priority() {
        for (domain, min, max, priorities, expected) in [
            ("rank", 0.5, 1.0, &[100, 10][..], &[1.0, 0.5][..]),
            ("rank", 0.5, 1.0, &[1000, 2, 1], &[1.0, 0.75, 0.5]),
            ("rank", 0.5, 1.0, &[100, 75, 50, 10], &[1.0, 0.833_33, 0.666_67, 0.5]),
            ("rank", 0.0, 1.0, &[10, 5, 1], &[1.0, 0.5, 0.0]),
            ("rank", 0.8, 0.9, &[10, 5, 1], &[0.9, 0.85, 0.8]),
            ("value", 0.5, 1.0, &[90, 50, 10], &[1.0, 0.75, 0.5]),
            ("value", 0.5, 1.0, &[100, 50, 10], &[1.0, 0.722_22, 0.5]),
            ("value", 0.5, 1.0, &[100, 2, 1], &[1.0, 0.505_05, 0.5]),
            ("value", 0.5, 1.0, &[10, 10, 10], &[1.0, 1.0, 1.0]),
            ("value", 0.5, 1.0, &[100, 10, 10], &[1.0, 0.5, 0.5]),
            ("value", 0.5, 1.0, &[10, -5, -20], &[1.0, 0.75, 0.5]),
            ("rank", 0.5, 0.9, &[7], &[0.9]),
            ("rank", 0.5, 0.9, &[], &[]),
        ] {
            let mut ceilings = vec![1.0; priorities.len()];
            policy(domain, min, max).limit(0.3, priorities, &mut ceilings);
            let close = ceilings.iter().zip(expected).all(|(got, want)| (got - want).abs() < 1e-5);
            assert!(close, "{domain} {min} {max} {priorities:?}: {ceilings:?}");
        }
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let wrong = HoldbackParameters {
            shape: Some("sigmoid".to_owned()),
            domain: Some("unknown".to_owned()),
            min_ceiling: Some(1.0),
            max_ceiling: Some(1.1),
        };
        assert_eq!(
            Holdback::new(&wrong).err().unwrap().message,
            "invalid priority holdback policy configuration: unsupported shape \"sigmoid\", must be \"linear\"\n\
             unsupported domain \"unknown\", must be one of: \"rank\", \"value\"\n\
             minCeiling must be in [0.0, 1.0), got 1.000000\n\
             maxCeiling must be in (0.0, 1.0], got 1.100000"
        );
        for (min, max) in [(None, None), (Some(-0.1), None), (Some(0.5), Some(0.0)), (Some(0.5), Some(0.5))] {
            let parameters =
                HoldbackParameters { min_ceiling: min, max_ceiling: max, ..HoldbackParameters::default() };
            assert!(Holdback::new(&parameters).is_err(), "{min:?} {max:?}");
        }
    }
}
