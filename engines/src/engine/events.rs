//! KV events: what became findable in the prefix cache, and what ceased to be.

use std::ops::Range;

use super::{BlockHash, RequestId};

/// A change of the prefix cache (model-server spec 3.4).
///
/// The driver knows what the engine does not: tokens, extra keys and adapter of the blocks that `Stored` names. It
/// keeps a request's content until it has read the events of the first update after the request's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvEvent<'a> {
    /// Further blocks of a request are full.
    Stored {
        /// The request they belong to.
        request: RequestId,
        /// Index of the first of them among the request's blocks.
        first_block: u32,
        /// Hash of the block before the first; `None` at the start.
        parent: Option<BlockHash>,
        /// Their hashes, in order.
        hashes: &'a [BlockHash],
    },
    /// A cached block was taken for other content.
    Removed {
        /// Its hash; another copy may still be cached.
        hash: BlockHash,
    },
    /// The whole cache was reset.
    Cleared,
}

#[derive(Clone, Debug)]
enum Entry {
    Stored { request: RequestId, first_block: u32, parent: Option<BlockHash>, hashes: Range<usize> },
    Removed(BlockHash),
    Cleared,
}

/// KV events in the order they happened.
#[derive(Clone, Debug, Default)]
pub struct KvEvents {
    entries: Vec<Entry>,
    /// Hashes of all `Stored` entries, one after the other.
    hashes: Vec<BlockHash>,
}

impl KvEvents {
    /// The events, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = KvEvent<'_>> {
        self.entries.iter().map(|entry| match entry {
            Entry::Stored { request, first_block, parent, hashes } => KvEvent::Stored {
                request: *request,
                first_block: *first_block,
                parent: *parent,
                hashes: &self.hashes[hashes.clone()],
            },
            Entry::Removed(hash) => KvEvent::Removed { hash: *hash },
            Entry::Cleared => KvEvent::Cleared,
        })
    }

    /// Whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.hashes.clear();
    }

    /// Records that the blocks of `request` from `first_block` on, `hashes[first_block..]`, are full.
    pub(super) fn stored(&mut self, request: RequestId, first_block: u32, hashes: &[BlockHash]) {
        let first = first_block as usize;
        let start = self.hashes.len();
        self.hashes.extend_from_slice(&hashes[first..]);
        let parent = first.checked_sub(1).map(|before| hashes[before]);
        self.entries.push(Entry::Stored { request, first_block, parent, hashes: start..self.hashes.len() });
    }

    pub(super) fn removed(&mut self, hash: BlockHash) {
        self.entries.push(Entry::Removed(hash));
    }

    pub(super) fn cleared(&mut self) {
        self.entries.push(Entry::Cleared);
    }
}
