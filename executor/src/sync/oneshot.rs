//! A channel for one value.

use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::{Closed, lock};
use crate::rt::Host;
use crate::{Park, Unpark, Why};

pub(crate) fn channel<T>(host: Host, place: &'static Location<'static>) -> (Sender<T>, Receiver<T>) {
    let state = State { value: None, receiver: None, sender: None, sending: true, receiving: true };
    let shared = Arc::new(Shared { host, place, state: Mutex::new(state) });
    (Sender { shared: Arc::clone(&shared), park: None }, Receiver { shared, park: None })
}

#[derive(Debug)]
struct Shared<T> {
    host: Host,
    place: &'static Location<'static>,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    /// The receiver's wait for the value.
    receiver: Option<Unpark>,
    /// The sender's wait for the receiver to go.
    sender: Option<Unpark>,
    sending: bool,
    receiving: bool,
}

/// Sends the value.
#[derive(Debug)]
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
    park: Option<Park>,
}

impl<T> Sender<T> {
    /// Sends the value, or returns it when the receiver is gone.
    pub fn send(self, value: T) -> Result<(), T> {
        let receiver = {
            let mut state = lock(&self.shared.state);
            if !state.receiving {
                return Err(value);
            }
            state.value = Some(value);
            state.receiver.take()
        };
        if let Some(receiver) = receiver {
            receiver.unpark();
        }
        Ok(())
    }

    /// Returns whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        !lock(&self.shared.state).receiving
    }

    /// Waits until the receiver is gone: whoever asked no longer wants the answer.
    pub async fn closed(&mut self) {
        std::future::poll_fn(|cx| self.poll_closed(cx)).await;
    }

    /// Polls whether the receiver is gone.
    pub fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.shared.state);
        if !state.receiving {
            return Poll::Ready(());
        }
        let park = match &mut self.park {
            Some(park) => park,
            none => {
                let (park, unpark) = self.shared.host.park(Why::new("oneshot closed"), self.shared.place);
                state.sender = Some(unpark);
                none.insert(park)
            }
        };
        drop(state);
        Pin::new(park).poll(cx).map(drop)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let receiver = {
            let mut state = lock(&self.shared.state);
            state.sending = false;
            state.receiver.take()
        };
        // After a send it is gone already; otherwise dropping it abandons the receiver.
        drop(receiver);
    }
}

/// Waits for the value.
///
/// # Errors
/// [`Closed`] when the sender was dropped without sending.
///
/// # Panics
/// Never: polled after the value was taken it is [`Closed`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    park: Option<Park>,
}

impl<T> Receiver<T> {
    /// Returns the value if it was sent, `None` if it still may be.
    ///
    /// # Errors
    /// [`Closed`] when it never will.
    pub fn try_recv(&mut self) -> Result<Option<T>, Closed> {
        let mut state = lock(&self.shared.state);
        match state.value.take() {
            Some(value) => Ok(Some(value)),
            None if state.sending => Ok(None),
            None => Err(Closed),
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut state = lock(&this.shared.state);
        if let Some(value) = state.value.take() {
            return Poll::Ready(Ok(value));
        }
        if !state.sending {
            return Poll::Ready(Err(Closed));
        }
        let park = match &mut this.park {
            Some(park) => park,
            none => {
                let (park, unpark) = this.shared.host.park(Why::new("oneshot"), this.shared.place);
                state.receiver = Some(unpark);
                none.insert(park)
            }
        };
        drop(state);
        match Pin::new(park).poll(cx) {
            Poll::Pending => Poll::Pending,
            // Sent, or dropped, between the look above and this poll.
            Poll::Ready(_) => Poll::Ready(lock(&this.shared.state).value.take().ok_or(Closed)),
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let (sender, value) = {
            let mut state = lock(&self.shared.state);
            state.receiving = false;
            state.receiver = None;
            (state.sender.take(), state.value.take())
        };
        drop(value);
        if let Some(sender) = sender {
            sender.unpark();
        }
    }
}
