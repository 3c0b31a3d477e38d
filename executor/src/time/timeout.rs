use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Sleep;

/// A future with a time limit, see [`Rt::timeout`](crate::Rt::timeout).
///
/// The inner future is polled first: when both are due at one instant, its output wins.
///
/// # Cancel safety
/// Dropping the timeout drops the inner future and disarms the timer.
#[pin_project::pin_project]
#[must_use = "futures do nothing unless polled"]
#[derive(Debug)]
pub struct Timeout<F> {
    #[pin]
    inner: F,
    sleep: Sleep,
}

impl<F> Timeout<F> {
    pub(crate) fn new(inner: F, sleep: Sleep) -> Self {
        Timeout { inner, sleep }
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.inner.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(this.sleep).poll(cx).map(|()| Err(Elapsed(())))
    }
}

/// The error of a [`Timeout`]: its time passed before the inner future was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed(pub(crate) ());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline passed")
    }
}

impl std::error::Error for Elapsed {}
