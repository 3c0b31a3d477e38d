use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{AbortHandle, JoinError, Panic};

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
}

impl<T: 'static> JoinHandle<T> {
    pub(crate) fn real(handle: tokio::task::JoinHandle<Result<T, Panic>>) -> Self {
        JoinHandle(Inner::Real(handle))
    }

    /// Cancels the task, see [`AbortHandle::abort`].
    pub fn abort(&self) {
        match &self.0 {
            Inner::Real(handle) => handle.abort(),
        }
    }

    /// Returns a handle that can abort the task and outlives this one.
    pub fn abort_handle(&self) -> AbortHandle {
        match &self.0 {
            Inner::Real(handle) => AbortHandle::real(handle.abort_handle()),
        }
    }

    /// Returns whether the task has finished.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Inner::Real(handle) => handle.is_finished(),
        }
    }
}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Real(handle) => Pin::new(handle).poll(cx).map(|result| match result {
                Ok(Ok(output)) => Ok(output),
                Ok(Err(panic)) => Err(panic.observe()),
                Err(error) => match error.try_into_panic() {
                    // A panic outside the future's poll: while it was dropped.
                    Ok(payload) => Err(JoinError::panicked(payload)),
                    Err(_) => Err(JoinError::aborted()),
                },
            }),
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").finish_non_exhaustive()
    }
}
