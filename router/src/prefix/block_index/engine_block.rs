//! What is known of an engine key: the blocks it stands for, and who reported it how often.

use super::super::block_keys::BlockKey;
use super::EngineKey;
use super::entries::EntryId;
use super::lists::Lists;

/// How the blocks are kept, in the last word's two highest bits.
const MAPPING: u32 = 3 << 30;
const TO_ONE: u32 = 1 << 30;
const TO_SEVERAL: u32 = 2 << 30;

/// Whether the references lie in a list.
const IN_LIST: u32 = 1 << 29;

/// No reference.
const NOBODY: u32 = IN_LIST - 1;

/// The references, in the bits below.
const REFERENCES: u32 = IN_LIST | NOBODY;

/// Twelve bytes: the block or the number of a list of blocks; then how it is kept, and the only reference, which
/// counts once, or the number of a list of references.
#[derive(Clone, Copy, Debug)]
pub(super) struct EngineBlock([u32; 3]);

impl Default for EngineBlock {
    fn default() -> Self {
        EngineBlock([0, 0, NOBODY])
    }
}

/// Who was reported how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum References {
    Nobody,
    /// One holder, once.
    Once(EntryId),
    /// A list.
    List(u32),
}

impl EngineBlock {
    pub(super) fn is_mapped(&self) -> bool {
        self.0[2] & MAPPING != 0
    }

    pub(super) fn is_referenced(&self) -> bool {
        self.references() != References::Nobody
    }

    /// Returns how many blocks there are, and the block at `at`.
    pub(super) fn block(&self, at: usize, lists: &Lists<BlockKey>) -> (usize, Option<BlockKey>) {
        match self.0[2] & MAPPING {
            TO_ONE => (1, Some(self.only()).filter(|_| at == 0)),
            TO_SEVERAL => {
                let list = lists.get(self.0[0]);
                (list.len(), list.get(at).copied())
            }
            _ => (0, None),
        }
    }

    /// Iterates over the blocks.
    pub(super) fn blocks(&self, lists: &Lists<BlockKey>) -> impl Iterator<Item = BlockKey> {
        (0..).map_while(|at| self.block(at, lists).1)
    }

    /// Replaces the mapping. `Some((key, list))`: the mapping list of that key has this number now.
    pub(super) fn map_to(
        &mut self,
        block: BlockKey,
        lists: &mut Lists<BlockKey>,
    ) -> Option<(EngineKey, u32)> {
        let moved = self.unmap(lists);
        self.set(TO_ONE, [block as u32, (block >> 32) as u32]);
        moved
    }

    /// Adds a block to the mapping of `key`.
    pub(super) fn also_map_to(&mut self, key: EngineKey, block: BlockKey, lists: &mut Lists<BlockKey>) {
        match self.0[2] & MAPPING {
            TO_SEVERAL => lists.update(self.0[0], |list| list.push(block)),
            TO_ONE => {
                let list = lists.add(key, vec![self.only(), block]);
                self.set(TO_SEVERAL, [list, 0]);
            }
            _ => self.set(TO_ONE, [block as u32, (block >> 32) as u32]),
        }
    }

    /// Forgets the mapping. `Some((key, list))`: the mapping list of that key has this number now.
    pub(super) fn unmap(&mut self, lists: &mut Lists<BlockKey>) -> Option<(EngineKey, u32)> {
        let list = (self.0[2] & MAPPING == TO_SEVERAL).then_some(self.0[0]);
        self.set(0, [0, 0]);
        let list = list?;
        lists.remove(list).1.map(|owner| (owner, list))
    }

    /// Notes the new number of the mapping's list.
    pub(super) fn mapping_moved(&mut self, list: u32) {
        self.0[0] = list;
    }

    pub(super) fn references(&self) -> References {
        match self.0[2] & REFERENCES {
            NOBODY => References::Nobody,
            value if value & IN_LIST != 0 => References::List(value & !IN_LIST),
            id => References::Once(id),
        }
    }

    pub(super) fn set_references(&mut self, references: References) {
        let value = match references {
            References::Nobody => NOBODY,
            References::Once(id) => id,
            References::List(list) => list | IN_LIST,
        };
        self.0[2] = self.0[2] & MAPPING | value;
    }

    fn only(&self) -> BlockKey {
        u64::from(self.0[0]) | u64::from(self.0[1]) << 32
    }

    fn set(&mut self, mapping: u32, words: [u32; 2]) {
        self.0 = [words[0], words[1], self.0[2] & !MAPPING | mapping];
    }
}
