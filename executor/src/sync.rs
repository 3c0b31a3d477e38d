//! Channels between tasks: one implementation for both hosts, every wait a parked future with a reason.
//!
//! They are `Send`, work across threads on tokio, and wake in first-in first-out order on both hosts, so code
//! that coordinates through them behaves alike under both. Create them through [`Rt`](crate::Rt).

pub mod mpsc;
mod notify;
pub mod oneshot;
mod permits;
mod semaphore;
mod wait_queue;
pub mod watch;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use notify::{Notified, Notify};
pub use semaphore::{Acquire, Permit, Semaphore};

/// The error of a channel whose other side is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other side of the channel is gone")
    }
}

impl std::error::Error for Closed {}

/// Locks; a panic while locked leaves states that are whole, so poison is no news.
///
/// Rule of this module: no waker is called and no value of a user is dropped while a lock is held, for either
/// may come back to the same channel.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
