use std::time::Duration;

use hdrhistogram::Histogram;

use super::LatencySummary;

/// Entries kept one by one; above that, what they are put into counts by buckets.
const MOST_EXACT: usize = 1 << 16;

/// Durations, as their mean and percentiles need them, in memory that does not grow with a long run.
///
/// The mean is exact. Percentiles are exact up to [`MOST_EXACT`] entries; of more, each is at most 0.1 % above the
/// exact one (and a microsecond), and never above the largest duration.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    nanos: u128,
    count: u64,
    longest: Duration,
    /// Each with the number of times it was added.
    exact: Vec<(Duration, u64)>,
    /// Microseconds, once there are too many.
    micros: Option<Histogram<u64>>,
}

impl Latencies {
    /// Adds `latency`, `times` times.
    pub(super) fn add(&mut self, latency: Duration, times: u64) {
        self.nanos += latency.as_nanos() * u128::from(times);
        self.count += times;
        self.longest = self.longest.max(latency);
        match &mut self.micros {
            Some(micros) => record(micros, latency, times),
            None => {
                match self.exact.last_mut() {
                    Some((last, count)) if *last == latency => *count += times,
                    _ => self.exact.push((latency, times)),
                }
                if self.exact.len() > MOST_EXACT {
                    self.count_by_buckets();
                }
            }
        }
    }

    fn count_by_buckets(&mut self) {
        let mut micros = Histogram::new(3).expect("three digits are within 0 to 5");
        micros.auto(true);
        for (latency, times) in std::mem::take(&mut self.exact) {
            record(&mut micros, latency, times);
        }
        self.micros = Some(micros);
    }

    /// Returns milliseconds; nulls where there was nothing to measure.
    pub(super) fn summarize(mut self) -> LatencySummary {
        if self.count == 0 {
            return LatencySummary::default();
        }
        self.exact.sort_unstable();
        LatencySummary {
            mean: Some(self.nanos as f64 / self.count as f64 / 1e6),
            p50: Some(self.percentile(50)),
            p90: Some(self.percentile(90)),
            p99: Some(self.percentile(99)),
        }
    }

    /// The least duration that `percent` of all durations do not exceed, of durations that are sorted.
    fn percentile(&self, percent: u64) -> f64 {
        let latency = match &self.micros {
            Some(micros) => Duration::from_micros(micros.value_at_quantile(percent as f64 / 100.0)),
            None => {
                let rank = (u128::from(self.count) * u128::from(percent)).div_ceil(100);
                let mut seen = 0;
                let at_rank = self.exact.iter().find(|(_, times)| {
                    seen += u128::from(*times);
                    seen >= rank
                });
                at_rank.map_or(self.longest, |(latency, _)| *latency)
            }
        };
        latency.min(self.longest).as_nanos() as f64 / 1e6
    }
}

fn record(micros: &mut Histogram<u64>, latency: Duration, times: u64) {
    let value = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
    micros.record_n(value, times).expect("a histogram that grows by itself takes every value");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn summary(latencies: impl IntoIterator<Item = (u64, u64)>) -> LatencySummary {
        let mut all = Latencies::default();
        for (nanos, times) in latencies {
            all.add(Duration::from_nanos(nanos), times);
        }
        all.summarize()
    }

    #[test]
    fn one_sample_is_its_own_percentile() {
        let all = Some(22.428_317);
        assert_eq!(summary([(22_428_317, 1)]), LatencySummary { mean: all, p50: all, p90: all, p99: all });
    }

    #[test]
    fn nothing_measured_is_null() {
        assert_eq!(summary([]), LatencySummary::default());
    }

    #[test]
    fn no_percentile_exceeds_the_largest_duration() {
        // More entries than are kept one by one, all but the first equal up to a few nanoseconds.
        let many = (0..MOST_EXACT as u64 + 10).map(|i| (22_428_317 - i % 7, 1));
        let summary = summary([(1, 1)].into_iter().chain(many));
        assert_eq!(summary.p99, Some(22.428_317));
    }

    /// The nearest rank, by the definition.
    fn nearest_rank(mut values: Vec<u64>, percent: usize) -> f64 {
        values.sort_unstable();
        values[(values.len() * percent).div_ceil(100) - 1] as f64 / 1e6
    }

    proptest! {
        #[test]
        fn percentiles_are_nearest_ranks(values in prop::collection::vec(0u64..50_000_000, 1..300)) {
            let exact = summary(values.iter().map(|value| (*value, 1)));
            let twice = summary(values.iter().map(|value| (*value, 2)));
            prop_assert_eq!(exact, twice);
            for (percent, found) in [(50, exact.p50), (90, exact.p90), (99, exact.p99)] {
                prop_assert_eq!(found, Some(nearest_rank(values.clone(), percent)));
            }
        }

        #[test]
        fn buckets_are_within_a_thousandth(values in prop::collection::vec(0u64..5_000_000_000, 1..300)) {
            let mut latencies = Latencies::default();
            latencies.count_by_buckets();
            for value in &values {
                latencies.add(Duration::from_nanos(*value), 1);
            }
            let found = latencies.summarize();
            for (percent, found) in [(50, found.p50), (90, found.p90), (99, found.p99)] {
                let (found, exact) = (found.unwrap_or_default(), nearest_rank(values.clone(), percent));
                prop_assert!((found - exact).abs() <= 0.001 * exact + 0.001, "{} for {}", found, exact);
            }
        }
    }
}
