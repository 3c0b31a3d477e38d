use std::fmt;

use crate::sim;

/// Aborts a task without owning its output, see [`JoinHandle::abort_handle`](super::JoinHandle::abort_handle).
#[derive(Clone)]
pub struct AbortHandle(Inner);

#[derive(Clone)]
enum Inner {
    Real(tokio::task::AbortHandle),
    Sim(sim::TaskRef),
}

impl AbortHandle {
    pub(crate) fn real(handle: tokio::task::AbortHandle) -> Self {
        AbortHandle(Inner::Real(handle))
    }

    pub(crate) fn sim(task: sim::TaskRef) -> Self {
        AbortHandle(Inner::Sim(task))
    }

    /// Cancels the task at its next turn: its future is dropped and whoever joins it gets an error.
    ///
    /// A task that has finished is not affected. A task may abort itself: that takes effect when its poll
    /// returns, unless the poll finishes it.
    pub fn abort(&self) {
        match &self.0 {
            Inner::Real(handle) => handle.abort(),
            Inner::Sim(task) => task.abort(),
        }
    }

    /// Returns whether the task has finished or was dropped.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Inner::Real(handle) => handle.is_finished(),
            Inner::Sim(task) => task.is_finished(),
        }
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle").field("finished", &self.is_finished()).finish()
    }
}
