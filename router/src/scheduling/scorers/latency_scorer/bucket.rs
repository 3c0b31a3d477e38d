//! Scores of endpoints that compete by their headrooms.

/// A range below which all values count as equal.
const EPSILON: f64 = 1e-9;

/// Which endpoint of a bucket is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// The one with the least headroom: fill it up before the next.
    Least,
    /// The one with the most.
    Most,
}

/// The headrooms of the candidate at `place`. Unit: milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headroom {
    pub(super) place: usize,
    pub(super) ttft: f64,
    pub(super) tpot: f64,
}

impl Headroom {
    pub(super) fn misses_ttft(&self) -> bool {
        self.ttft < 0.0
    }

    pub(super) fn misses_tpot(&self) -> bool {
        self.tpot < 0.0
    }
}

/// Returns the weights as shares of their sum; the first alone counts where the sum is not positive.
pub(super) fn normalise(ttft: f64, tpot: f64) -> (f64, f64) {
    let sum = ttft + tpot;
    if sum <= 0.0 { (1.0, 0.0) } else { (ttft / sum, tpot / sum) }
}

/// Writes the scores of a bucket, in steps of 0.01 from 0.01 to 1.01.
pub(super) fn score(
    bucket: &[Headroom],
    (mut alpha, mut beta): (f64, f64),
    strategy: Strategy,
    scores: &mut [Option<f64>],
) {
    let ttft = Range::of(bucket.iter().map(|h| h.ttft.abs()));
    let tpot = Range::of(bucket.iter().map(|h| h.tpot.abs()));
    if ttft.is_flat() && tpot.spread > EPSILON {
        (alpha, beta) = (0.0, 1.0);
    } else if tpot.is_flat() && ttft.spread > EPSILON {
        (alpha, beta) = (1.0, 0.0);
    }
    for headroom in bucket {
        let combined = alpha * ttft.place(headroom.ttft.abs()) + beta * tpot.place(headroom.tpot.abs());
        let share = if strategy == Strategy::Most { combined } else { 1.0 - combined };
        scores[headroom.place] = Some(steps(share * 100.0) / 100.0);
    }
}

/// Cuts to a whole number and adds one; NaN becomes the least one, as a conversion to an integer makes it.
fn steps(x: f64) -> f64 {
    if x.is_nan() { i64::MIN as f64 } else { x.trunc() + 1.0 }
}

/// From the least value to the greatest.
struct Range {
    min: f64,
    spread: f64,
}

impl Range {
    /// Returns the range of the values; NaN takes no part.
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let min = values.clone().fold(f64::INFINITY, f64::min);
        let max = values.fold(f64::NEG_INFINITY, f64::max);
        Range { min, spread: max - min }
    }

    fn is_flat(&self) -> bool {
        self.spread <= EPSILON
    }

    fn place(&self, value: f64) -> f64 {
        if self.spread > EPSILON { (value - self.min) / self.spread } else { 0.5 }
    }
}
