//! A channel for many values from many senders to one receiver.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::permits::Permits;
use super::{Closed, lock};
use crate::rt::Host;
use crate::{Park, Unpark, Why};

#[track_caller]
pub(crate) fn bounded<T>(host: Host, capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel of capacity zero could never hold a value");
    let shared = Shared::new(host, Some(Permits::new(capacity)), Location::caller());
    (Sender { shared: Arc::clone(&shared) }, Receiver { shared, park: None })
}

#[track_caller]
pub(crate) fn unbounded<T>(host: Host) -> (UnboundedSender<T>, Receiver<T>) {
    let shared = Shared::new(host, None, Location::caller());
    (UnboundedSender { shared: Arc::clone(&shared) }, Receiver { shared, park: None })
}

struct Shared<T> {
    host: Host,
    place: &'static Location<'static>,
    state: Mutex<State<T>>,
}

struct State<T> {
    queue: VecDeque<T>,
    /// Free places; `None` without a bound.
    places: Option<Permits>,
    receiver: Option<Unpark>,
    senders: usize,
    receiving: bool,
}

impl<T> Shared<T> {
    fn new(host: Host, places: Option<Permits>, place: &'static Location<'static>) -> Arc<Self> {
        let state = State { queue: VecDeque::new(), places, receiver: None, senders: 1, receiving: true };
        Arc::new(Shared { host, place, state: Mutex::new(state) })
    }

    /// Appends a value for which there is a place.
    fn push(&self, value: T) -> Result<(), T> {
        let receiver = {
            let mut state = lock(&self.state);
            if !state.receiving {
                return Err(value);
            }
            state.queue.push_back(value);
            state.receiver.take()
        };
        if let Some(receiver) = receiver {
            receiver.unpark();
        }
        Ok(())
    }

    fn put_place_back(&self) {
        if let Some(places) = &mut lock(&self.state).places {
            places.put(1);
        }
        self.serve();
    }

    /// Gives free places to senders that wait for one.
    fn serve(&self) {
        loop {
            let next = lock(&self.state).places.as_mut().and_then(Permits::next_served);
            let Some((n, unpark)) = next else { return };
            if !unpark.unpark()
                && let Some(places) = &mut lock(&self.state).places
            {
                places.put(n);
            }
        }
    }

    fn add_sender(&self) {
        lock(&self.state).senders += 1;
    }

    fn remove_sender(&self) {
        let receiver = {
            let mut state = lock(&self.state);
            state.senders -= 1;
            if state.senders > 0 { None } else { state.receiver.take() }
        };
        if let Some(receiver) = receiver {
            receiver.unpark();
        }
    }

    fn receiving(&self) -> bool {
        lock(&self.state).receiving
    }
}

/// Why a value was not sent at once; it comes back.
#[derive(Debug, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no free place.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// Sends values into a bounded channel.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// Waits for a place and sends `value`, or returns it when the receiver is gone.
    ///
    /// Senders get places in the order in which they began to wait.
    #[track_caller]
    pub fn send(&self, value: T) -> Send<'_, T> {
        Send { shared: &self.shared, value: Some(value), park: None, place: Location::caller() }
    }

    /// Sends `value` if there is a place and nobody waits for one.
    ///
    /// # Errors
    /// The value with the reason.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let receiver = {
            let mut state = lock(&self.shared.state);
            if !state.receiving {
                return Err(TrySendError::Closed(value));
            }
            if !state.places.as_mut().is_none_or(|places| places.try_take(1)) {
                return Err(TrySendError::Full(value));
            }
            state.queue.push_back(value);
            state.receiver.take()
        };
        if let Some(receiver) = receiver {
            receiver.unpark();
        }
        Ok(())
    }

    /// Returns whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        !self.shared.receiving()
    }
}

/// Sends one value, see [`Sender::send`].
///
/// # Cancel safety
/// Dropped before it is ready, the value was not sent.
#[must_use = "futures do nothing unless polled"]
pub struct Send<'a, T> {
    shared: &'a Arc<Shared<T>>,
    value: Option<T>,
    park: Option<Park>,
    place: &'static Location<'static>,
}

// The value is moved, never pinned.
impl<T> Unpin for Send<'_, T> {}

