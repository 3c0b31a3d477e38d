//! The flows of one band, as a fairness policy sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::rc::Rc;

use rustc_hash::FxHashMap;
use slab::Slab;

use super::ordering::{Arrival, OrderKey, OrderingPolicy};
use super::queue::{FlowQueue, ItemId, QueueError, QueueHandle, QueueId, Queued, Ties};

/// A flow of a band; of a flow that was removed another one may get the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey(pub usize);

/// The flows of one band, each with its queue.
///
/// Whatever a policy asks is indexed: with n flows a change and a look-up cost O(log n). Flows are in the order of their
/// ids wherever the llm-d Router's order is that of a map.
#[derive(Default)]
pub struct Flows {
    ties: Ties,
    flows: Slab<Flow>,
    ids: BTreeMap<Rc<str>, FlowKey>,
    /// The same. Look-ups only.
    by_id: FxHashMap<Rc<str>, FlowKey>,
    /// Flows in which something waits.
    ready: BTreeMap<Rc<str>, FlowKey>,
    /// The heads of the same flows, the first to go first.
    heads: BTreeSet<(OrderKey, Rc<str>, FlowKey)>,
    /// Ordering policies of the same flows, with the number of flows.
    ready_policies: Vec<(&'static str, usize)>,
    queues: u64,
    len: usize,
    bytes: u64,
}

struct Flow {
    id: Rc<str>,
    queue: FlowQueue,
    /// Key of the head as the indexes hold it.
    head: Option<OrderKey>,
}

/// Flows whose heads have to be compared and do not compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("incompatible priority score type for comparison: expected {expected:?}, got {got:?}")]
pub struct IncompatibleOrdering {
    /// Ordering policy of one flow.
    pub expected: &'static str,
    /// That of another.
    pub got: &'static str,
}

impl Flows {
    /// Returns no flows; those to come break ties like this.
    pub fn new(ties: Ties) -> Self {
        Flows { ties, ..Flows::default() }
    }

    /// Returns the flow `id`, made with an empty queue under `policy` where it is not there.
    pub fn provide(&mut self, id: &str, policy: &Rc<dyn OrderingPolicy>) -> FlowKey {
        if let Some(key) = self.find(id) {
            return key;
        }
        let id: Rc<str> = id.into();
        self.queues += 1;
        let queue = FlowQueue::new(QueueId(self.queues), Rc::clone(policy), self.ties);
        let key = FlowKey(self.flows.insert(Flow { id: Rc::clone(&id), queue, head: None }));
        self.ids.insert(Rc::clone(&id), key);
        self.by_id.insert(id, key);
        key
    }

    /// Removes a flow and returns what waited in it.
    pub fn remove_flow(&mut self, flow: FlowKey) -> Vec<Queued> {
        let gone = self.change(flow, FlowQueue::drain);
        let flow = self.flows.remove(flow.0);
        self.ids.remove(&flow.id);
        self.by_id.remove(&flow.id);
        gone
    }

    /// Returns the flow `id`.
    pub fn find(&self, id: &str) -> Option<FlowKey> {
        self.by_id.get(id).copied()
    }

    /// Returns a flow's id.
    ///
    /// # Panics
    /// As all that take a [`FlowKey`]: when there is no such flow.
    pub fn id(&self, flow: FlowKey) -> &Rc<str> {
        &self.flows[flow.0].id
    }

    /// Returns a flow's queue.
    pub fn queue(&self, flow: FlowKey) -> &FlowQueue {
        &self.flows[flow.0].queue
    }

    /// Iterates over all flows in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (&Rc<str>, FlowKey)> {
        self.ids.iter().map(|(id, key)| (id, *key))
    }

    /// Returns how many flows there are.
    pub fn count(&self) -> usize {
        self.flows.len()
    }

    /// Returns how many items wait in all flows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the booked bytes of all flows.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the first flow behind `id` in which something waits, by id; `None` = from the start.
    pub fn next_ready(&self, behind: Option<&str>) -> Option<FlowKey> {
        let start = behind.map_or(Bound::Unbounded, Bound::Excluded);
        self.ready.range::<str, _>((start, Bound::Unbounded)).next().map(|(_, key)| *key)
    }

    /// Returns the flow whose head goes before all other heads, of equal ones that of the smallest id.
    ///
    /// # Errors
    /// When the flows have several ordering policies.
    pub fn first_head(&self) -> Result<Option<FlowKey>, IncompatibleOrdering> {
        if let [(expected, _), (got, _), ..] = self.ready_policies.as_slice() {
            return Err(IncompatibleOrdering { expected, got });
        }
        Ok(self.heads.first().map(|(_, _, key)| *key))
    }

    /// Adds an item to a flow.
    pub fn add(&mut self, flow: FlowKey, item: ItemId, arrival: &Arrival<'_>, bytes: u64) -> QueueHandle {
        self.change(flow, |queue| queue.add(item, arrival, bytes))
    }

