//! When sources poll: ticks of one base period (configuration spec 5.1).

use std::time::Duration;

/// No base tick is shorter.
pub const MIN_BASE: Duration = Duration::from_millis(50);

/// Returns the base tick: what was requested, or the interval of the fastest source if that is less; at least
/// [`MIN_BASE`]. Sources without an interval of their own give zero.
pub fn base(requested: Duration, intervals: impl IntoIterator<Item = Duration>) -> Duration {
    let requested = requested.max(MIN_BASE);
    let own = intervals.into_iter().filter(|interval| !interval.is_zero());
    own.fold(requested, Duration::min).max(MIN_BASE)
}

/// Returns every how many base ticks a source with that interval polls: rounded half up, at least 1.
///
/// # Panics
/// When `base` is zero.
pub fn period(interval: Duration, base: Duration) -> u32 {
    let (interval, base) = (interval.as_nanos(), base.as_nanos());
    assert!(base > 0, "a base tick is above zero");
    u32::try_from((interval * 2 + base) / (base * 2)).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_fastest_source_lowers_the_base_of_all() {
        for (requested, intervals, expected) in [
            (0, vec![], 50),
            (30, vec![], 50),
            (200, vec![], 200),
            (200, vec![0, 1000], 200),
            (200, vec![0, 100, 150], 100),
            (200, vec![20], 50),
        ] {
            assert_eq!(base(ms(requested), intervals.into_iter().map(ms)), ms(expected));
        }
    }

    #[test]
    fn intervals_are_rounded_to_whole_ticks() {
        for (interval, ticks) in [(1000, 20), (5000, 100), (75, 2), (130, 3), (120, 2), (25, 1), (0, 1)] {
            assert_eq!(period(ms(interval), MIN_BASE), ticks, "{interval} ms");
        }
    }
}
