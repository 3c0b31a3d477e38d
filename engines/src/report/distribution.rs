use hdrhistogram::Histogram;

/// Entries kept one by one; above that, what they are put into counts by buckets.
const MOST_EXACT: usize = 1 << 16;

/// Whole numbers, as their mean and percentiles need them, in memory that does not grow with their count.
///
/// The mean is exact. Percentiles are nearest ranks: exact up to 65,536 entries; of more, each is at most 0.1 % above
/// the exact one (and one unit), and never above the largest number.
#[derive(Debug)]
pub struct Distribution {
    /// What buckets count in.
    unit: u64,
    sum: u128,
    count: u64,
    largest: u64,
    /// Each with the number of times it was added.
    exact: Vec<(u64, u64)>,
    /// Units, once there are too many.
    buckets: Option<Histogram<u64>>,
}

/// What a [`Distribution`] holds, in a few numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub mean: f64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub largest: u64,
}

impl Distribution {
    /// Returns an empty distribution; of many entries it tells no numbers apart that differ by less than `unit`.
    ///
    /// # Panics
    /// When `unit` is 0.
    pub fn new(unit: u64) -> Self {
        assert!(unit > 0, "a unit of nothing");
        Distribution { unit, sum: 0, count: 0, largest: 0, exact: Vec::new(), buckets: None }
    }

    /// Adds `value`, `times` times.
    pub fn add(&mut self, value: u64, times: u64) {
        self.sum += u128::from(value) * u128::from(times);
        self.count += times;
        self.largest = self.largest.max(value);
        match &mut self.buckets {
            Some(buckets) => record(buckets, value / self.unit, times),
            None => {
                match self.exact.last_mut() {
                    Some((last, count)) if *last == value => *count += times,
                    _ => self.exact.push((value, times)),
                }
                if self.exact.len() > MOST_EXACT {
                    self.count_by_buckets();
                }
            }
        }
    }

    fn count_by_buckets(&mut self) {
        let mut buckets = Histogram::new(3).expect("three digits are within 0 to 5");
        buckets.auto(true);
        for (value, times) in std::mem::take(&mut self.exact) {
            record(&mut buckets, value / self.unit, times);
        }
        self.buckets = Some(buckets);
    }

    /// Returns the numbers, `None` where nothing was added.
    pub fn percentiles(mut self) -> Option<Percentiles> {
        if self.count == 0 {
            return None;
        }
        self.exact.sort_unstable();
        Some(Percentiles {
            mean: self.sum as f64 / self.count as f64,
            p50: self.percentile(50),
            p90: self.percentile(90),
            p99: self.percentile(99),
            largest: self.largest,
        })
    }

    /// The least number that `percent` of all do not exceed, of entries that are sorted.
    fn percentile(&self, percent: u64) -> u64 {
        let value = match &self.buckets {
            Some(buckets) => buckets.value_at_quantile(percent as f64 / 100.0).saturating_mul(self.unit),
            None => {
                let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100);
                let mut seen = 0;
                let at_rank = self.exact.iter().find(|(_, times)| {
                    seen += u128::from(*times);
                    seen >= rank
                });
                at_rank.map_or(self.largest, |(value, _)| *value)
            }
        };
        value.min(self.largest)
    }
}

fn record(buckets: &mut Histogram<u64>, value: u64, times: u64) {
    buckets.record_n(value, times).expect("a histogram that grows by itself takes every value");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn percentiles(values: impl IntoIterator<Item = (u64, u64)>) -> Option<Percentiles> {
        let mut all = Distribution::new(1000);
        for (value, times) in values {
            all.add(value, times);
        }
        all.percentiles()
    }

    #[test]
    fn one_sample_is_its_own_percentile() {
        let value = 22_428_317;
        let one = Percentiles { mean: value as f64, p50: value, p90: value, p99: value, largest: value };
        assert_eq!(percentiles([(value, 1)]), Some(one));
        assert_eq!(percentiles([]), None);
    }

    #[test]
    fn no_percentile_exceeds_the_largest() {
        // More entries than are kept one by one, all but the first equal up to a few.
        let many = (0..MOST_EXACT as u64 + 10).map(|i| (22_428_317 - i % 7, 1));
        let found = percentiles([(1, 1)].into_iter().chain(many)).unwrap();
        assert_eq!((found.p99, found.largest), (22_428_317, 22_428_317));
    }

    /// The nearest rank, by the definition.
    fn nearest_rank(mut values: Vec<u64>, percent: usize) -> u64 {
        values.sort_unstable();
        values[(values.len() * percent).div_ceil(100) - 1]
    }

    proptest! {
        #[test]
        fn percentiles_are_nearest_ranks(values in prop::collection::vec(0u64..50_000_000, 1..300)) {
            let exact = percentiles(values.iter().map(|value| (*value, 1))).unwrap();
            prop_assert_eq!(percentiles(values.iter().map(|value| (*value, 2))), Some(exact));
            for (percent, found) in [(50, exact.p50), (90, exact.p90), (99, exact.p99)] {
                prop_assert_eq!(found, nearest_rank(values.clone(), percent));
            }
        }

        #[test]
        fn buckets_are_within_a_thousandth(values in prop::collection::vec(0u64..5_000_000_000, 1..300)) {
            let mut all = Distribution::new(1000);
            all.count_by_buckets();
            for value in &values {
                all.add(*value, 1);
            }
            let found = all.percentiles().unwrap();
            for (percent, found) in [(50, found.p50), (90, found.p90), (99, found.p99)] {
                let exact = nearest_rank(values.clone(), percent) as f64;
                prop_assert!((found as f64 - exact).abs() <= 0.001 * exact + 1000.0, "{} for {}", found, exact);
            }
        }
    }
}
