use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::{Class, Instant, Sleep};
use crate::Rt;

/// How late a tick may be before it counts as missed: timers of tokio are rounded up to a millisecond.
const TOLERANCE: Duration = Duration::from_millis(5);

/// What an [`Interval`] does when a tick was taken later than its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missed {
    /// Ticks at once until it has caught up.
    #[default]
    Burst,
    /// Counts the next period from the late tick.
    Delay,
    /// Leaves missed ticks out and stays on multiples of the period.
    Skip,
}

/// Ticks with a fixed period, see [`Rt::interval`](crate::Rt::interval).
///
/// The first tick is due at creation. Under the simulation ticks are of [`Class::Ticker`].
#[derive(Debug)]
pub struct Interval {
    rt: Rt,
    sleep: Sleep,
    period: Duration,
    missed: Missed,
}

impl Interval {
    #[track_caller]
    pub(crate) fn new(rt: &Rt, start: Instant, period: Duration, missed: Missed) -> Self {
        assert!(!period.is_zero(), "an interval needs a period above zero");
        Interval { rt: rt.clone(), sleep: rt.sleep_until_in(Class::Ticker, start), period, missed }
    }

    /// Waits for the next tick and returns the instant at which it was due.
    ///
    /// # Cancel safety
    /// A tick that was not awaited to its end stays due.
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Pin::new(&mut self.sleep).poll(cx));
        let due = self.sleep.deadline();
        self.sleep.reset(self.next(due, self.rt.now()));
        Poll::Ready(due)
    }

    fn next(&self, due: Instant, now: Instant) -> Instant {
        let late = now - due;
        if late <= TOLERANCE.min(self.period) {
            return due + self.period;
        }
        match self.missed {
            Missed::Burst => due + self.period,
            Missed::Delay => now + self.period,
            Missed::Skip => {
                let period = self.period.as_nanos();
                let past = late.as_nanos() % period;
                now + Duration::from_nanos(u64::try_from(period - past).unwrap_or(u64::MAX))
            }
        }
    }

    /// Returns the period.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Makes the next tick due one period from now.
    pub fn reset(&mut self) {
        self.sleep.reset(self.rt.now() + self.period);
    }
}
