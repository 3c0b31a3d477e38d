use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point on the runtime's monotonic clock.
///
/// Nanoseconds since the runtime started. Unlike `std::time::Instant` it is plain data: it can be written
/// to a journal, compared across runs of one seed, and built in a test.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The instant at which the runtime started.
    pub const ZERO: Instant = Instant(0);
    /// The last instant that can be told: about 584 years after the start.
    pub const MAX: Instant = Instant(u64::MAX);

    /// Returns the instant `nanos` nanoseconds after the start of the runtime.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Returns the nanoseconds since the runtime started.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the runtime started.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns how long after `earlier` this instant lies, zero if it lies before.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// Saturates at [`Instant::MAX`].
impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_add(saturating_nanos(rhs)))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

/// Saturates at [`Instant::ZERO`].
impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, rhs: Duration) -> Instant {
        Instant(self.0.saturating_sub(saturating_nanos(rhs)))
    }
}

/// The same as [`Instant::since`].
impl Sub for Instant {
    type Output = Duration;

    fn sub(self, rhs: Instant) -> Duration {
        self.since(rhs)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A point on the wall clock: nanoseconds since the UNIX epoch.
///
/// For values that leave the process (headers, files, metrics). Never measure with it: it may step back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(u64);

impl WallTime {
    /// 2000-01-01T00:00:00Z, at which every simulation starts unless it is told otherwise.
    pub const SIM_EPOCH: WallTime = WallTime(946_684_800_000_000_000);

    /// Returns the wall time `nanos` nanoseconds after the UNIX epoch.
    pub const fn from_unix_nanos(nanos: u64) -> Self {
        WallTime(nanos)
    }

    /// Returns the nanoseconds since the UNIX epoch.
    pub const fn unix_nanos(self) -> u64 {
        self.0
    }

    /// Returns the whole seconds since the UNIX epoch.
    pub const fn unix_secs(self) -> u64 {
        self.0 / 1_000_000_000
    }
}

/// Saturates at the last wall time that can be told (year 2554).
impl Add<Duration> for WallTime {
    type Output = WallTime;

    fn add(self, rhs: Duration) -> WallTime {
        WallTime(self.0.saturating_add(saturating_nanos(rhs)))
    }
}

fn saturating_nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let one = Duration::from_secs(1);
        assert_eq!(Instant::MAX + one, Instant::MAX);
        assert_eq!(Instant::ZERO - one, Instant::ZERO);
        assert_eq!(Instant::ZERO - Instant::from_nanos(5), Duration::ZERO);
        assert_eq!(Instant::from_nanos(7) - Instant::from_nanos(5), Duration::from_nanos(2));
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::MAX);
    }

    #[test]
    fn prints_seconds_with_nanoseconds() {
        assert_eq!(Instant::from_nanos(1_000_000_001).to_string(), "1.000000001s");
    }
}
