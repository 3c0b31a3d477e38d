//! Which pods hold which KV blocks, as their engines report it (request-control spec 14.3).

mod engine_block;
mod entries;
mod holders;
mod key_table;
mod lists;
mod lru_map;
mod references;
mod segments;

pub use entries::{EntryId, PodEntry};

use rustc_hash::FxHashSet;

use super::block_keys::BlockKey;
use engine_block::EngineBlock;
use entries::Entries;
use lists::Lists;
use lru_map::{LruMap, Run};

/// The name that an engine has for a block; opaque.
pub type EngineKey = u64;

/// Most holders that differ in a field: beyond it new ones are refused. A thousand pods with 64 tiers and groups
/// each fit.
const MOST_ENTRIES: usize = 1 << 16;

/// Blocks that a look-up prepares for at a time.
const AHEAD: usize = 32;

/// Bounds of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most blocks, and most engine keys.
    pub keys: usize,
    /// Most holders of a block.
    pub holders: usize,
    /// Most [`cost`](BlockIndex::cost).
    pub cost: u64,
    /// Most memory. Unit: bytes.
    pub bytes: usize,
}

impl Default for Limits {
    /// Returns the bounds of the llm-d Router's in-memory index.
    fn default() -> Self {
        Limits { keys: 100_000_000, holders: 10, cost: u64::MAX, bytes: usize::MAX }
    }
}

/// Why the index refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// Nothing to add.
    #[error("no keys or entries provided for adding to index")]
    NothingToAdd,
    /// Nothing to evict.
    #[error("no entries provided for eviction from index")]
    NothingToEvict,
    /// An engine key without a mapping.
    #[error("engine key not found: {0}")]
    EngineKeyNotFound(EngineKey),
    /// A block can have no holder.
    #[error("a block of the index has room for no holder: podCacheSize must be greater than 0")]
    NoRoomForHolders,
    /// Too many different holders.
    #[error("the index knows {MOST_ENTRIES} combinations of pod, tier and group already")]
    TooManyEntries,
}

/// The index: block to holders, and engine key to blocks; both forget what was used least recently.
///
/// A block with one holder takes 57 to 63 bytes, its engine key and the reference to it included; a further holder
/// of a block four bytes, and eight for its reference. Removed blocks give their memory back. No answer depends on
/// the order of a map.
#[derive(Debug)]
pub struct BlockIndex {
    limits: Limits,
    /// Value: the only holder, or the number of a list.
    blocks: LruMap<u32>,
    /// Holders of blocks with several, the least recently added first.
    holders: Lists<EntryId>,
    engine: LruMap<EngineBlock>,
    /// Blocks of engine keys with several.
    mappings: Lists<BlockKey>,
    /// References to engine keys with several, with their counts.
    references: Lists<(EntryId, u32)>,
    entries: Entries,
    cost: u64,
    /// The engine keys of one call.
    seen: FxHashSet<EngineKey>,
}

impl BlockIndex {
    /// Returns an empty index.
    pub fn new(limits: Limits) -> Self {
        let keys = limits.keys.min(LruMap::<u32>::MOST);
        BlockIndex {
            limits: Limits { keys, ..limits },
            blocks: LruMap::default(),
            holders: Lists::default(),
            engine: LruMap::default(),
            mappings: Lists::default(),
            references: Lists::default(),
            entries: Entries::default(),
            cost: 0,
            seen: FxHashSet::default(),
        }
    }

    /// Returns how many blocks somebody holds.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory in use. Unit: bytes.
    pub fn bytes(&self) -> usize {
        let lists = self.holders.bytes() + self.mappings.bytes() + self.references.bytes();
        self.blocks.bytes() + self.engine.bytes() + lists
    }

