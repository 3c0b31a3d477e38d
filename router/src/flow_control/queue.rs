//! The queue of one flow (flow-control spec 8).

use std::fmt;
use std::rc::Rc;

use executor::Instant;

use super::heap::{Heap, Place};
use super::ordering::{Arrival, OrderKey, OrderingPolicy};

/// Whoever waits, as its owner numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(pub u32);

/// A queue, as its owner numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueId(pub u64);

/// Where an item waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueHandle {
    queue: QueueId,
    place: Place,
}

/// Why an item could not be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueueError {
    /// The item has been removed before.
    #[error("invalid queue item handle")]
    InvalidHandle,
    /// The item waits in another queue.
    #[error("queue item not found for the given handle")]
    ItemNotFound,
}

/// An item that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Who it is.
    pub item: ItemId,
    /// When it asked to be queued.
    pub enqueued: Instant,
    /// Its size, as booked when it was added. Unit: bytes.
    pub bytes: u64,
}

/// How items of equal keys leave a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ties {
    /// In the order of the llm-d Router's heap.
    #[default]
    Heap,
    /// In the order of their arrival.
    Arrival,
}

/// The key with what breaks its ties: zero, or the number of the arrival.
type Key = (OrderKey, u64);

/// The items of one flow, in the order of its ordering policy. Never drops or refuses one by itself.
pub struct FlowQueue {
    id: QueueId,
    policy: Rc<dyn OrderingPolicy>,
    ties: Ties,
    arrivals: u64,
    bytes: u64,
    heap: Heap<Key, Queued>,
}

impl FlowQueue {
    /// Returns an empty queue.
    pub fn new(id: QueueId, policy: Rc<dyn OrderingPolicy>, ties: Ties) -> Self {
        FlowQueue { id, policy, ties, arrivals: 0, bytes: 0, heap: Heap::default() }
    }

    /// Returns the ordering policy.
    pub fn policy(&self) -> &Rc<dyn OrderingPolicy> {
        &self.policy
    }

    /// Returns how many items wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Returns whether none does.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Returns the sum of the booked sizes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds an item and books its size.
    pub fn add(&mut self, item: ItemId, arrival: &Arrival<'_>, bytes: u64) -> QueueHandle {
        self.arrivals += 1;
        let tie = match self.ties {
            Ties::Heap => 0,
            Ties::Arrival => self.arrivals,
        };
        self.bytes = self.bytes.saturating_add(bytes);
        let queued = Queued { item, enqueued: arrival.enqueued, bytes };
        let place = self.heap.push((self.policy.key(arrival), tie), queued);
        QueueHandle { queue: self.id, place }
    }

    /// Returns the item that goes next.
    pub fn peek(&self) -> Option<(Queued, QueueHandle)> {
        let (_, queued, place) = self.heap.peek()?;
        Some((*queued, QueueHandle { queue: self.id, place }))
    }

    /// Returns the key of the item that goes next.
    pub fn head_key(&self) -> Option<OrderKey> {
        self.heap.peek().map(|(key, ..)| key.0)
    }

    /// Removes an item.
    ///
    /// # Errors
    /// When it is not here, or was removed before.
    pub fn remove(&mut self, handle: QueueHandle) -> Result<Queued, QueueError> {
        if handle.queue != self.id {
            return Err(QueueError::ItemNotFound);
        }
        let (_, queued) = self.heap.remove(handle.place).ok_or(QueueError::InvalidHandle)?;
        self.bytes = self.bytes.saturating_sub(queued.bytes);
        Ok(queued)
    }

    /// Removes the items that `gone` picks, and returns them in the order of the heap's array.
    pub fn cleanup(&mut self, mut gone: impl FnMut(ItemId) -> bool) -> Vec<Queued> {
        let taken = self.heap.extract(|queued| gone(queued.item));
        self.bytes = self.bytes.saturating_sub(taken.iter().map(|queued| queued.bytes).sum());
        taken
    }

    /// Returns how many items go before one; those that are dead count until they are swept.
    pub fn ahead(&self, handle: QueueHandle) -> usize {
        self.heap.before(handle.place)
    }

    /// Returns whether an item is here.
    pub fn holds(&self, handle: QueueHandle) -> bool {
        handle.queue == self.id && self.heap.holds(handle.place)
    }

    /// Removes all items, and returns them in the order of the heap's array.
    pub fn drain(&mut self) -> Vec<Queued> {
        self.cleanup(|_| true)
    }
}

impl fmt::Debug for FlowQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowQueue")
            .field("policy", &self.policy.plugin_type())
            .field("len", &self.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