    /// Removes an item from a flow.
    ///
    /// # Errors
    /// As [`FlowQueue::remove`].
    pub fn remove(&mut self, flow: FlowKey, handle: QueueHandle) -> Result<Queued, QueueError> {
        self.change(flow, |queue| queue.remove(handle))
    }

    /// Removes from a flow what `gone` picks.
    pub fn cleanup(&mut self, flow: FlowKey, gone: impl FnMut(ItemId) -> bool) -> Vec<Queued> {
        self.change(flow, |queue| queue.cleanup(gone))
    }

    /// Changes a queue, and with it counts and indexes.
    fn change<T>(&mut self, key: FlowKey, change: impl FnOnce(&mut FlowQueue) -> T) -> T {
        let flow = &mut self.flows[key.0];
        let (len, bytes) = (flow.queue.len(), flow.queue.bytes());
        let result = change(&mut flow.queue);
        self.len = self.len + flow.queue.len() - len;
        self.bytes = self.bytes - bytes + flow.queue.bytes();
        let head = flow.queue.head_key();
        let before = std::mem::replace(&mut flow.head, head);
        if before == head {
            return result;
        }
        let id = &flow.id;
        if let Some(before) = before {
            self.heads.remove(&(before, Rc::clone(id), key));
        }
        if let Some(head) = head {
            self.heads.insert((head, Rc::clone(id), key));
        }
        if before.is_some() != head.is_some() {
            let policy = flow.queue.policy().plugin_type();
            if head.is_some() {
                self.ready.insert(Rc::clone(id), key);
                match self.ready_policies.iter_mut().find(|(known, _)| *known == policy) {
                    Some((_, count)) => *count += 1,
                    None => self.ready_policies.push((policy, 1)),
                }
            } else {
                self.ready.remove(id);
                if let Some((_, count)) = self.ready_policies.iter_mut().find(|(known, _)| *known == policy) {
                    *count -= 1;
                }
                self.ready_policies.retain(|(_, count)| *count > 0);
            }
        }
        result
    }
}

impl fmt::Debug for Flows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.ids.iter().map(|(id, key)| (id, &self.flows[key.0].queue))).finish()
    }
}

#[cfg(test)]
mod tests {
    use executor::{Instant, WallTime};
    use proptest::prelude::*;

    use super::*;

    struct Fcfs;

    impl OrderingPolicy for Fcfs {
        fn plugin_type(&self) -> &'static str {
            "fcfs"
        }

        fn key(&self, item: &Arrival<'_>) -> OrderKey {
            OrderKey(item.enqueued.as_nanos(), 0)
        }
    }

    fn arrival(nanos: u64) -> Arrival<'static> {
        let received = WallTime::from_unix_nanos(0);
        Arrival { enqueued: Instant::from_nanos(nanos), ttl: None, received, headers: None }
    }

    proptest! {
        /// Against a scan of all flows, after every step.
        #[test]
        fn the_indexes_say_what_a_scan_says(
            steps in prop::collection::vec((0usize..6, 0u64..5, 0u8..8, any::<prop::sample::Index>()), 1..120)
        ) {
            let policy: Rc<dyn OrderingPolicy> = Rc::new(Fcfs);
            let mut flows = Flows::default();
            let mut handles: Vec<(FlowKey, QueueHandle)> = Vec::new();
            for (number, (flow, at, what, which)) in steps.into_iter().enumerate() {
                let key = flows.provide(["a", "b", "c", "d", "e", "f"][flow], &policy);
                match what {
                    0..4 => {
                        let item = ItemId(number as u32);
                        handles.push((key, flows.add(key, item, &arrival(at), at)));
                    }
                    4..6 if !handles.is_empty() => {
                        let (key, handle) = handles.swap_remove(which.index(handles.len()));
                        flows.remove(key, handle).unwrap();
                    }
                    6 => {
                        flows.remove_flow(key);
                        handles.retain(|(of, _)| *of != key);
                    }
                    _ => {
                        let gone = flows.cleanup(key, |item| item.0 % 2 == 0).len();
                        let before = handles.len();
                        handles.retain(|(of, handle)| *of != key || flows.queue(key).holds(*handle));
                        prop_assert_eq!(before - handles.len(), gone);
                    }
                }
                let all: Vec<_> = flows.iter().map(|(_, key)| key).collect();
                let ready: Vec<_> = all.iter().copied().filter(|k| !flows.queue(*k).is_empty()).collect();
                let best = ready.iter().copied().min_by_key(|k| (flows.queue(*k).head_key(), flows.id(*k).clone()));
                prop_assert_eq!(flows.first_head(), Ok(best));
                let mut cyclic = Vec::new();
                let mut behind = None;
                while let Some(next) = flows.next_ready(behind.as_deref()) {
                    cyclic.push(next);
                    behind = Some(flows.id(next).clone());
                }
                prop_assert_eq!(&cyclic, &ready);
                prop_assert_eq!(flows.len(), handles.len());
                prop_assert_eq!(flows.bytes(), all.iter().map(|k| flows.queue(*k).bytes()).sum::<u64>());
            }
        }
    }
}
