//! Histograms with fixed bounds, as Prometheus has them.

use std::time::Duration;

/// Values counted by the bucket they fall in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    bounds: Vec<f64>,
    /// Values in each bucket alone; the last holds what is above all bounds.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// Returns an empty histogram; a value belongs to the first bucket whose bound is not below it.
    #[must_use]
    pub fn new(bounds: impl Into<Vec<f64>>) -> Self {
        let bounds = bounds.into();
        Self { counts: vec![0; bounds.len() + 1], bounds, sum: 0.0 }
    }

    /// Returns an empty histogram for token counts up to `most`: bounds 1, 2, 5, 10, 20, 50, and so on.
    #[must_use]
    pub fn of_tokens(most: u32) -> Self {
        let decades = std::iter::successors(Some(1u64), |decade| Some(decade * 10));
        let bounds = decades.flat_map(|decade| [1, 2, 5].map(|step| step * decade));
        Self::new(
            bounds
                .take_while(|bound| *bound <= u64::from(most))
                .map(|bound| bound as f64)
                .collect::<Vec<_>>(),
        )
    }

    /// Counts `times` equal values.
    pub fn observe_many(&mut self, value: f64, times: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.counts[bucket] += times;
        self.sum += value * times as f64;
    }

    /// Counts a number.
    pub fn observe(&mut self, value: impl Into<f64>) {
        self.observe_many(value.into(), 1);
    }

    /// Counts a time, in seconds.
    pub fn observe_time(&mut self, time: Duration) {
        self.observe_many(time.as_secs_f64(), 1);
    }

    /// Each bound with the number of values at or below it; the last bound is infinity, its number that of all.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }))
    }

    /// Returns how many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of the values.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_equal_to_a_bound_is_inside() {
        let mut histogram = Histogram::new([1.0, 2.0]);
        for (value, times) in [(1.0, 2), (1.5, 1), (9.0, 1)] {
            histogram.observe_many(value, times);
        }
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(1.0, 2), (2.0, 3), (f64::INFINITY, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (4, 12.5));
    }

    #[test]
    fn bounds_of_token_counts_end_at_the_longest_request() {
        let bounds = |most| Histogram::of_tokens(most).buckets().map(|(bound, _)| bound).collect::<Vec<_>>();
        assert_eq!(bounds(50), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, f64::INFINITY]);
        // max_model_len 4096, as recorded.
        assert_eq!(bounds(4096).len(), 12);
        assert_eq!(bounds(0), [f64::INFINITY]);
    }
}
