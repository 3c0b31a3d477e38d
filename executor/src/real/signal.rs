use std::future::pending;
use std::pin::pin;

use futures::future::{Either, select};
use tokio::signal::unix::{SignalKind, signal};

/// Waits until the operating system asks the process to end, and returns the signal's name: `SIGTERM` or
/// `SIGINT`. From the first call on those signals no longer end the process by themselves.
///
/// # Panics
/// Outside a tokio runtime.
pub async fn termination() -> &'static str {
    let terminate = pin!(received(SignalKind::terminate()));
    let interrupt = pin!(received(SignalKind::interrupt()));
    match select(terminate, interrupt).await {
        Either::Left(_) => "SIGTERM",
        Either::Right(_) => "SIGINT",
    }
}

async fn received(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        Err(error) => {
            tracing::warn!(%error, "a signal cannot be caught; it ends the process without draining");
            pending().await
        }
    }
}
