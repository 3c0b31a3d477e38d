//! Which endpoint was sent which prompt blocks, as a guess of what its cache holds (request-control spec 8.1).

mod lru;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::endpoint::{EndpointId, EndpointMetadata};
use lru::Lru;

/// Place of an endpoint in the index's tables.
type Slot = u32;

/// How many hashes beyond its capacity an endpoint may keep, see [`ApproximateIndex::add`].
const MOST_LEFTOVERS: usize = 65_536;

/// Of how many endpoints that are gone leftovers may stay.
const MOST_DEPARTED: usize = 256;

/// An index from block hash to endpoints, with a bounded memory of hashes for each endpoint.
///
/// A look-up costs one probe a block; an addition one probe in the endpoint's own list and, for a block it did
/// not hold, one in the index. Answers do not depend on the order of any map.
#[derive(Debug, Default)]
pub struct ApproximateIndex {
    holders: FxHashMap<u64, Holders>,
    ids: BTreeMap<EndpointId, Slot>,
    slots: Vec<Option<Holder>>,
    free: Vec<Slot>,
    /// Slots by object, `None` for an endpoint without one: a short cut past the comparison of names. Holds the
    /// objects so that no address is used twice.
    objects: FxHashMap<usize, (Rc<EndpointMetadata>, Option<Slot>)>,
    /// Endpoints that are gone and have leftovers, the longest gone first.
    departed: VecDeque<EndpointId>,
}

/// What the index knows of one endpoint.
#[derive(Debug)]
struct Holder {
    /// What the endpoint was last sent; `None` = it is gone.
    lru: Option<Lru>,
    /// Hashes that the endpoint is listed for beyond its `lru`.
    leftovers: IndexSet<u64, FxBuildHasher>,
}

/// The endpoints that hold a block; most blocks have one.
#[derive(Debug)]
enum Holders {
    One(Slot),
    Many(Vec<Slot>),
}

impl Holders {
    fn as_slice(&self) -> &[Slot] {
        match self {
            Holders::One(slot) => std::slice::from_ref(slot),
            Holders::Many(slots) => slots,
        }
    }
}

