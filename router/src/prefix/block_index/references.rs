//! How often each holder has reported a block (request-control spec 15.4): only the last removal counts.

use super::engine_block::{EngineBlock, References};
use super::entries::{Entries, EntryId, PodEntry};
use super::{BlockIndex, EngineKey};

impl BlockIndex {
    /// Counts one more report of `key` by `entry`.
    ///
    /// Where the index is full of keys that are mapped to nothing, or holds too many different entries, the report
    /// is not counted: its removal is passed on then, as that of a key that nobody reported.
    pub fn reference(&mut self, key: EngineKey, entry: &PodEntry) {
        self.reference_all(&[key], entry);
    }

    /// Counts one more report of each of `keys` by `entry`, as [`reference`](Self::reference) does.
    pub fn reference_all(&mut self, keys: &[EngineKey], entry: &PodEntry) {
        let mut known = self.entries.find(entry);
        for key in keys {
            known = self.count(*key, entry, known);
        }
    }

    /// Counts one more report of `key` by `entry`, which has the number `known` if it has one; returns its number.
    fn count(&mut self, key: EngineKey, entry: &PodEntry, known: Option<EntryId>) -> Option<EntryId> {
        let number = match self.engine.find(key) {
            Some(number) => number,
            None => {
                let beside = self.engine.len() - self.engine.queued();
                // Keys beside the queue cannot make room for others, so they may take three quarters of it.
                if beside >= self.limits.keys || self.bytes() > self.limits.bytes / 4 * 3 {
                    return known;
                }
                self.engine.insert(key, EngineBlock::default())
            }
        };
        if known.is_none() && self.entries.len() >= super::MOST_ENTRIES {
            return known;
        }
        let mut own = known;
        let mut acquire = |entries: &mut Entries| {
            let id = match known {
                Some(id) => {
                    entries.add_use(id);
                    id
                }
                None => entries.acquire(entry),
            };
            own = Some(id);
            id
        };
        let references = self.engine.value(number).references();
        let is_counted = |id: &EntryId| known == Some(*id);
        let new = match references {
            References::Nobody => References::Once(acquire(&mut self.entries)),
            References::Once(id) if is_counted(&id) => {
                References::List(self.references.add(key, vec![(id, 2)]))
            }
            References::Once(id) => {
                let other = acquire(&mut self.entries);
                References::List(self.references.add(key, vec![(id, 1), (other, 1)]))
            }
            References::List(list) => {
                let counted = self.references.update(list, |list| {
                    let counted = list.iter_mut().find(|(id, _)| is_counted(id));
                    counted.map(|(_, count)| *count = count.saturating_add(1)).is_some()
                });
                if !counted {
                    let id = acquire(&mut self.entries);
                    self.references.update(list, |list| list.push((id, 1)));
                }
                References::List(list)
            }
        };
        self.engine.value_mut(number).set_references(new);
        own
    }

    /// Counts one report of `key` by `entry` less; returns whether none is left, also of one that never was.
    pub fn unreference(&mut self, key: EngineKey, entry: &PodEntry) -> bool {
        let Some(number) = self.engine.find(key) else { return true };
        let Some(id) = self.entries.find(entry) else { return true };
        match self.engine.value(number).references() {
            References::Once(once) if once == id => {}
            References::List(list) => {
                let count = self.references.update(list, |list| {
                    let (_, count) = list.iter_mut().find(|(other, _)| *other == id)?;
                    *count -= 1;
                    Some(*count)
                });
                match count {
                    None => return true,
                    Some(0) => {}
                    Some(_) => return false,
                }
            }
            _ => return true,
        }
        self.drop_reference(key, id);
        true
    }

    /// Forgets how often a pod has reported anything.
    pub fn forget_references(&mut self, pod: &str) {
        let ids = self.entries.of_pod(pod).to_owned();
        let mut left: u64 = ids.iter().map(|id| self.entries.uses(*id).1).sum();
        for number in (0..self.engine.len() as u32).rev() {
            if left == 0 {
                return;
            }
            let (key, block) = self.engine.at(number);
            let counted: Vec<EntryId> = match block.references() {
                References::Nobody => Vec::new(),
                References::Once(id) => ids.iter().copied().filter(|other| *other == id).collect(),
                References::List(list) => {
                    let list = self.references.get(list);
                    ids.iter().copied().filter(|id| list.iter().any(|(other, _)| other == id)).collect()
                }
            };
            for id in counted {
                left -= 1;
                self.drop_reference(key, id);
            }
        }
    }

    /// Forgets all references to one key.
    pub(super) fn drop_references(&mut self, key: EngineKey) {
        let Some(number) = self.engine.find(key) else { return };
        let ids: Vec<EntryId> = match self.engine.value(number).references() {
            References::Nobody => Vec::new(),
            References::Once(id) => vec![id],
            References::List(list) => self.references.get(list).iter().map(|(id, _)| *id).collect(),
        };
        for id in ids {
            self.drop_reference(key, id);
        }
    }

    /// Takes `id` off the references to `key`; the key goes when it is mapped to nothing and nobody is left.
    fn drop_reference(&mut self, key: EngineKey, id: EntryId) {
        let Some(number) = self.engine.find(key) else { return };
        match self.engine.value(number).references() {
            References::Nobody => return,
            References::Once(_) => self.engine.value_mut(number).set_references(References::Nobody),
            References::List(list) => {
                let last = self.references.update(list, |list| {
                    list.retain(|(other, _)| *other != id);
                    match list[..] {
                        [] => Some(References::Nobody),
                        [(last, 1)] => Some(References::Once(last)),
                        _ => None,
                    }
                });
                if let Some(last) = last {
                    self.engine.value_mut(number).set_references(last);
                    let (_, moved) = self.references.remove(list);
                    if let Some(number) = moved.and_then(|owner| self.engine.find(owner)) {
                        self.engine.value_mut(number).set_references(References::List(list));
                    }
                }
            }
        }
        self.entries.release(id);
        let block = self.engine.value(number);
        if !block.is_mapped() && !block.is_referenced() {
            self.engine.remove(key);
        }
    }
}
