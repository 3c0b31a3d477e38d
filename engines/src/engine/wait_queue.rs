//! The queues in which requests wait.

use std::collections::BTreeSet;

use super::SchedulingPolicy;
use super::request::{NO_SLOT, Request, RequestId, Requests, Slot};

/// Where a request stands under the priority policy; the smallest is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    priority: i64,
    arrival: u64,
    id: RequestId,
    slot: Slot,
}

impl Rank {
    pub(super) fn of(slot: Slot, request: &Request) -> Self {
        Self { priority: request.priority, arrival: request.arrival, id: request.id, slot }
    }
}

/// A queue of waiting requests in the order of the policy.
///
/// A request stands in at most one queue. The first-come queue is a list through the requests themselves, so that
/// leaving it from the middle takes constant time.
#[derive(Debug)]
pub(super) enum WaitQueue {
    Fcfs { head: Slot, tail: Slot, len: usize },
    Priority(BTreeSet<Rank>),
}

impl WaitQueue {
    pub(super) fn new(policy: SchedulingPolicy) -> Self {
        match policy {
            SchedulingPolicy::Fcfs => Self::Fcfs { head: NO_SLOT, tail: NO_SLOT, len: 0 },
            SchedulingPolicy::Priority => Self::Priority(BTreeSet::new()),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Fcfs { len, .. } => *len,
            Self::Priority(ranks) => ranks.len(),
        }
    }

    /// The request whose turn is next.
    pub(super) fn head(&self) -> Option<Slot> {
        match self {
            Self::Fcfs { head, .. } => Some(*head).filter(|&slot| slot != NO_SLOT),
            Self::Priority(ranks) => ranks.first().map(|rank| rank.slot),
        }
    }

    /// Adds a request that just came.
    pub(super) fn push(&mut self, slot: Slot, requests: &mut Requests) {
        match self {
            Self::Fcfs { head, tail, len } => {
                requests[slot].previous = *tail;
                requests[slot].next = NO_SLOT;
                match *tail {
                    NO_SLOT => *head = slot,
                    last => requests[last].next = slot,
                }
                *tail = slot;
                *len += 1;
            }
            Self::Priority(ranks) => {
                ranks.insert(Rank::of(slot, &requests[slot]));
            }
        }
    }

    /// Adds a request before all others, or, under the priority policy, at its place.
    pub(super) fn push_front(&mut self, slot: Slot, requests: &mut Requests) {
        match self {
            Self::Fcfs { head, tail, len } => {
                requests[slot].previous = NO_SLOT;
                requests[slot].next = *head;
                match *head {
                    NO_SLOT => *tail = slot,
                    first => requests[first].previous = slot,
                }
                *head = slot;
                *len += 1;
            }
            Self::Priority(ranks) => {
                ranks.insert(Rank::of(slot, &requests[slot]));
            }
        }
    }

    /// Takes out a request that stands here.
    pub(super) fn remove(&mut self, slot: Slot, requests: &mut Requests) {
        match self {
            Self::Fcfs { head, tail, len } => {
                let (previous, next) = (requests[slot].previous, requests[slot].next);
                match previous {
                    NO_SLOT => *head = next,
                    before => requests[before].next = next,
                }
                match next {
                    NO_SLOT => *tail = previous,
                    after => requests[after].previous = previous,
                }
                requests[slot].previous = NO_SLOT;
                requests[slot].next = NO_SLOT;
                *len -= 1;
            }
            Self::Priority(ranks) => {
                ranks.remove(&Rank::of(slot, &requests[slot]));
            }
        }
    }

    /// The requests in their order.
    pub(super) fn iter<'a>(&'a self, requests: &'a Requests) -> Box<dyn Iterator<Item = RequestId> + 'a> {
        match self {
            Self::Fcfs { .. } => {
                let next = |&slot: &Slot| Some(requests[slot].next).filter(|&slot| slot != NO_SLOT);
                Box::new(std::iter::successors(self.head(), next).map(|slot| requests[slot].id))
            }
            Self::Priority(ranks) => Box::new(ranks.iter().map(|rank| rank.id)),
        }
    }
}

#[cfg(test)]
mod tests;
