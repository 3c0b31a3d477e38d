use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;

use crate::Abandoned;

const WAITING: u8 = 0;
const CANCELLED: u8 = 1;
const ABANDONED: u8 = 2;
/// States from here on are "unparked", with a token in the difference.
const UNPARKED: u8 = 3;

struct Pair {
    state: AtomicU8,
    waker: AtomicWaker,
}

impl Pair {
    /// Leaves `WAITING` for `state`; only the first to do so succeeds.
    fn resolve(&self, state: u8) -> Result<(), u8> {
        self.state.compare_exchange(WAITING, state, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }
}

pub(crate) struct Park(Arc<Pair>);

/// `None` once used.
pub(crate) struct Unpark(Option<Arc<Pair>>);

pub(crate) fn pair() -> (Park, Unpark) {
    let pair = Arc::new(Pair { state: AtomicU8::new(WAITING), waker: AtomicWaker::new() });
    (Park(Arc::clone(&pair)), Unpark(Some(pair)))
}

impl Park {
    pub(crate) fn token(&self) -> Option<u8> {
        self.0.state.load(Ordering::Acquire).checked_sub(UNPARKED)
    }

    pub(crate) fn cancel(&self) -> Option<u8> {
        self.0.resolve(CANCELLED).err().and_then(|state| state.checked_sub(UNPARKED))
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Abandoned>> {
        // Registered before the state is read: an unpark in between finds the waker.
        self.0.waker.register(cx.waker());
        match self.0.state.load(Ordering::Acquire) {
            WAITING => Poll::Pending,
            ABANDONED | CANCELLED => Poll::Ready(Err(Abandoned(()))),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl Drop for Park {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Unpark {
    pub(crate) fn unpark(mut self, token: u8) -> bool {
        let pair = self.0.take().expect("an Unpark is used once, by value");
        let resolved = pair.resolve(UNPARKED + token).is_ok();
        if resolved {
            pair.waker.wake();
        }
        resolved
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_none_or(|pair| pair.state.load(Ordering::Acquire) == CANCELLED)
    }
}

impl Drop for Unpark {
    fn drop(&mut self) {
        if let Some(pair) = self.0.take()
            && pair.resolve(ABANDONED).is_ok()
        {
            pair.waker.wake();
        }
    }
}