    /// Returns the sum of the [`key_cost`]s of all blocks.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Adds `entries` as holders of all `blocks`. Engine keys, where given, are mapped to the blocks in
    /// proportion: of E keys and R blocks the i-th of max(E, R) pairs joins key ⌊i·E/n⌋ and block ⌊i·R/n⌋; an
    /// earlier mapping of such a key is replaced.
    ///
    /// # Errors
    /// Nothing to add, and bounds that leave no room.
    pub fn add(
        &mut self,
        engine_keys: &[EngineKey],
        blocks: &[BlockKey],
        entries: &[PodEntry],
    ) -> Result<(), IndexError> {
        if blocks.is_empty() || entries.is_empty() {
            return Err(IndexError::NothingToAdd);
        }
        if self.entries.len() + entries.len() > MOST_ENTRIES {
            let new = entries.iter().filter(|entry| self.entries.find(entry).is_none()).count();
            if self.entries.len() + new > MOST_ENTRIES {
                return Err(IndexError::TooManyEntries);
            }
        }
        self.engine.warm(engine_keys.iter().copied());
        self.blocks.warm(blocks.iter().copied());
        self.map(engine_keys, blocks);
        let ids: Vec<EntryId> = entries.iter().map(|entry| self.entries.acquire(entry)).collect();
        let added = blocks.iter().try_for_each(|block| self.add_holders(*block, &ids));
        for id in ids {
            self.entries.release(id);
        }
        while self.bytes() > self.limits.bytes && self.forget_oldest() {}
        added
    }

    /// Returns the last block that an engine key is mapped to; the key counts as used.
    ///
    /// # Errors
    /// It is mapped to none.
    pub fn block_of(&mut self, key: EngineKey) -> Result<BlockKey, IndexError> {
        let number = self.engine.find(key).filter(|number| self.engine.value(*number).is_mapped());
        let number = number.ok_or(IndexError::EngineKeyNotFound(key))?;
        self.engine.touch(number);
        let last = self.engine.value(number).blocks(&self.mappings).last();
        last.ok_or(IndexError::EngineKeyNotFound(key))
    }

    /// Takes `entries` off all blocks that an engine key is mapped to; the mapping goes when none of these blocks
    /// has a holder left. An unknown key changes nothing.
    ///
    /// # Errors
    /// No entries.
    pub fn evict_engine_key(&mut self, key: EngineKey, entries: &[PodEntry]) -> Result<(), IndexError> {
        if entries.is_empty() {
            return Err(IndexError::NothingToEvict);
        }
        let Some(number) = self.engine.find(key) else { return Ok(()) };
        if !self.engine.value(number).is_mapped() {
            return Ok(());
        }
        self.engine.touch(number);
        let mapped = *self.engine.value(number);
        // Evicting touches blocks, not engine keys: their lists stay as they are.
        for at in 0.. {
            let Some(block) = mapped.block(at, &self.mappings).1 else { break };
            self.evict(block, entries);
        }
        // The search for a block that is still held uses the one it finds.
        let held = mapped.blocks(&self.mappings).find_map(|block| self.blocks.find(block));
        match held {
            Some(held) => self.blocks.touch(held),
            None => self.unmap(key),
        }
        Ok(())
    }

    /// Takes `entries` off one block.
    ///
    /// # Errors
    /// No entries.
    pub fn evict_block(&mut self, block: BlockKey, entries: &[PodEntry]) -> Result<(), IndexError> {
        if entries.is_empty() {
            return Err(IndexError::NothingToEvict);
        }
        self.evict(block, entries);
        Ok(())
    }

    /// Calls `visit` with the place and the holders of each of `blocks` that has any, in order. What is visited
    /// counts as used.
    pub fn visit(&mut self, blocks: &[BlockKey], mut visit: impl FnMut(usize, &[EntryId])) {
        let mut run = Run::default();
        for (at, block) in blocks.iter().enumerate() {
            if at % AHEAD == 0 {
                self.blocks.warm(blocks[at..].iter().take(AHEAD).copied());
            }
            let Some(number) = self.blocks.find(*block) else { continue };
            self.blocks.touch_next(&mut run, number);
            visit(at, holders::slice(self.blocks.value(number), &self.holders));
        }
        self.blocks.touch_run(&mut run);
    }

