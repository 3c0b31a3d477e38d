//! Parking: a pending future with registered readiness.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{real, sim};

/// What a parked future waits for: shown in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Why {
    /// The kind of thing, fixed in the code: `"flow-control queue"`.
    pub kind: &'static str,
    /// Which one: a request's number, an endpoint's index.
    pub key: u64,
}

impl Why {
    /// Returns the reason `kind` with key zero.
    pub const fn new(kind: &'static str) -> Self {
        Why { kind, key: 0 }
    }

    /// Returns the reason `kind` about `key`.
    pub const fn about(kind: &'static str, key: u64) -> Self {
        Why { kind, key }
    }
}

/// Waits until the [`Unpark`] of its pair is used, see [`Rt::park`](crate::Rt::park).
///
/// # Errors
/// [`Abandoned`] when the `Unpark` was dropped unused.
///
/// # Cancel safety
/// Dropping the `Park` cancels the pair: the `Unpark` then has no effect and says so.
#[must_use = "futures do nothing unless polled"]
pub struct Park(pub(crate) ParkInner);

pub(crate) enum ParkInner {
    Real(real::Park),
    Sim(sim::Park),
}

/// Ends the wait of the [`Park`] of its pair; works from any thread.
#[must_use = "dropping an Unpark abandons its Park"]
pub struct Unpark(pub(crate) UnparkInner);

pub(crate) enum UnparkInner {
    Real(real::Unpark),
    Sim(sim::Unpark),
}

impl Park {
    /// Returns whether the pair's [`Unpark`] was used.
    pub fn is_unparked(&self) -> bool {
        match &self.0 {
            ParkInner::Real(park) => park.token().is_some(),
            ParkInner::Sim(park) => park.token().is_some(),
        }
    }

    /// Cancels, unless it was unparked before: then returns the token.
    pub(crate) fn cancel(mut self) -> Option<u8> {
        match &mut self.0 {
            ParkInner::Real(park) => park.cancel(),
            ParkInner::Sim(park) => park.cancel(),
        }
    }
}

impl Future for Park {
    type Output = Result<(), Abandoned>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            ParkInner::Real(park) => park.poll(cx),
            ParkInner::Sim(park) => park.poll(cx),
        }
    }
}

impl Unpark {
    /// Ends the wait. Returns whether the [`Park`] was still there to be woken.
    pub fn unpark(self) -> bool {
        self.unpark_with(0)
    }

    /// Ends the wait and leaves `token` (below 64) for [`Park::cancel`].
    pub(crate) fn unpark_with(self, token: u8) -> bool {
        match self.0 {
            UnparkInner::Real(unpark) => unpark.unpark(token),
            UnparkInner::Sim(unpark) => unpark.unpark(token),
        }
    }

    /// Returns whether the [`Park`] was dropped.
    pub fn is_cancelled(&self) -> bool {
        match &self.0 {
            UnparkInner::Real(unpark) => unpark.is_cancelled(),
            UnparkInner::Sim(unpark) => unpark.is_cancelled(),
        }
    }
}

impl fmt::Debug for Park {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Park").field("unparked", &self.is_unparked()).finish()
    }
}

impl fmt::Debug for Unpark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpark").field("cancelled", &self.is_cancelled()).finish()
    }
}

/// The error of a [`Park`] whose [`Unpark`] was dropped unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned(pub(crate) ());

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("whoever was to end this wait is gone")
    }
}

impl std::error::Error for Abandoned {}
