use executor::Stream;

use crate::InputError;
use crate::input_error::number;
use crate::workload::MAX_TOKENS;

/// A distribution of token counts; every draw is rounded and lies within `1..=MAX_TOKENS`.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are the parameters that the variants' texts name")]
pub enum Lengths {
    /// Always `value`.
    Constant { value: u32 },
    /// Evenly from `min` to `max`, both included.
    Uniform { min: u32, max: u32 },
    /// Normal with `mean` and `std_dev`, clamped to `min..=max`.
    Gaussian { mean: f64, std_dev: f64, min: u32, max: u32 },
    /// Exponential with `mean`, clamped to `min..=max`.
    Exponential { mean: f64, min: u32, max: u32 },
    /// `exp` of a normal with mean `mu` and deviation `sigma`, clamped to `min..=max`.
    Lognormal { mu: f64, sigma: f64, min: u32, max: u32 },
    /// Pareto with `alpha` and `xm` with the chance `mix_weight`, else log-normal with `mu` and `sigma`.
    ParetoLognormal { alpha: f64, xm: f64, mu: f64, sigma: f64, mix_weight: f64 },
    /// One of the counts, in proportion to its weight.
    Empirical { weights: Vec<(u32, f64)> },
}

impl Lengths {
    /// Checks the parameters.
    ///
    /// # Errors
    /// When one is out of range; the error names it.
    pub fn check(&self) -> Result<(), InputError> {
        let refuse = |key: &str, problem: String, accepted: &str| {
            Err(InputError::new(problem).accepted(accepted).field(key))
        };
        let tokens = |key: &str, value: u32| match value {
            1..=MAX_TOKENS => Ok(()),
            _ => refuse(key, format!("{value} is no number of tokens"), &format!("1 to {MAX_TOKENS}")),
        };
        let ordered = |min: u32, max: u32| {
            tokens("min", min)?;
            tokens("max", max)?;
            if min <= max {
                Ok(())
            } else {
                refuse("max", format!("{max} is below min {min}"), "min or more")
            }
        };
        let within = |key: &str, value: f64, least: f64, most: f64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            refuse(key, format!("{} is out of range", number(value)), &format!("{least} to {most}"))
        };
        let limit = f64::from(MAX_TOKENS);
        match self {
            Lengths::Constant { value } => tokens("value", *value),
            Lengths::Uniform { min, max } => ordered(*min, *max),
            Lengths::Gaussian { mean, std_dev, min, max } => {
                within("mean", *mean, 0.0, limit)?;
                within("std_dev", *std_dev, 0.0, limit)?;
                ordered(*min, *max)
            }
            Lengths::Exponential { mean, min, max } => {
                within("mean", *mean, 0.0, limit)?;
                ordered(*min, *max)
            }
            Lengths::Lognormal { mu, sigma, min, max } => {
                within("mu", *mu, -20.0, 20.0)?;
                within("sigma", *sigma, 0.0, 20.0)?;
                ordered(*min, *max)
            }
            Lengths::ParetoLognormal { alpha, xm, mu, sigma, mix_weight } => {
                within("alpha", *alpha, 0.01, 100.0)?;
                within("xm", *xm, 0.0, limit)?;
                within("mu", *mu, -20.0, 20.0)?;
                within("sigma", *sigma, 0.0, 20.0)?;
                within("mix_weight", *mix_weight, 0.0, 1.0)
            }
            Lengths::Empirical { weights } => {
                for (count, weight) in weights {
                    tokens("weights", *count)?;
                    within("weights", *weight, 0.0, 1e12)?;
                }
                if weights.iter().any(|(_, weight)| *weight > 0.0) {
                    return Ok(());
                }
                refuse("weights", "no count has a weight".to_owned(), "a weight above 0 for some count")
            }
        }
    }

    /// Draws a count. Parameters that [`Lengths::check`] refuses give some count in range.
    pub(super) fn draw(&self, stream: &mut Stream) -> u32 {
        let clamp = |value: f64, min: u32, max: u32| (value.round() as u32).max(min).min(max);
        let count = match self {
            Lengths::Constant { value } => *value,
            Lengths::Uniform { min, max } => {
                min + stream.below(u64::from(max.saturating_sub(*min)) + 1) as u32
            }
            Lengths::Gaussian { mean, std_dev, min, max } => {
                clamp(stream.normal(*mean, *std_dev), *min, *max)
            }
            Lengths::Exponential { mean, min, max } => clamp(stream.exp(*mean), *min, *max),
            Lengths::Lognormal { mu, sigma, min, max } => {
                clamp(libm::exp(stream.normal(*mu, *sigma)), *min, *max)
            }
            Lengths::ParetoLognormal { alpha, xm, mu, sigma, mix_weight } => {
                let value = if stream.unit() < *mix_weight {
                    xm / libm::pow(1.0 - stream.unit(), 1.0 / alpha)
                } else {
                    libm::exp(stream.normal(*mu, *sigma))
                };
                clamp(value, 1, MAX_TOKENS)
            }
            Lengths::Empirical { weights } => empirical(weights, stream),
        };
        count.clamp(1, MAX_TOKENS)
    }
}

