//! Who holds blocks: each holder once, under a small number.

use std::fmt;
use std::rc::Rc;

use rustc_hash::FxHashMap;

/// Number of an entry.
pub type EntryId = u32;

/// A holder of a block: a pod in one of its tiers. All fields count for identity (request-control spec 14.3).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodEntry {
    /// `address:port` of the pod, or the name that its topic has.
    pub pod: Rc<str>,
    /// Where the block lies: `gpu`, `cpu` or what the engine calls it; empty for a guess.
    pub tier: Rc<str>,
    /// A guess after a decision that no event has confirmed.
    pub speculative: bool,
    /// KV-cache group, where the engine names one.
    pub group: Option<i64>,
}

impl PodEntry {
    /// Returns a confirmed entry without a group.
    pub fn new(pod: &str, tier: &str) -> Self {
        PodEntry { pod: pod.into(), tier: tier.into(), speculative: false, group: None }
    }

    /// Returns a guess.
    pub fn speculative(pod: &str) -> Self {
        PodEntry { speculative: true, ..PodEntry::new(pod, "") }
    }
}

impl fmt::Debug for PodEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.pod, self.tier)?;
        if self.speculative {
            f.write_str("[speculative]")?;
        }
        self.group.map_or(Ok(()), |group| write!(f, "[group {group}]"))
    }
}

/// The entries in use, each under a number; a number is free again when nothing uses it.
#[derive(Debug, Default)]
pub(super) struct Entries {
    numbers: FxHashMap<PodEntry, EntryId>,
    slots: Vec<Option<Slot>>,
    free: Vec<EntryId>,
    /// The entries of each pod.
    pods: FxHashMap<Rc<str>, Vec<EntryId>>,
}

#[derive(Debug)]
struct Slot {
    entry: PodEntry,
    uses: u64,
    /// How many of the uses are blocks.
    blocks: u64,
}

impl Entries {
    /// Returns the number of an entry and uses it once.
    pub(super) fn acquire(&mut self, entry: &PodEntry) -> EntryId {
        if let Some(id) = self.numbers.get(entry) {
            let id = *id;
            self.add_use(id);
            return id;
        }
        let slot = Some(Slot { entry: entry.clone(), uses: 1, blocks: 0 });
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as EntryId
            }
        };
        self.numbers.insert(entry.clone(), id);
        self.pods.entry(Rc::clone(&entry.pod)).or_default().push(id);
        id
    }

    /// Returns the number of an entry, `None` where nothing uses it.
    pub(super) fn find(&self, entry: &PodEntry) -> Option<EntryId> {
        self.numbers.get(entry).copied()
    }

    /// Uses an entry once more.
    pub(super) fn add_use(&mut self, id: EntryId) {
        if let Some(slot) = &mut self.slots[id as usize] {
            slot.uses += 1;
        }
    }

    /// Uses an entry once less.
    pub(super) fn release(&mut self, id: EntryId) {
        let Some(slot) = &mut self.slots[id as usize] else { return };
        slot.uses -= 1;
        if slot.uses > 0 {
            return;
        }
        let Some(Slot { entry, .. }) = self.slots[id as usize].take() else { return };
        self.numbers.remove(&entry);
        if let Some(ids) = self.pods.get_mut(&entry.pod) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.pods.remove(&entry.pod);
            }
        }
        self.free.push(id);
    }

    /// Notes that an entry holds one block more.
    pub(super) fn hold(&mut self, id: EntryId) {
        if let Some(slot) = &mut self.slots[id as usize] {
            slot.uses += 1;
            slot.blocks += 1;
        }
    }

    /// Notes that an entry holds one block less.
    pub(super) fn let_go(&mut self, id: EntryId) {
        if let Some(slot) = &mut self.slots[id as usize] {
            slot.blocks -= 1;
        }
        self.release(id);
    }

    /// Returns how many blocks an entry holds, and how often it is counted as a reference.
    pub(super) fn uses(&self, id: EntryId) -> (u64, u64) {
        let slot = self.slots.get(id as usize).and_then(Option::as_ref);
        slot.map_or((0, 0), |slot| (slot.blocks, slot.uses - slot.blocks))
    }

    /// Returns how many entries are in use.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns the entries of a pod.
    pub(super) fn of_pod(&self, pod: &str) -> &[EntryId] {
        self.pods.get(pod).map_or(&[], Vec::as_slice)
    }

    pub(super) fn get(&self, id: EntryId) -> Option<&PodEntry> {
        self.slots.get(id as usize)?.as_ref().map(|slot| &slot.entry)
    }

    /// Returns a bound of the numbers.
    pub(super) fn bound(&self) -> usize {
        self.slots.len()
    }

    /// Iterates over the entries in use, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (EntryId, &PodEntry)> {
        let numbered = self.slots.iter().enumerate();
        numbered.filter_map(|(id, slot)| slot.as_ref().map(|slot| (id as EntryId, &slot.entry)))
    }
}
