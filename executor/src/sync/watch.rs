//! A channel that holds the last value.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::wait_queue::WaitQueue;
use super::{Closed, lock};
use crate::rt::Host;
use crate::{Park, Why};

pub(crate) fn channel<T>(host: Host, value: T) -> (Sender<T>, Receiver<T>) {
    let state = State { version: 0, sending: true, changed: WaitQueue::default() };
    let shared = Arc::new(Shared { host, value: Mutex::new(value), state: Mutex::new(state) });
    (Sender(Arc::clone(&shared)), Receiver { shared, seen: 0 })
}

#[derive(Debug)]
struct Shared<T> {
    host: Host,
    /// Apart from the state: closures of users run while it is locked. Never locked while the state is.
    value: Mutex<T>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    version: u64,
    sending: bool,
    changed: WaitQueue,
}

impl<T> Shared<T> {
    fn wake(&self, update: impl FnOnce(&mut State)) {
        let waits = {
            let mut state = lock(&self.state);
            update(&mut state);
            state.changed.take()
        };
        for (_, unpark) in waits {
            unpark.unpark();
        }
    }
}

/// Sets the value.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Sets the value and wakes who waits for a change. Returns the value before.
    pub fn send(&self, value: T) -> T {
        let before = std::mem::replace(&mut *lock(&self.0.value), value);
        self.0.wake(|state| state.version += 1);
        before
    }

    /// Changes the value in place and wakes who waits for a change.
    ///
    /// `change` must not touch this channel: it runs while the value is locked.
    pub fn modify<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut lock(&self.0.value));
        self.0.wake(|state| state.version += 1);
        result
    }

    /// Looks at the value; `look` must not touch this channel.
    pub fn with<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&lock(&self.0.value))
    }

    /// Returns a receiver that has seen the value as it is now.
    pub fn subscribe(&self) -> Receiver<T> {
        let seen = lock(&self.0.state).version;
        Receiver { shared: Arc::clone(&self.0), seen }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.wake(|state| state.sending = false);
    }
}

/// Looks at the value and waits for changes. A clone has seen what this one has.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Receiver { shared: Arc::clone(&self.shared), seen: self.seen }
    }
}

impl<T> Receiver<T> {
    /// Returns a copy of the value.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        lock(&self.shared.value).clone()
    }

    /// Looks at the value; `look` must not touch this channel.
    pub fn with<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&lock(&self.shared.value))
    }

    /// Returns whether the value was set since this receiver last waited.
    pub fn has_changed(&self) -> bool {
        lock(&self.shared.state).version != self.seen
    }

    /// Waits until the value is set anew, unless it was since the last wait; then counts it as seen.
    ///
    /// # Errors
    /// [`Closed`] when the sender is gone and there is nothing unseen.
    #[track_caller]
    pub fn changed(&mut self) -> Changed<'_, T> {
        Changed { receiver: self, park: None, place: Location::caller() }
    }

    /// Waits until the value satisfies `condition`; the current one is looked at first.
    ///
    /// # Errors
    /// [`Closed`] when the sender is gone before that.
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&T) -> bool) -> Result<(), Closed> {
        loop {
            self.seen = lock(&self.shared.state).version;
            if self.with(&mut condition) {
                return Ok(());
            }
            self.changed().await?;
        }
    }
}

/// Waits for a change, see [`Receiver::changed`].
///
/// # Cancel safety
/// Dropped before it is ready, the change is still unseen.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Changed<'a, T> {
    receiver: &'a mut Receiver<T>,
    park: Option<Park>,
    place: &'static Location<'static>,
}

impl<T> Future for Changed<'_, T> {
    type Output = Result<(), Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            let mut state = lock(&this.receiver.shared.state);
            if state.version != this.receiver.seen {
                this.receiver.seen = state.version;
                return Poll::Ready(Ok(()));
            }
            if !state.sending {
                return Poll::Ready(Err(Closed));
            }
            let park = match &mut this.park {
                Some(park) => park,
                none => {
                    let (park, unpark) = this.receiver.shared.host.park(Why::new("watch"), this.place);
                    state.changed.push(1, unpark);
                    none.insert(park)
                }
            };
            drop(state);
            let _ = std::task::ready!(Pin::new(park).poll(cx));
            this.park = None;
        }
    }
}