fn empirical(weights: &[(u32, f64)], stream: &mut Stream) -> u32 {
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut point = stream.unit() * total;
    let weighty = weights.iter().filter(|(_, weight)| *weight > 0.0);
    let mut drawn = 1;
    for (count, weight) in weighty {
        drawn = *count;
        point -= weight;
        if point < 0.0 {
            break;
        }
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(lengths: &Lengths) -> f64 {
        lengths.check().unwrap();
        let mut stream = Stream::new(5, "lengths");
        (0..100_000).map(|_| f64::from(lengths.draw(&mut stream))).sum::<f64>() / 1e5
    }

    #[test]
    fn means_are_those_of_the_distributions() {
        const TOP: u32 = MAX_TOKENS;
        for (lengths, expected) in [
            (Lengths::Constant { value: 7 }, 7.0),
            (Lengths::Uniform { min: 10, max: 20 }, 15.0),
            (Lengths::Gaussian { mean: 500.0, std_dev: 50.0, min: 1, max: TOP }, 500.0),
            (Lengths::Exponential { mean: 500.0, min: 1, max: TOP }, 500.0),
            (Lengths::Lognormal { mu: 5.0, sigma: 0.5, min: 1, max: TOP }, libm::exp(5.125)),
            (
                Lengths::ParetoLognormal { alpha: 3.0, xm: 200.0, mu: 5.0, sigma: 0.5, mix_weight: 0.5 },
                (300.0 + libm::exp(5.125)) / 2.0,
            ),
            (Lengths::Empirical { weights: vec![(10, 1.0), (20, 0.0), (30, 3.0)] }, 25.0),
        ] {
            let found = mean(&lengths);
            assert!((found - expected).abs() <= 0.01 * expected, "{lengths:?}: {found}");
        }
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let lengths = Lengths::Gaussian { mean: 10.0, std_dev: 100.0, min: 5, max: 12 };
        let mut stream = Stream::new(5, "lengths");
        let draws: Vec<u32> = (0..1000).map(|_| lengths.draw(&mut stream)).collect();
        assert_eq!((draws.iter().min(), draws.iter().max()), (Some(&5), Some(&12)));
    }

    #[test]
    fn parameters_out_of_range_are_refused_by_name() {
        for (lengths, message) in [
            (Lengths::Constant { value: 0 }, "value: 0 is no number of tokens; accepted: 1 to 10000000"),
            (Lengths::Uniform { min: 5, max: 4 }, "max: 4 is below min 5; accepted: min or more"),
            (
                Lengths::Exponential { mean: f64::NAN, min: 1, max: 2 },
                "mean: NaN is out of range; accepted: 0 to 10000000",
            ),
            (
                Lengths::Empirical { weights: vec![(1, 0.0)] },
                "weights: no count has a weight; accepted: a weight above 0 for some count",
            ),
        ] {
            assert_eq!(lengths.check().unwrap_err().to_string(), message);
        }
    }
}
