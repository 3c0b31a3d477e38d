use std::time::Duration;

use executor::Stream;

use crate::InputError;
use crate::input_error::number;

/// When requests arrive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// How the gaps between arrivals are distributed.
    pub process: Process,
    /// The mean number of requests a second.
    pub rate: f64,
}

/// The distribution of the gaps between arrivals; `cv` is their coefficient of variation: above 1 is burstier
/// than Poisson, below 1 is smoother.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the fields are told above")]
pub enum Process {
    /// Exponential gaps.
    Poisson,
    /// Gamma-distributed gaps.
    Gamma { cv: f64 },
    /// Weibull-distributed gaps.
    Weibull { cv: f64 },
    /// Equal gaps.
    Constant,
}

/// Gaps, drawn one by one; the first lies in front of the first request.
#[derive(Debug)]
pub(super) struct Gaps {
    stream: Stream,
    shape: Shape,
}

/// A distribution ready to be drawn from; scales are seconds.
#[derive(Debug)]
enum Shape {
    Exponential { mean: f64 },
    Gamma { shape: f64, scale: f64 },
    Weibull { shape: f64, scale: f64 },
    Constant { gap: f64 },
}

impl Arrivals {
    /// Checks the rate and the variation.
    ///
    /// # Errors
    /// When one is out of range; the error names it.
    pub fn check(&self) -> Result<(), InputError> {
        let in_range = |key: &str, value: f64, least: f64, most: f64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(InputError::new(format!("{} is out of range", number(value)))
                .accepted(format!("{} to {}", number(least), number(most)))
                .field(key))
        };
        in_range("rate", self.rate, 1e-6, 1e9)?;
        match self.process {
            Process::Gamma { cv } | Process::Weibull { cv } => in_range("cv", cv, 0.02, 10.0),
            Process::Poisson | Process::Constant => Ok(()),
        }
    }

    pub(super) fn gaps(&self, stream: Stream) -> Result<Gaps, InputError> {
        self.check()?;
        let mean = 1.0 / self.rate;
        let shape = match self.process {
            Process::Poisson => Shape::Exponential { mean },
            Process::Constant => Shape::Constant { gap: mean },
            Process::Gamma { cv } => Shape::Gamma { shape: 1.0 / (cv * cv), scale: mean * cv * cv },
            Process::Weibull { cv } => {
                let shape = weibull_shape(cv);
                Shape::Weibull { shape, scale: mean / libm::tgamma(1.0 + 1.0 / shape) }
            }
        };
        Ok(Gaps { stream, shape })
    }
}

impl Gaps {
    pub(super) fn draw(&mut self) -> Duration {
        let stream = &mut self.stream;
        let seconds = match self.shape {
            Shape::Exponential { mean } => stream.exp(mean),
            Shape::Gamma { shape, scale } => scale * gamma(stream, shape),
            Shape::Weibull { shape, scale } => scale * libm::pow(stream.exp(1.0), 1.0 / shape),
            Shape::Constant { gap } => gap,
        };
        Duration::from_nanos((seconds * 1e9) as u64)
    }
}

/// Draws from the gamma distribution with scale 1: Marsaglia and Tsang's squeeze, with their boost for shapes
/// below 1.
fn gamma(stream: &mut Stream, shape: f64) -> f64 {
    if shape < 1.0 {
        let boost = libm::pow(stream.unit(), 1.0 / shape);
        return gamma(stream, shape + 1.0) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    // Each round is taken with a chance above 0.95.
    loop {
        let normal = stream.normal(0.0, 1.0);
        let root = 1.0 + c * normal;
        let cubed = root * root * root;
        let tail = libm::log(1.0 - stream.unit());
        if cubed > 0.0 && tail < 0.5 * normal * normal + d - d * cubed + d * libm::log(cubed) {
            return d * cubed;
        }
    }
}

/// Finds the shape of the Weibull distribution with coefficient of variation `cv`, by bisection: `cv` falls
/// as the shape grows.
fn weibull_shape(cv: f64) -> f64 {
    let cv_squared = |shape: f64| {
        let mean = libm::tgamma(1.0 + 1.0 / shape);
        libm::tgamma(1.0 + 2.0 / shape) / (mean * mean) - 1.0
    };
    let (mut low, mut high) = (0.1, 100.0);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if cv_squared(middle) > cv * cv {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and coefficient of variation of many gaps, in seconds.
    fn moments(process: Process, rate: f64) -> (f64, f64) {
        let mut gaps = Arrivals { process, rate }.gaps(Stream::new(3, "gaps")).unwrap();
        let gaps: Vec<f64> = (0..200_000).map(|_| gaps.draw().as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean) * (gap - mean)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn gaps_have_the_mean_and_the_variation_asked_for() {
        for (process, cv) in [
            (Process::Poisson, 1.0),
            (Process::Constant, 0.0),
            (Process::Gamma { cv: 0.5 }, 0.5),
            (Process::Gamma { cv: 2.0 }, 2.0),
            (Process::Weibull { cv: 0.5 }, 0.5),
            (Process::Weibull { cv: 1.0 }, 1.0),
            (Process::Weibull { cv: 2.0 }, 2.0),
        ] {
            let (mean, found) = moments(process, 20.0);
            assert!((mean - 0.05).abs() < 0.05 * 0.02, "{process:?}: mean {mean}");
            assert!((found - cv).abs() < 0.03 * cv.max(0.01), "{process:?}: cv {found}");
        }
    }

    #[test]
    fn a_weibull_with_variation_one_is_exponential() {
        assert!((weibull_shape(1.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn parameters_out_of_range_are_refused_by_name() {
        let refusal =
            |process, rate| Arrivals { process, rate }.gaps(Stream::new(0, "")).unwrap_err().to_string();
        assert_eq!(
            refusal(Process::Poisson, 0.0),
            "rate: 0 is out of range; accepted: 0.000001 to 1000000000"
        );
        assert_eq!(
            refusal(Process::Gamma { cv: f64::NAN }, 1.0),
            "cv: NaN is out of range; accepted: 0.02 to 10"
        );
        assert_eq!(
            refusal(Process::Weibull { cv: 11.0 }, 1.0),
            "cv: 11 is out of range; accepted: 0.02 to 10"
        );
    }
}