impl<T> Future for Send<'_, T> {
    type Output = Result<(), T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.park.is_none() {
            let mut state = lock(&this.shared.state);
            if state.receiving && !state.places.as_mut().is_none_or(|places| places.try_take(1)) {
                let (park, unpark) = this.shared.host.park(Why::new("mpsc full"), this.place);
                if let Some(places) = &mut state.places {
                    places.wait(1, unpark);
                }
                this.park = Some(park);
            }
        }
        if let Some(park) = &mut this.park {
            // Abandoned when the receiver goes; the push below then returns the value.
            let _ = std::task::ready!(Pin::new(park).poll(cx));
            this.park = None;
        }
        let value = this.value.take().expect("a Send is not polled after it was ready");
        Poll::Ready(this.shared.push(value))
    }
}

impl<T> Drop for Send<'_, T> {
    fn drop(&mut self) {
        if self.park.take().and_then(Park::cancel).is_some() {
            self.shared.put_place_back();
        }
    }
}

/// Sends values into an unbounded channel.
pub struct UnboundedSender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> UnboundedSender<T> {
    /// Sends `value`, or returns it when the receiver is gone.
    pub fn send(&self, value: T) -> Result<(), T> {
        self.shared.push(value)
    }

    /// Returns whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        !self.shared.receiving()
    }
}

/// Receives the values.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    park: Option<Park>,
}

impl<T> Receiver<T> {
    /// Waits for the next value; `None` when all senders are gone and all values taken.
    #[track_caller]
    pub fn recv(&mut self) -> Recv<'_, T> {
        Recv { receiver: self, place: Location::caller() }
    }

    /// Polls for the next value.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let place = self.shared.place;
        self.poll_recv_at(cx, place)
    }

    fn poll_recv_at(&mut self, cx: &mut Context<'_>, place: &'static Location<'static>) -> Poll<Option<T>> {
        loop {
            let mut state = lock(&self.shared.state);
            if let Some(value) = state.queue.pop_front() {
                if let Some(places) = &mut state.places {
                    places.put(1);
                    drop(state);
                    self.shared.serve();
                }
                return Poll::Ready(Some(value));
            }
            if state.senders == 0 {
                return Poll::Ready(None);
            }
            let park = match &mut self.park {
                Some(park) => park,
                none => {
                    let (park, unpark) = self.shared.host.park(Why::new("mpsc empty"), place);
                    state.receiver = Some(unpark);
                    none.insert(park)
                }
            };
            drop(state);
            let _ = std::task::ready!(Pin::new(park).poll(cx));
            // Used up: look again, and wait anew if another look took the value.
            self.park = None;
        }
    }

    /// Returns the next value if there is one; `None` also when all senders are gone.
    pub fn try_recv(&mut self) -> Option<T> {
        let value = {
            let mut state = lock(&self.shared.state);
            let value = state.queue.pop_front()?;
            if let Some(places) = &mut state.places {
                places.put(1);
            }
            value
        };
        self.shared.serve();
        Some(value)
    }

    /// Returns how many values wait to be received.
    pub fn len(&self) -> usize {
        lock(&self.shared.state).queue.len()
    }

    /// Returns whether no value waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let (values, waits) = {
            let mut state = lock(&self.shared.state);
            state.receiving = false;
            (std::mem::take(&mut state.queue), state.places.as_mut().map(Permits::close))
        };
        drop((values, waits));
    }
}

/// Receives one value, see [`Receiver::recv`].
///
/// # Cancel safety
/// Dropped before it is ready, no value was taken.
#[must_use = "futures do nothing unless polled"]
pub struct Recv<'a, T> {
    receiver: &'a mut Receiver<T>,
    place: &'static Location<'static>,
}

impl<T> Future for Recv<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let place = self.place;
        self.receiver.poll_recv_at(cx, place)
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.add_sender();
        Sender { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.shared.remove_sender();
    }
}

impl<T> Clone for UnboundedSender<T> {
    fn clone(&self) -> Self {
        self.shared.add_sender();
        UnboundedSender { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for UnboundedSender<T> {
    fn drop(&mut self) {
        self.shared.remove_sender();
    }
}

macro_rules! debug {
    ($($name:ident$(<$lifetime:lifetime>)?),*) => {$(
        impl<T> fmt::Debug for $name<$($lifetime,)? T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}
debug!(Sender, UnboundedSender, Receiver, Send<'_>, Recv<'_>);

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrySendError::Full(_) => f.write_str("the channel is full"),
            TrySendError::Closed(_) => Closed.fmt(f),
        }
    }
}

impl<T: fmt::Debug> std::error::Error for TrySendError<T> {}
