use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::{AbortHandle, JoinError, Panic};
use crate::sim;

/// Awaits the output of a task.
///
/// Dropping the handle detaches the task: it goes on.
///
/// # Errors
/// [`JoinError`] when the task was aborted or panicked.
///
/// # Panics
/// When it is polled after it was ready.
///
/// # Cancel safety
/// The output stays with the task until the handle is ready or dropped.
pub struct JoinHandle<T>(Inner<T>);

enum Inner<T> {
    Real(tokio::task::JoinHandle<Result<T, Panic>>),
    Sim(sim::TaskRef),
    /// The output was taken.
    Joined,
}

impl<T: 'static> JoinHandle<T> {
    pub(crate) fn real(handle: tokio::task::JoinHandle<Result<T, Panic>>) -> Self {
        JoinHandle(Inner::Real(handle))
    }

    #[inline]
    pub(crate) fn sim(task: sim::TaskRef) -> Self {
        JoinHandle(Inner::Sim(task))
    }

    /// Cancels the task, see [`AbortHandle::abort`].
    pub fn abort(&self) {
        match &self.0 {
            Inner::Real(handle) => handle.abort(),
            Inner::Sim(task) => task.abort(),
            Inner::Joined => {}
        }
    }

    /// Returns a handle that can abort the task and outlives this one.
    ///
    /// # Panics
    /// When the output was taken.
    pub fn abort_handle(&self) -> AbortHandle {
        match &self.0 {
            Inner::Real(handle) => AbortHandle::real(handle.abort_handle()),
            Inner::Sim(task) => AbortHandle::sim(*task),
            Inner::Joined => panic!("a joined task has no abort handle"),
        }
    }

    /// Returns whether the task has finished.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Inner::Real(handle) => handle.is_finished(),
            Inner::Sim(task) => task.is_finished(),
            Inner::Joined => true,
        }
    }
}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = match &mut self.0 {
            Inner::Real(handle) => ready!(Pin::new(handle).poll(cx)).map_or_else(
                |error| match error.try_into_panic() {
                    // Outside the future's poll: while it was dropped.
                    Ok(payload) => Err(JoinError::panicked(payload)),
                    Err(_) => Err(JoinError::aborted()),
                },
                |output| output.map_err(Panic::observe),
            ),
            Inner::Sim(task) => ready!(task.poll_join(cx)),
            Inner::Joined => panic!("a join handle was polled after it was ready"),
        };
        self.0 = Inner::Joined;
        Poll::Ready(outcome)
    }
}

impl<T> Drop for JoinHandle<T> {
    #[inline]
    fn drop(&mut self) {
        if let Inner::Sim(task) = self.0 {
            task.detach();
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").finish_non_exhaustive()
    }
}
