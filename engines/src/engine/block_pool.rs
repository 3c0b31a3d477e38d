//! All KV blocks of an engine: who is free, in which order, and who carries which hash.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::events::KvEvents;
use super::profile::UnhashedBlocks;
use super::request::BlockHash;

/// The number of a KV block; 0 is the null block, which nobody gets.
pub type BlockId = u32;

/// The null block; as it is never free, it also stands for both ends of the free queue.
const NULL: BlockId = 0;

#[derive(Clone, Debug)]
struct Block {
    hash: BlockHash,
    /// `hash` is set, and the index finds the block under it.
    hashed: bool,
    /// Losing the hash is to be noticed.
    watched: bool,
    references: u32,
    /// Neighbours in the free queue, while nobody refers to the block.
    previous: BlockId,
    next: BlockId,
    /// Neighbours in the ring of blocks with the same hash, in the order they were stored.
    previous_copy: BlockId,
    next_copy: BlockId,
}

/// The blocks, their free queue and the index of their hashes (model-server spec 5.6).
///
/// Invariant: a block is in the free queue exactly when its reference count is 0. All operations on one block take
/// constant time.
#[derive(Debug)]
pub(super) struct BlockPool {
    blocks: Vec<Block>,
    free: u32,
    /// The copy stored first among those that carry the hash.
    index: FxHashMap<BlockHash, BlockId>,
    unhashed_first: bool,
    /// A watched block has lost its hash.
    lost_watched: bool,
}

impl BlockPool {
    /// Returns a pool of `count` blocks, the null block included, free in the order of their numbers.
    pub(super) fn new(count: u32, unhashed: UnhashedBlocks, caching: bool) -> Self {
        let block = |id: BlockId| Block {
            hash: BlockHash(0),
            hashed: false,
            watched: false,
            references: 0,
            previous: id.checked_sub(1).unwrap_or(count - 1),
            next: if id + 1 == count { NULL } else { id + 1 },
            previous_copy: id,
            next_copy: id,
        };
        Self {
            blocks: (0..count).map(block).collect(),
            free: count - 1,
            index: FxHashMap::default(),
            unhashed_first: match unhashed {
                UnhashedBlocks::Tail => false,
                UnhashedBlocks::Head => true,
                UnhashedBlocks::HeadWithCaching => caching,
            },
            lost_watched: false,
        }
    }

    /// Blocks that can be handed out.
    pub(super) fn usable(&self) -> u32 {
        u32::try_from(self.blocks.len() - 1).expect("the pool was made from a u32")
    }

    /// Blocks that nobody refers to, cached ones included.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Whether nobody refers to `block`.
    pub(super) fn is_free(&self, block: BlockId) -> bool {
        self.blocks[block as usize].references == 0
    }

    /// The free blocks, the next to be handed out first.
    pub(super) fn free_queue(&self) -> impl Iterator<Item = BlockId> {
        let after = |block: BlockId| Some(self.blocks[block as usize].next).filter(|&next| next != NULL);
        std::iter::successors(after(NULL), move |&block| after(block))
    }

    /// The copy of `hash` that was stored first.
    pub(super) fn find(&self, hash: BlockHash) -> Option<BlockId> {
        self.index.get(&hash).copied()
    }

    /// The hashes under which a block is found, sorted.
    pub(super) fn hashes(&self) -> Vec<BlockHash> {
        let cached = self.blocks.iter().filter(|block| block.hashed);
        let mut hashes: Vec<BlockHash> = cached.map(|block| block.hash).collect();
        hashes.sort_unstable_by_key(|hash| hash.0);
        hashes.dedup();
        hashes
    }

    /// Begins or ends to watch a cached block.
    pub(super) fn watch(&mut self, block: BlockId, watched: bool) {
        self.blocks[block as usize].watched = watched;
    }

    /// Whether a watched block has lost its hash since the last call.
    pub(super) fn take_lost_watched(&mut self) -> bool {
        std::mem::take(&mut self.lost_watched)
    }

    /// Adds a reference to a cached block.
    pub(super) fn touch(&mut self, block: BlockId) {
        if self.is_free(block) {
            self.unlink(block);
        }
        self.blocks[block as usize].references += 1;
    }

    /// Takes the block at the head of the free queue, which loses its hash; there must be one.
    pub(super) fn take(&mut self, events: Option<&mut KvEvents>) -> BlockId {
        let block = self.blocks[NULL as usize].next;
        debug_assert!(self.free > 0 && block != NULL, "the caller found too few free blocks");
        self.unlink(block);
        self.blocks[block as usize].references = 1;
        if self.blocks[block as usize].hashed {
            self.forget(block);
            if let Some(events) = events {
                events.removed(self.blocks[block as usize].hash);
            }
        }
        block
    }

    /// Drops a reference to each of `blocks`, the last first, so that the deepest are reused before the others.
    pub(super) fn release(&mut self, blocks: &[BlockId]) {
        let mut front = NULL;
        for &block in blocks.iter().rev() {
            let state = &mut self.blocks[block as usize];
            debug_assert!(state.references > 0, "block {block} is released twice");
            state.references -= 1;
            if state.references > 0 {
                continue;
            }
            if self.unhashed_first && !state.hashed {
                self.link_after(front, block);
                front = block;
            } else {
                self.link_after(self.blocks[NULL as usize].previous, block);
            }
        }
    }

    /// Lets `block`, which carries no hash, be found under `hash`, after copies that carry it already.
    pub(super) fn store(&mut self, block: BlockId, hash: BlockHash) {
        let state = &mut self.blocks[block as usize];
        debug_assert!(!state.hashed, "block {block} is stored twice");
        state.hash = hash;
        state.hashed = true;
        match self.index.entry(hash) {
            Entry::Vacant(entry) => {
                state.previous_copy = block;
                state.next_copy = block;
                entry.insert(block);
            }
            Entry::Occupied(entry) => {
                let first = *entry.get();
                let last = self.blocks[first as usize].previous_copy;
                self.blocks[block as usize].previous_copy = last;
                self.blocks[block as usize].next_copy = first;
                self.blocks[last as usize].next_copy = block;
                self.blocks[first as usize].previous_copy = block;
            }
        }
    }

    /// Takes all hashes away; the free queue keeps its order.
    pub(super) fn clear(&mut self) {
        self.index.clear();
        for block in &mut self.blocks {
            block.hashed = false;
            self.lost_watched |= block.watched;
        }
    }

    fn forget(&mut self, block: BlockId) {
        let state = &mut self.blocks[block as usize];
        state.hashed = false;
        self.lost_watched |= state.watched;
        let (hash, previous, next) = (state.hash, state.previous_copy, state.next_copy);
        if next == block {
            self.index.remove(&hash);
            return;
        }
        self.blocks[previous as usize].next_copy = next;
        self.blocks[next as usize].previous_copy = previous;
        if let Some(first) = self.index.get_mut(&hash)
            && *first == block
        {
            *first = next;
        }
    }

    fn unlink(&mut self, block: BlockId) {
        let Block { previous, next, .. } = self.blocks[block as usize];
        self.blocks[previous as usize].next = next;
        self.blocks[next as usize].previous = previous;
        self.free -= 1;
    }

    fn link_after(&mut self, previous: BlockId, block: BlockId) {
        let next = self.blocks[previous as usize].next;
        self.blocks[block as usize].previous = previous;
        self.blocks[block as usize].next = next;
        self.blocks[previous as usize].next = block;
        self.blocks[next as usize].previous = block;
        self.free += 1;
    }
}

#[cfg(test)]
mod tests;