impl ApproximateIndex {
    /// Returns how many of the blocks in `chains` each of `endpoints` holds.
    ///
    /// A chain is walked until a block that nobody holds. A block counts for every endpoint that holds it, also
    /// where the endpoint lacks one before it. `None` = no block is held by anybody.
    pub fn matches<'a>(
        &mut self,
        chains: &[Vec<u64>],
        endpoints: impl ExactSizeIterator<Item = &'a Rc<EndpointMetadata>>,
    ) -> Option<Vec<i64>> {
        let mut by_slot: Vec<i64> = Vec::new();
        for chain in chains {
            for hash in chain {
                let Some(holders) = self.holders.get(hash) else { break };
                by_slot.resize(self.slots.len(), 0);
                for slot in holders.as_slice() {
                    by_slot[*slot as usize] += 1;
                }
            }
        }
        if by_slot.is_empty() {
            return None;
        }
        // Objects that have been replaced go at the latest when there are more of them than endpoints.
        if self.objects.len() > 2 * self.ids.len().max(endpoints.len()) + 64 {
            self.objects.clear();
        }
        let count = |endpoint| self.slot(endpoint).map_or(0, |slot| by_slot[slot as usize]);
        Some(endpoints.map(count).collect())
    }

    /// Notes that `endpoint` was sent the blocks of a chain. `capacity` is how many it can hold, read when the
    /// endpoint is first met.
    ///
    /// Of a chain longer than the capacity the first blocks fall out of the endpoint's list at once and yet stay
    /// in the index, until they are sent again: the llm-d Router lists the endpoint for all blocks of a call after
    /// it has made room, and keeps such leftovers for ever, even of endpoints that are gone (request-control spec
    /// 8.1). Here an endpoint has at most 65,536 of them, and the last 256 endpoints that are gone keep theirs.
    pub fn add(&mut self, endpoint: &EndpointMetadata, chain: &[u64], capacity: usize) {
        let slot = self.slot_or_new(&endpoint.id);
        let Some(Holder { lru, leftovers }) = &mut self.slots[slot as usize] else { return };
        if lru.is_none() {
            self.departed.retain(|id| *id != endpoint.id);
        }
        let lru = lru.get_or_insert_with(|| Lru::new(capacity));
        for hash in chain {
            let pushed = lru.push(*hash);
            if let Some(evicted) = pushed.evicted {
                unlist(&mut self.holders, evicted, slot);
            }
            if pushed.is_new && !leftovers.swap_remove(hash) {
                list(&mut self.holders, *hash, slot);
            }
        }
        if chain.len() <= lru.capacity() {
            return;
        }
        for hash in chain.iter().filter(|hash| !lru.contains(**hash)) {
            if leftovers.len() < MOST_LEFTOVERS && leftovers.insert(*hash) {
                list(&mut self.holders, *hash, slot);
            }
        }
    }

    /// Empties the lists of all endpoints that `is_alive` does not know.
    pub fn retain(&mut self, is_alive: impl Fn(&EndpointId) -> bool) {
        let gone: Vec<(EndpointId, Slot)> =
            self.ids.iter().filter(|(id, _)| !is_alive(id)).map(|(id, slot)| (id.clone(), *slot)).collect();
        for (id, slot) in gone {
            let Some(holder) = &mut self.slots[slot as usize] else { continue };
            let Some(lru) = holder.lru.take() else { continue };
            for hash in lru.iter() {
                unlist(&mut self.holders, hash, slot);
            }
            if holder.leftovers.is_empty() {
                self.forget(&id);
            } else {
                self.departed.push_back(id);
            }
        }
        while self.departed.len() > MOST_DEPARTED {
            if let Some(id) = self.departed.pop_front() {
                self.forget(&id);
            }
        }
        self.objects.clear();
    }

    /// Gives the slot of an endpoint free that has no list any more.
    fn forget(&mut self, id: &EndpointId) {
        let Some(slot) = self.ids.remove(id) else { return };
        for hash in self.slots[slot as usize].take().into_iter().flat_map(|holder| holder.leftovers) {
            unlist(&mut self.holders, hash, slot);
        }
        self.free.push(slot);
    }

    /// Iterates over the endpoints and the number of blocks in their lists, in order of identity.
    pub fn sizes(&self) -> impl Iterator<Item = (&EndpointId, usize)> {
        self.ids.iter().filter_map(|(id, slot)| {
            let lru = self.slots[*slot as usize].as_ref()?.lru.as_ref()?;
            Some((id, lru.len()))
        })
    }

    fn slot(&mut self, endpoint: &Rc<EndpointMetadata>) -> Option<Slot> {
        let address = Rc::as_ptr(endpoint) as usize;
        if let Some((_, slot)) = self.objects.get(&address) {
            return *slot;
        }
        let slot = self.ids.get(&endpoint.id).copied();
        self.objects.insert(address, (Rc::clone(endpoint), slot));
        slot
    }

    fn slot_or_new(&mut self, id: &EndpointId) -> Slot {
        if let Some(slot) = self.ids.get(id) {
            return *slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as Slot
        });
        self.slots[slot as usize] = Some(Holder { lru: None, leftovers: IndexSet::default() });
        self.ids.insert(id.clone(), slot);
        // Some of them may be objects of this endpoint, noted as without a slot.
        self.objects.clear();
        slot
    }
}

/// Lists `slot` for `hash`, for which it is not listed.
fn list(holders: &mut FxHashMap<u64, Holders>, hash: u64, slot: Slot) {
    holders
        .entry(hash)
        .and_modify(|all| match all {
            Holders::One(one) => *all = Holders::Many(vec![*one, slot]),
            Holders::Many(many) => many.push(slot),
        })
        .or_insert(Holders::One(slot));
}

/// Takes `slot` off the list of `hash`.
fn unlist(holders: &mut FxHashMap<u64, Holders>, hash: u64, slot: Slot) {
    match holders.get_mut(&hash) {
        None => {}
        Some(Holders::One(_)) => {
            holders.remove(&hash);
        }
        Some(Holders::Many(many)) => {
            if let Some(at) = many.iter().position(|s| *s == slot) {
                many.swap_remove(at);
            }
            if let [last] = many[..] {
                holders.insert(hash, Holders::One(last));
            }
        }
    }
}

#[cfg(test)]
mod tests;
