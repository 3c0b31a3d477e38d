//! The holders of blocks: one in the node itself, several in a list.

use std::slice;

use super::super::block_keys::BlockKey;
use super::entries::{EntryId, PodEntry};
use super::lists::Lists;
use super::{BlockIndex, IndexError};

/// Set in the value of a block whose holders lie in the list of the number below.
const IN_LIST: u32 = 1 << 31;

/// The holder is in the list; it is the one added last now.
struct AlreadyThere;

/// Returns the holders behind the value of a block.
#[inline]
pub(super) fn slice<'a>(value: &'a u32, lists: &'a Lists<EntryId>) -> &'a [EntryId] {
    if value & IN_LIST == 0 { slice::from_ref(value) } else { lists.get(value & !IN_LIST) }
}

/// Returns the cost of a block without its holders: the digits of its key, and 64.
pub(super) fn base_cost(block: BlockKey) -> u64 {
    u64::from(block.checked_ilog10().unwrap_or(0)) + 1 + 64
}

/// Returns what a holder adds to the cost of a block.
pub(super) fn entry_cost(entry: &PodEntry) -> u64 {
    (entry.pod.len() + entry.tier.len()) as u64 + 40 + 24
}

impl BlockIndex {
    /// Adds holders to a block.
    pub(super) fn add_holders(&mut self, block: BlockKey, ids: &[EntryId]) -> Result<(), IndexError> {
        let limits = self.limits;
        if limits.keys == 0 || limits.holders == 0 {
            return Err(IndexError::NoRoomForHolders);
        }
        let mut ids = ids.iter().copied();
        let number = match self.blocks.find(block) {
            Some(number) => number,
            None => {
                let Some(first) = ids.next() else { return Ok(()) };
                self.hold(first);
                self.cost += base_cost(block);
                self.blocks.insert(block, first)
            }
        };
        self.blocks.touch(number);
        for id in ids {
            self.add_holder(number, block, id);
        }
        while self.blocks.len() > limits.keys || self.cost > limits.cost {
            let Some(oldest) = self.blocks.oldest() else { break };
            self.forget(oldest);
        }
        Ok(())
    }

    fn add_holder(&mut self, number: u32, block: BlockKey, id: EntryId) {
        let value = *self.blocks.value(number);
        let room = self.limits.holders;
        if value == id {
            return;
        }
        if value & IN_LIST == 0 {
            let new = if room == 1 { id } else { self.holders.add(block, vec![value, id]) | IN_LIST };
            *self.blocks.value_mut(number) = new;
            self.hold(id);
            if room == 1 {
                self.let_go(value);
            }
            return;
        }
        let evicted = self.holders.update(value & !IN_LIST, |list| {
            if let Some(at) = list.iter().position(|other| *other == id) {
                list[at..].rotate_left(1);
                return Err(AlreadyThere);
            }
            let evicted = (list.len() >= room).then(|| list.remove(0));
            list.push(id);
            Ok(evicted)
        });
        let Ok(evicted) = evicted else { return };
        self.hold(id);
        if let Some(evicted) = evicted {
            self.let_go(evicted);
        }
    }

    /// Takes entries off a block, which counts as used.
    pub(super) fn evict(&mut self, block: BlockKey, entries: &[PodEntry]) {
        let Some(number) = self.blocks.find(block) else { return };
        self.blocks.touch(number);
        for entry in entries {
            let Some(id) = self.entries.find(entry) else { continue };
            if !self.remove_holder(block, id) {
                return;
            }
        }
    }

    /// Takes a holder off a block; returns whether the block has any left.
    fn remove_holder(&mut self, block: BlockKey, id: EntryId) -> bool {
        let Some(number) = self.blocks.find(block) else { return false };
        let value = *self.blocks.value(number);
        if value & IN_LIST == 0 {
            if value != id {
                return true;
            }
            self.forget(block);
            return false;
        }
        let list = value & !IN_LIST;
        let last = self.holders.update(list, |list| {
            let at = list.iter().position(|other| *other == id)?;
            list.remove(at);
            Some(if let [last] = list[..] { Some(last) } else { None })
        });
        let Some(last) = last else { return true };
        if let Some(last) = last {
            *self.blocks.value_mut(number) = last;
            self.drop_list(list);
        }
        self.let_go(id);
        true
    }

    /// Removes a block with all its holders.
    pub(super) fn forget(&mut self, block: BlockKey) {
        let Some(value) = self.blocks.remove(block) else { return };
        self.cost -= base_cost(block);
        if value & IN_LIST == 0 {
            self.let_go(value);
            return;
        }
        for id in self.drop_list(value & !IN_LIST) {
            self.let_go(id);
        }
    }

    /// Takes all entries of a pod off all blocks; a block that others hold counts as used. Mappings stay.
    ///
    /// Looks at blocks until all that the pod holds are found: of a million it takes some milliseconds.
    pub fn clear(&mut self, pod: &str) {
        let ids = self.entries.of_pod(pod).to_owned();
        let mut left: u64 = ids.iter().map(|id| self.entries.uses(*id).0).sum();
        let mut found: Vec<(BlockKey, EntryId)> = Vec::new();
        for (block, value) in self.blocks.iter() {
            if left == 0 {
                break;
            }
            let holders = slice(value, &self.holders);
            for id in ids.iter().filter(|id| holders.contains(id)) {
                left -= 1;
                found.push((block, *id));
            }
        }
        for (block, id) in found {
            if self.remove_holder(block, id)
                && let Some(number) = self.blocks.find(block)
            {
                self.blocks.touch(number);
            }
        }
    }

    /// Drops a list and returns its holders.
    fn drop_list(&mut self, list: u32) -> Vec<EntryId> {
        let (ids, moved) = self.holders.remove(list);
        if let Some(number) = moved.and_then(|owner| self.blocks.find(owner)) {
            *self.blocks.value_mut(number) = list | IN_LIST;
        }
        ids
    }

    fn hold(&mut self, id: EntryId) {
        self.cost += self.entries.get(id).map_or(0, entry_cost);
        self.entries.hold(id);
    }

    fn let_go(&mut self, id: EntryId) {
        self.cost -= self.entries.get(id).map_or(0, entry_cost);
        self.entries.let_go(id);
    }
}
