use std::panic::Location;
use std::task::{Context, Poll};

use super::core::Id;
use super::waker;
use super::wheel::Key;
use crate::{Class, Instant};

/// A timer of the simulation: armed at its first poll, disarmed when dropped.
pub(crate) struct Timer {
    id: Id,
    class: Class,
    /// The deadline, rounded up to the granularity.
    due: Instant,
    place: &'static Location<'static>,
    /// Names an entry as long as `due` lies ahead; an entry that is due has been popped.
    key: Option<Key>,
}

impl Timer {
    #[inline]
    pub(crate) fn new(id: Id, class: Class, deadline: Instant, place: &'static Location<'static>) -> Self {
        Timer { id, class, due: id.with(|core| core.round_up(deadline)), place, key: None }
    }

    pub(crate) fn reset(&mut self, deadline: Instant) {
        self.disarm();
        self.due = self.id.with(|core| core.round_up(deadline));
    }

    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.id.with(|core| {
            if core.now() >= self.due {
                self.key = None;
                return Poll::Ready(());
            }
            match self.key {
                None => self.key = Some(core.arm(self.due, self.class, self.place, cx)),
                Some(key) => core.rearm(key, cx),
            }
            Poll::Pending
        })
    }

    #[inline]
    fn disarm(&mut self) {
        let Some(key) = self.key.take() else { return };
        // After the run there is nothing to disarm.
        waker::with(self.id, |core| {
            if core.now() < self.due {
                core.disarm(key);
            }
        });
    }
}

impl Drop for Timer {
    #[inline]
    fn drop(&mut self) {
        self.disarm();
    }
}
