//! From events to the index (request-control spec 15.4).

use std::collections::BTreeMap;
use std::rc::Rc;

use super::extra_keys::align;
use super::{KvBatch, KvEvent, Removed, Stored, split_topic};
use crate::config::schema::Behavior;
use crate::prefix::block_index::{BlockIndex, EngineKey, PodEntry};
use crate::prefix::block_keys::{BlockHasher, BlockKey};

/// The kinds of caches whose blocks are the prefixes of sequences.
const INDEXABLE: [&str; 3] = ["full_attention", "mla_attention", "sink_full_attention"];

/// Most groups whose kinds are kept.
const MOST_GROUPS: usize = 1 << 16;

/// Longest name of a tier or kind that is taken. Unit: bytes.
const LONGEST_NAME: usize = 256;

/// A group whose kind nobody has said was skipped for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingKind;

/// What became of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Blocks that were added.
    pub stored: u64,
    /// Stores that were skipped: kind of the cache and reason, and how often.
    pub stores_skipped: BTreeMap<(String, &'static str), u64>,
    /// Removals that were skipped, likewise.
    pub removals_skipped: BTreeMap<(String, &'static str), u64>,
    /// Stores that had to be dropped: reason, and how often.
    pub stores_dropped: BTreeMap<&'static str, u64>,
    /// Hashes whose removal reached the index.
    pub removed_forwarded: u64,
    /// Hashes whose removal did not: they had been stored more than once.
    pub removed_suppressed: u64,
}

impl Applied {
    fn skip_store(&mut self, kind: &str, reason: &'static str) {
        *self.stores_skipped.entry((kind_label(kind), reason)).or_default() += 1;
    }

    fn skip_removal(&mut self, kind: &str, reason: &'static str) {
        *self.removals_skipped.entry((kind_label(kind), reason)).or_default() += 1;
    }

    fn drop_store(&mut self, reason: &'static str) {
        *self.stores_dropped.entry(reason).or_default() += 1;
    }
}

fn kind_label(kind: &str) -> String {
    if kind.is_empty() { "unknown".to_owned() } else { kind.to_owned() }
}

/// Applies batches to an index, and knows of each pod's groups what they are.
#[derive(Debug)]
pub struct KvEventApplier {
    hasher: BlockHasher,
    compat: Behavior,
    /// Kinds of caches. Look-ups only.
    kinds: BTreeMap<(Rc<str>, i64), String>,
    missing_kind: Option<MissingKind>,
    has_told: bool,
    keys: Vec<BlockKey>,
}

impl KvEventApplier {
    /// Returns an applier that names blocks as `hasher` does.
    ///
    /// Events that name a group and never its kind, as vLLM 0.21 sends them, are skipped, as by the llm-d Router
    /// v0.10.0; with [`Behavior::Fixed`] they count as those of full attention.
    pub fn new(hasher: BlockHasher, compat: Behavior) -> Self {
        KvEventApplier {
            hasher,
            compat,
            kinds: BTreeMap::new(),
            missing_kind: None,
            has_told: false,
            keys: Vec::new(),
        }
    }

    /// Returns, once, that a group whose kind nobody has said was skipped.
    pub fn take_missing_kind(&mut self) -> Option<MissingKind> {
        self.missing_kind.take()
    }

    /// Applies a batch that came under `topic`. `source` is the `address:port` of the server that sent it; where it
    /// is empty, the topic names the pod. The model is the topic's in any case.
    pub fn apply(&mut self, index: &mut BlockIndex, source: &str, topic: &str, batch: &KvBatch) -> Applied {
        let (pod, model) = split_topic(topic);
        let pod: Rc<str> = if source.is_empty() { pod } else { source }.into();
        let mut applied = Applied::default();
        for event in &batch.events {
            match event {
                KvEvent::Stored(stored) => self.store(index, &pod, model, stored, &mut applied),
                KvEvent::Removed(removed) => self.remove(index, &pod, removed, &mut applied),
                KvEvent::Cleared => reset(index, &pod),
            }
        }
        applied
    }

    fn store(
        &mut self,
        index: &mut BlockIndex,
        pod: &Rc<str>,
        model: &str,
        stored: &Stored,
        applied: &mut Applied,
    ) {
        let kind = stored.kind.as_deref().unwrap_or_default();
        if stored.medium.len() > LONGEST_NAME || kind.len() > LONGEST_NAME {
            return applied.drop_store("name_too_long");
        }
        if let Some(group) = stored.group {
            let known = self.learn(pod, group, kind);
            if let Err((kind, reason)) = self.digestible(&known, stored) {
                return applied.skip_store(kind, reason);
            }
        }
        let entry = entry(pod, &stored.medium, stored.group);
        self.keys.clear();
        if let Err(reason) = self.name_blocks(index, model, stored) {
            return applied.drop_store(reason);
        }
        if self.keys.is_empty() {
            return self.move_tier(index, stored, entry, applied);
        }
        let entries = std::slice::from_ref(&entry);
        if index.add(&stored.hashes, &self.keys, entries).is_err() {
            return applied.drop_store("index_full");
        }
        applied.stored += self.keys.len() as u64;
        index.reference_all(&stored.hashes, &entry);
    }

    /// Returns the kind of a group: as the event says it, or as an earlier one did.
    fn learn(&mut self, pod: &Rc<str>, group: i64, kind: &str) -> String {
        let at = (Rc::clone(pod), group);
        if kind.is_empty() {
            return self.kinds.get(&at).cloned().unwrap_or_default();
        }
        if self.kinds.len() < MOST_GROUPS || self.kinds.contains_key(&at) {
            self.kinds.insert(at, kind.to_owned());
        }
        kind.to_owned()
    }

    /// Says whether the blocks of a group are the blocks of a sequence, one after the other.
    fn digestible<'a>(&mut self, kind: &'a str, stored: &Stored) -> Result<(), (&'a str, &'static str)> {
        let unnamed = kind.is_empty() && self.compat == Behavior::Fixed;
        if !INDEXABLE.contains(&kind) && !unnamed {
            if kind.is_empty() && !self.has_told {
                (self.missing_kind, self.has_told) = (Some(MissingKind), true);
            }
            return Err((kind, "unsupported_cache_kind"));
        }
        if stored.tokens.is_empty() {
            return Ok(());
        }
        let Some(size) = usize::try_from(stored.block_size).ok().filter(|size| *size > 0) else {
            return Err((kind, "invalid_block_size"));
        };
        if !stored.tokens.len().is_multiple_of(size) || stored.tokens.len() / size != stored.hashes.len() {
            return Err((kind, "non_dense_block_span"));
        }
        Ok(())
    }

    /// Puts the keys of the blocks that the tokens fill into `self.keys`.
    fn name_blocks(
        &mut self,
        index: &mut BlockIndex,
        model: &str,
        stored: &Stored,
    ) -> Result<(), &'static str> {
        let parent = match stored.parent {
            0 => {
                let adapter = stored.lora_name.as_deref().filter(|name| !name.is_empty());
                self.hasher.root(adapter.unwrap_or(model))
            }
            parent => index.block_of(parent).map_err(|_| "unknown_parent")?,
        };
        let blocks = stored.tokens.len() / self.hasher.block_size();
        let extra = match &stored.extra {
            Some(extra) if blocks > 0 => Some(align(extra, blocks).ok_or("no_extra_keys")?),
            _ => None,
        };
        // Key 0 is no key: behind a block of that name a sequence starts anew.
        let parent = if parent == 0 { self.hasher.root(model) } else { parent };
        let chained = self.hasher.chain(parent, &stored.tokens, extra.as_deref(), &mut self.keys);
        chained.map_err(|_| "no_extra_keys")
    }

    /// Adds a holder to blocks that are known: they lie in one more tier.
    fn move_tier(&mut self, index: &mut BlockIndex, stored: &Stored, entry: PodEntry, applied: &mut Applied) {
        if !stored.tokens.is_empty() {
            return applied.drop_store("partial_block");
        }
        let mut known: Vec<(EngineKey, BlockKey)> = Vec::new();
        for hash in &stored.hashes {
            if let Ok(block) = index.block_of(*hash) {
                known.push((*hash, block));
            }
        }
        let mut blocks: Vec<BlockKey> = Vec::new();
        for (_, block) in &known {
            if !blocks.contains(block) {
                blocks.push(*block);
            }
        }
        if blocks.is_empty() || index.add(&[], &blocks, std::slice::from_ref(&entry)).is_err() {
            return;
        }
        for (hash, _) in known {
            index.reference(hash, &entry);
        }
    }

    fn remove(&mut self, index: &mut BlockIndex, pod: &Rc<str>, removed: &Removed, applied: &mut Applied) {
        if let Some(group) = removed.group {
            match self.kinds.get(&(Rc::clone(pod), group)) {
                None if self.compat == Behavior::Fixed => {}
                None => return applied.skip_removal("", "unknown_group"),
                Some(kind) if INDEXABLE.contains(&kind.as_str()) => {}
                Some(kind) => return applied.skip_removal(kind, "unsupported_cache_kind"),
            }
        }
        let entry = entry(pod, &removed.medium, removed.group);
        let entries = std::slice::from_ref(&entry);
        for hash in &removed.hashes {
            if !index.unreference(*hash, &entry) {
                applied.removed_suppressed += 1;
                continue;
            }
            applied.removed_forwarded += 1;
            let evicted = index.evict_engine_key(*hash, entries);
            debug_assert!(evicted.is_ok(), "there is an entry");
        }
    }
}

/// Forgets all that a pod holds, and how often it said so.
pub(super) fn reset(index: &mut BlockIndex, pod: &str) {
    index.clear(pod);
    index.forget_references(pod);
}

fn entry(pod: &Rc<str>, medium: &str, group: Option<i64>) -> PodEntry {
    let tier = if medium.is_empty() { "gpu".into() } else { medium.to_lowercase().into() };
    PodEntry { pod: Rc::clone(pod), tier, speculative: false, group }
}
