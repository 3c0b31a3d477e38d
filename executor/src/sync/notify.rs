use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::lock;
use super::wait_queue::WaitQueue;
use crate::rt::Host;
use crate::{Park, Why};

/// The token of a wait that [`Notify::notify_one`] ended: it must not get lost.
const ONE: u8 = 1;

/// Wakes tasks that wait for something to change. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Notify(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    host: Host,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// A notification that came when nobody waited.
    stored: bool,
    /// How often all were notified.
    rounds: u64,
    queue: WaitQueue,
}

impl Notify {
    pub(crate) fn new(host: Host) -> Self {
        Notify(Arc::new(Shared { host, state: Mutex::default() }))
    }

    /// Wakes the task that has waited longest, or stores one notification for the next that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all tasks whose [`Notified`] exists; stores nothing.
    pub fn notify_waiters(&self) {
        let waits = {
            let mut state = lock(&self.0.state);
            state.rounds += 1;
            state.queue.take()
        };
        for (_, unpark) in waits {
            unpark.unpark();
        }
    }

    /// Waits for a notification.
    ///
    /// [`notify_waiters`](Self::notify_waiters) counts from this call on, [`notify_one`](Self::notify_one)
    /// from the first poll: create it, look at the state it guards, then await it.
    #[track_caller]
    pub fn notified(&self) -> Notified {
        let rounds = lock(&self.0.state).rounds;
        Notified { shared: Arc::clone(&self.0), rounds, wait: Wait::New, place: Location::caller() }
    }
}

impl Shared {
    fn notify_one(&self) {
        loop {
            let unpark = {
                let mut state = lock(&self.state);
                if state.queue.front().is_none() {
                    state.stored = true;
                    return;
                }
                state.queue.pop()
            };
            if unpark.is_some_and(|unpark| unpark.unpark_with(ONE)) {
                return;
            }
        }
    }
}

/// Waits for a notification, see [`Notify::notified`].
///
/// # Cancel safety
/// A notification that this one was given and did not take passes on to the next.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Notified {
    shared: Arc<Shared>,
    rounds: u64,
    wait: Wait,
    place: &'static Location<'static>,
}

#[derive(Debug)]
enum Wait {
    New,
    Parked(Park),
    Done,
}

impl Future for Notified {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if let Wait::New = this.wait {
            let mut state = lock(&this.shared.state);
            if state.rounds != this.rounds || std::mem::take(&mut state.stored) {
                this.wait = Wait::Done;
            } else {
                let (park, unpark) = this.shared.host.park(Why::new("notify"), this.place);
                state.queue.push(1, unpark);
                this.wait = Wait::Parked(park);
            }
        }
        if let Wait::Parked(park) = &mut this.wait {
            // Never abandoned: this future keeps the queue alive.
            let _ = std::task::ready!(Pin::new(park).poll(cx));
            this.wait = Wait::Done;
        }
        Poll::Ready(())
    }
}

impl Drop for Notified {
    fn drop(&mut self) {
        if let Wait::Parked(park) = std::mem::replace(&mut self.wait, Wait::Done)
            && park.cancel() == Some(ONE)
        {
            self.shared.notify_one();
        }
    }
}
