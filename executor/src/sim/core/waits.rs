//! Timers and tickets.

use std::panic::Location;
use std::task::{Context, Poll};

use super::{Core, Entry};
use crate::sim::slot::Target;
use crate::sim::ticket::{ABANDONED, TicketKey, WAITING};
use crate::sim::waker::Word;
use crate::sim::wheel::Key;
use crate::{Abandoned, Class, Instant, Watchdog, Why};

impl Core {
    /// The task that is polled.
    ///
    /// # Panics
    /// When none is: a future of the simulation was polled by hand, in a drop or outside.
    #[inline]
    pub(super) fn polled(&self) -> Word {
        self.running.get().expect("a future of the simulation is polled by its tasks only")
    }

    #[inline]
    pub(in crate::sim) fn round_up(&self, deadline: Instant) -> Instant {
        match self.settings.granularity {
            0 | 1 => deadline,
            step => {
                Instant::from_nanos(deadline.as_nanos().checked_next_multiple_of(step).unwrap_or(u64::MAX))
            }
        }
    }

    #[inline]
    pub(in crate::sim) fn arm(
        &self,
        due: Instant,
        class: Class,
        place: &'static Location<'static>,
        cx: &mut Context<'_>,
    ) -> Key {
        let target = Target::new(self.polled(), cx.waker());
        if due.as_nanos() > self.now().as_nanos().saturating_add(Watchdog::FORGOTTEN) {
            self.found_forgotten(due, place, target.owner);
        }
        let state = &mut *self.state.borrow_mut();
        state.add_wait(target.owner);
        let key = state.wheel.push(due.as_nanos(), Entry { target, class, place });
        state.peaks.timers = state.peaks.timers.max(state.wheel.len());
        key
    }

    /// Has an armed timer wake who polls it now.
    pub(in crate::sim) fn rearm(&self, key: Key, cx: &mut Context<'_>) {
        let owner = self.polled();
        let fits = |entry: &mut Entry| entry.target.fits(owner, cx.waker());
        if self.state.borrow_mut().wheel.get_mut(key).is_none_or(fits) {
            return;
        }
        let target = Target::new(owner, cx.waker());
        let before = {
            let state = &mut *self.state.borrow_mut();
            let Some(entry) = state.wheel.get_mut(key) else { return };
            let before = std::mem::replace(&mut entry.target, target);
            state.remove_wait(before.owner);
            state.add_wait(owner);
            before
        };
        drop(before);
    }

    #[inline]
    pub(in crate::sim) fn disarm(&self, key: Key) {
        let entry = {
            let state = &mut *self.state.borrow_mut();
            let entry = state.wheel.cancel(key);
            if let Some(entry) = &entry {
                state.remove_wait(entry.target.owner);
            }
            entry
        };
        drop(entry);
    }

    #[inline]
    pub(in crate::sim) fn open_ticket(&self, why: Why, place: &'static Location<'static>) -> TicketKey {
        let state = &mut *self.state.borrow_mut();
        let key = state.tickets.insert(why, place, self.now());
        state.peaks.tickets = state.peaks.tickets.max(state.tickets.live());
        key
    }

    pub(in crate::sim) fn ticket_state(&self, key: TicketKey) -> Option<u8> {
        self.state.borrow_mut().tickets.get(key).map(|ticket| ticket.state)
    }

    /// Ends a ticket and returns its last state.
    #[inline]
    pub(in crate::sim) fn close_ticket(&self, key: TicketKey) -> Option<u8> {
        let (last, target) = {
            let state = &mut *self.state.borrow_mut();
            let (last, target) = state.tickets.remove(key)?;
            if let Some(target) = &target {
                state.remove_wait(target.owner);
            }
            (last, target)
        };
        drop(target);
        Some(last)
    }

    #[inline]
    pub(in crate::sim) fn poll_ticket(
        &self,
        key: TicketKey,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Abandoned>> {
        let owner = self.polled();
        {
            let state = &mut *self.state.borrow_mut();
            let Some(ticket) = state.tickets.get(key) else { return Poll::Ready(Err(Abandoned(()))) };
            match ticket.state {
                WAITING => {}
                ABANDONED => return Poll::Ready(Err(Abandoned(()))),
                _ => return Poll::Ready(Ok(())),
            }
            if ticket.target.as_ref().is_some_and(|target| target.fits(owner, cx.waker())) {
                return Poll::Pending;
            }
        }
        let target = Target::new(owner, cx.waker());
        let before = {
            let state = &mut *self.state.borrow_mut();
            let before = state.tickets.get(key).and_then(|ticket| ticket.target.replace(target));
            if let Some(before) = &before {
                state.remove_wait(before.owner);
            }
            state.add_wait(owner);
            before
        };
        drop(before);
        Poll::Pending
    }

    /// Resolves a ticket, unless it is resolved already or over; wakes who awaits it.
    #[inline]
    pub(in crate::sim) fn resolve_ticket(&self, key: TicketKey, resolved: u8) -> bool {
        let target = {
            let state = &mut *self.state.borrow_mut();
            match state.tickets.get(key) {
                Some(ticket) if ticket.state == WAITING => {
                    ticket.state = resolved;
                    ticket.target.take()
                }
                _ => return false,
            }
        };
        if let Some(target) = target {
            self.fire(target, None);
        }
        true
    }

    /// Wakes the target of a wait that is over.
    #[inline]
    pub(super) fn fire(&self, target: Target, class: Option<Class>) {
        {
            let state = &mut *self.state.borrow_mut();
            state.remove_wait(target.owner);
            if target.waker.is_none() {
                state.enqueue(target.owner, class);
            }
        }
        if let Some(waker) = target.waker {
            self.registered(|| waker.wake());
        }
    }
}
