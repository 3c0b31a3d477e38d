use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use super::permits::Permits;
use super::{Closed, lock};
use crate::rt::Host;
use crate::{Park, Why};

/// Counted permits, given in first-in first-out order. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Semaphore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    host: Host,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    permits: Permits,
    closed: bool,
}

impl Semaphore {
    pub(crate) fn new(host: Host, permits: usize) -> Self {
        let state = State { permits: Permits::new(permits), closed: false };
        Semaphore(Arc::new(Shared { host, state: Mutex::new(state) }))
    }

    /// Returns how many permits are free.
    pub fn available(&self) -> usize {
        lock(&self.0.state).permits.free()
    }

    /// Waits for one permit.
    #[track_caller]
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Waits for `n` permits at once.
    #[track_caller]
    pub fn acquire_many(&self, n: usize) -> Acquire {
        Acquire { shared: Arc::clone(&self.0), n, park: None, place: Location::caller() }
    }

    /// Takes `n` permits if they are free and nobody waits before.
    pub fn try_acquire_many(&self, n: usize) -> Option<Permit> {
        let mut state = lock(&self.0.state);
        let taken = !state.closed && state.permits.try_take(n);
        taken.then(|| Permit { shared: Arc::clone(&self.0), n })
    }

    /// Adds `n` permits.
    pub fn add(&self, n: usize) {
        self.0.release(n);
    }

    /// Ends all waits, those to come too, with [`Closed`].
    pub fn close(&self) {
        let waits = {
            let mut state = lock(&self.0.state);
            state.closed = true;
            state.permits.close()
        };
        drop(waits);
    }
}

impl Shared {
    fn release(&self, n: usize) {
        lock(&self.state).permits.put(n);
        self.serve();
    }

    fn serve(&self) {
        loop {
            let Some((n, unpark)) = lock(&self.state).permits.next_served() else { return };
            if !unpark.unpark() {
                lock(&self.state).permits.put(n);
            }
        }
    }
}

/// Waits for permits, see [`Semaphore::acquire`].
///
/// # Errors
/// [`Closed`] when the semaphore was closed.
///
/// # Cancel safety
/// Dropping it gives up its place in the queue, and the permits if they had just been given.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Acquire {
    shared: Arc<Shared>,
    n: usize,
    park: Option<Park>,
    place: &'static Location<'static>,
}

impl Future for Acquire {
    type Output = Result<Permit, Closed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.park.is_none() {
            let mut state = lock(&this.shared.state);
            if state.closed {
                return Poll::Ready(Err(Closed));
            }
            if state.permits.try_take(this.n) {
                drop(state);
                return Poll::Ready(Ok(Permit { shared: Arc::clone(&this.shared), n: this.n }));
            }
            let (park, unpark) = this.shared.host.park(Why::about("semaphore", this.n as u64), this.place);
            state.permits.wait(this.n, unpark);
            this.park = Some(park);
        }
        let park = this.park.as_mut().expect("it was made above");
        let served = std::task::ready!(Pin::new(park).poll(cx));
        this.park = None;
        Poll::Ready(match served {
            Ok(()) => Ok(Permit { shared: Arc::clone(&this.shared), n: this.n }),
            Err(_) => Err(Closed),
        })
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(park) = self.park.take() else { return };
        match park.cancel() {
            Some(_) => self.shared.release(self.n),
            // Whoever waits behind may ask for less than this one did.
            None => self.shared.serve(),
        }
    }
}

/// Permits that go back to their [`Semaphore`] when this is dropped.
#[derive(Debug)]
#[must_use = "dropping a permit gives it back"]
pub struct Permit {
    shared: Arc<Shared>,
    n: usize,
}

impl Permit {
    /// Takes the permits out of circulation.
    pub fn forget(mut self) {
        self.n = 0;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.n > 0 {
            self.shared.release(self.n);
        }
    }
}
