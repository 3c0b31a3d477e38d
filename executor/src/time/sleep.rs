use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Instant;
use crate::{real, sim};

/// A future that is ready at its deadline, see [`Rt::sleep`](crate::Rt::sleep).
///
/// The deadline is fixed at creation, not at the first poll; a deadline that has passed is ready at the first
/// poll. The timer is armed at the first poll and disarmed in constant time when the sleep is dropped.
/// On tokio a deadline is rounded up to the next millisecond. The simulation is exact, unless it was built
/// with a granularity.
#[must_use = "futures do nothing unless polled"]
pub struct Sleep {
    deadline: Instant,
    inner: Inner,
}

enum Inner {
    Real(real::Timer),
    Sim(sim::Timer),
}

impl Sleep {
    pub(crate) fn real(deadline: Instant, timer: real::Timer) -> Self {
        Sleep { deadline, inner: Inner::Real(timer) }
    }

    #[inline]
    pub(crate) fn sim(deadline: Instant, timer: sim::Timer) -> Self {
        Sleep { deadline, inner: Inner::Sim(timer) }
    }

    /// Returns the instant at which this sleep is ready.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Moves the deadline, whether the sleep was ready or not.
    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        match &mut self.inner {
            Inner::Real(timer) => timer.reset(deadline),
            Inner::Sim(timer) => timer.reset(deadline),
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.inner {
            Inner::Real(timer) => timer.poll(cx),
            Inner::Sim(timer) => timer.poll(cx),
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