    /// Returns the entry behind a number that [`visit`](Self::visit) gave.
    pub fn entry(&self, id: EntryId) -> Option<&PodEntry> {
        self.entries.get(id)
    }

    /// Returns a bound of the entries' numbers.
    pub fn entry_bound(&self) -> usize {
        self.entries.bound()
    }

    /// Returns the entries of a pod.
    pub fn entries_of(&self, pod: &str) -> &[EntryId] {
        self.entries.of_pod(pod)
    }

    /// Iterates over all entries in use, by number.
    pub fn entries(&self) -> impl Iterator<Item = (EntryId, &PodEntry)> {
        self.entries.iter()
    }

    /// Iterates over the blocks and their holders: the least recently used block first, of a block the least
    /// recently added holder first.
    pub fn content(&self) -> impl Iterator<Item = (BlockKey, Vec<&PodEntry>)> {
        self.blocks.iter().map(|(block, value)| {
            let ids = holders::slice(value, &self.holders);
            (block, ids.iter().filter_map(|id| self.entries.get(*id)).collect())
        })
    }

    /// Iterates over the engine keys and the blocks that they are mapped to, the least recently used first.
    pub fn engine_keys(&self) -> impl Iterator<Item = (EngineKey, Vec<BlockKey>)> {
        self.engine.iter().map(|(key, block)| (key, block.blocks(&self.mappings).collect()))
    }

    /// Maps engine keys to blocks.
    fn map(&mut self, engine_keys: &[EngineKey], blocks: &[BlockKey]) {
        if engine_keys.is_empty() || self.limits.keys == 0 {
            return;
        }
        let mut seen = std::mem::take(&mut self.seen);
        let pairs = engine_keys.len().max(blocks.len());
        for pair in 0..pairs {
            let key = engine_keys[pair * engine_keys.len() / pairs];
            let block = blocks[pair * blocks.len() / pairs];
            let number =
                self.engine.find(key).unwrap_or_else(|| self.engine.insert(key, EngineBlock::default()));
            if seen.insert(key) {
                let moved = self.engine.value_mut(number).map_to(block, &mut self.mappings);
                self.mapping_moved(moved);
            } else {
                self.engine.value_mut(number).also_map_to(key, block, &mut self.mappings);
            }
            self.engine.touch(number);
            while self.engine.queued() > self.limits.keys {
                let Some(oldest) = self.engine.oldest() else { break };
                self.unmap(oldest);
            }
        }
        seen.clear();
        self.seen = seen;
    }

    /// Forgets the mapping of an engine key.
    fn unmap(&mut self, key: EngineKey) {
        let Some(number) = self.engine.find(key) else { return };
        self.engine.leave_queue(number);
        let moved = self.engine.value_mut(number).unmap(&mut self.mappings);
        if !self.engine.value(number).is_referenced() {
            self.engine.remove(key);
        }
        self.mapping_moved(moved);
    }

    /// Tells the owner of a list of blocks that its list has another number.
    fn mapping_moved(&mut self, moved: Option<(EngineKey, u32)>) {
        let Some((owner, list)) = moved else { return };
        if let Some(number) = self.engine.find(owner) {
            self.engine.value_mut(number).mapping_moved(list);
        }
    }

    /// Makes room; returns whether there was anything to forget.
    fn forget_oldest(&mut self) -> bool {
        let block = self.blocks.oldest();
        if let Some(block) = block {
            self.forget(block);
        }
        let key = self.engine.oldest();
        if let Some(key) = key {
            // Its removal will be passed on, and find nothing.
            self.drop_references(key);
            self.unmap(key);
        }
        block.is_some() || key.is_some()
    }
}

/// Returns what a block with these holders costs in the llm-d Router's cost-aware index.
pub fn key_cost<'a>(block: BlockKey, entries: impl IntoIterator<Item = &'a PodEntry>) -> u64 {
    holders::base_cost(block) + entries.into_iter().map(holders::entry_cost).sum::<u64>()
}

#[cfg(test)]
mod tests;
