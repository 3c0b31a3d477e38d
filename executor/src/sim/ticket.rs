//! Tickets: waits that are registered, with what for, since when and from where.

use std::panic::Location;
use std::task::{Context, Poll};

use super::core::Id;
use super::inbox::{self, Message};
use super::slot::Target;
use super::waker;
use crate::{Abandoned, Instant, Why};

const NIL: u32 = u32::MAX;

pub(super) const WAITING: u8 = 0;
pub(super) const ABANDONED: u8 = 1;
/// States from here on are "unparked", with a token in the difference.
pub(super) const UNPARKED: u8 = 2;

pub(super) struct Ticket {
    generation: u32,
    pub(super) state: u8,
    pub(super) target: Option<Target>,
    pub(super) why: Why,
    pub(super) place: &'static Location<'static>,
    pub(super) since: Instant,
    next_free: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TicketKey {
    index: u32,
    generation: u32,
}

pub(super) struct Tickets {
    tickets: Vec<Ticket>,
    free: u32,
    live: usize,
}

impl Tickets {
    pub(super) fn new() -> Self {
        Tickets { tickets: Vec::new(), free: NIL, live: 0 }
    }

    pub(super) fn live(&self) -> usize {
        self.live
    }

    #[inline]
    pub(super) fn insert(
        &mut self,
        why: Why,
        place: &'static Location<'static>,
        since: Instant,
    ) -> TicketKey {
        self.live += 1;
        if self.free == NIL {
            let index = u32::try_from(self.tickets.len()).expect("fewer than 2^32 waits exist at a time");
            let ticket =
                Ticket { generation: 0, state: WAITING, target: None, why, place, since, next_free: NIL };
            self.tickets.push(ticket);
            return TicketKey { index, generation: 0 };
        }
        let index = self.free;
        let ticket = &mut self.tickets[index as usize];
        self.free = ticket.next_free;
        *ticket = Ticket { state: WAITING, target: None, why, place, since, next_free: NIL, ..*ticket };
        TicketKey { index, generation: ticket.generation }
    }

    #[inline]
    pub(super) fn get(&mut self, key: TicketKey) -> Option<&mut Ticket> {
        self.tickets.get_mut(key.index as usize).filter(|ticket| ticket.generation == key.generation)
    }

    /// Ends the ticket: its key names nothing from here on.
    #[inline]
    pub(super) fn remove(&mut self, key: TicketKey) -> Option<(u8, Option<Target>)> {
        let free = self.free;
        let ticket = self.get(key)?;
        ticket.generation = ticket.generation.wrapping_add(1);
        ticket.next_free = free;
        let end = (ticket.state, ticket.target.take());
        self.free = key.index;
        self.live -= 1;
        Some(end)
    }

    /// Tickets that somebody awaits.
    pub(super) fn awaited(&self) -> impl Iterator<Item = (&Ticket, &Target)> {
        self.tickets.iter().filter_map(|ticket| Some((ticket, ticket.target.as_ref()?)))
    }
}

/// The waiting half of a pair under the simulation.
pub(crate) struct Park {
    id: Id,
    key: TicketKey,
}

/// The waking half; `None` once used.
pub(crate) struct Unpark(Option<(Id, TicketKey)>);

pub(crate) fn pair(id: Id, why: Why, place: &'static Location<'static>) -> (Park, Unpark) {
    let key = id.with(|core| core.open_ticket(why, place));
    (Park { id, key }, Unpark(Some((id, key))))
}

impl Park {
    pub(crate) fn token(&self) -> Option<u8> {
        waker::with(self.id, |core| core.ticket_state(self.key))??.checked_sub(UNPARKED)
    }

    /// Ends the ticket; returns the token if it was unparked before.
    pub(crate) fn cancel(&mut self) -> Option<u8> {
        waker::with(self.id, |core| core.close_ticket(self.key))??.checked_sub(UNPARKED)
    }

    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Abandoned>> {
        self.id.with(|core| core.poll_ticket(self.key, cx))
    }
}

impl Drop for Park {
    fn drop(&mut self) {
        // A cancelled one finds nothing: its generation is over.
        self.cancel();
    }
}

impl Unpark {
    #[inline]
    pub(crate) fn unpark(mut self, token: u8) -> bool {
        self.0.take().is_some_and(|pair| resolve(pair, UNPARKED + token))
    }

    /// Elsewhere than on the simulation's thread this is not known, and said to be false.
    pub(crate) fn is_cancelled(&self) -> bool {
        let Some((id, key)) = self.0 else { return true };
        waker::with(id, |core| core.ticket_state(key).is_none()).unwrap_or(false)
    }
}

impl Drop for Unpark {
    fn drop(&mut self) {
        if let Some(pair) = self.0.take() {
            resolve(pair, ABANDONED);
        }
    }
}

#[inline]
fn resolve((id, key): (Id, TicketKey), state: u8) -> bool {
    waker::with(id, |core| core.resolve_ticket(key, state)).unwrap_or_else(|| {
        inbox::post(id.executor(), Message::Resolve(key, state));
        true
    })
}
