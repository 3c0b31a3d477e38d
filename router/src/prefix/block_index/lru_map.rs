//! A map from 64-bit keys that knows which of them were used least recently.

use super::key_table::KeyTable;
use super::segments::Segments;

/// No node.
const NONE: u32 = u32::MAX;

/// A map whose keys stand in a queue of use, or beside it.
///
/// A key and its links take 16 bytes, the table 5 to 7.5. Nodes lie densely: the last one moves where one is taken
/// out, so what is removed is given back.
#[derive(Debug)]
pub(super) struct LruMap<V> {
    table: KeyTable,
    nodes: Segments<Node<V>>,
    oldest: u32,
    newest: u32,
    queued: usize,
}

/// Keys that stand one behind the other in the queue and are on their way to its end.
#[derive(Debug, Default)]
pub(super) struct Run(Option<(u32, u32)>);

/// The key is kept in halves so that nodes need no padding.
#[derive(Debug)]
struct Node<V> {
    key: [u32; 2],
    older: u32,
    newer: u32,
    value: V,
}

/// `older` and `newer` of a node beside the queue. No queued node has it: it would be its own neighbour.
fn is_beside<V>(node: &Node<V>, number: u32) -> bool {
    node.older == number
}

fn join([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl<V> Default for LruMap<V> {
    fn default() -> Self {
        LruMap {
            table: KeyTable::default(),
            nodes: Segments::default(),
            oldest: NONE,
            newest: NONE,
            queued: 0,
        }
    }
}

impl<V> LruMap<V> {
    /// Most keys.
    pub(super) const MOST: usize = KeyTable::MOST;

    /// Returns how many keys stand in the queue.
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    /// Returns how many keys there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the handle of a key, good until a key is taken out.
    #[inline]
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        self.table.find(key, |number| join(self.nodes.get(number).key))
    }

    #[inline]
    pub(super) fn value(&self, number: u32) -> &V {
        &self.nodes.get(number).value
    }

    pub(super) fn value_mut(&mut self, number: u32) -> &mut V {
        &mut self.nodes.get_mut(number).value
    }

    /// Adds a key that is not there, beside the queue.
    pub(super) fn insert(&mut self, key: u64, value: V) -> u32 {
        let number = self.nodes.len() as u32;
        let key_halves = [key as u32, (key >> 32) as u32];
        let pushed = self.nodes.push(Node { key: key_halves, older: number, newer: number, value });
        debug_assert_eq!(pushed, number);
        let nodes = &self.nodes;
        self.table.insert(key, number, |number| join(nodes.get(number).key));
        number
    }

    /// Makes a key the most recently used one of the queue.
    #[inline]
    pub(super) fn touch(&mut self, number: u32) {
        if self.newest == number {
            return;
        }
        self.leave_queue(number);
        let newest = self.newest;
        let node = self.nodes.get_mut(number);
        (node.older, node.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = number,
            _ => self.nodes.get_mut(newest).newer = number,
        }
        self.newest = number;
        self.queued += 1;
    }

    /// Prepares for looking keys up, see [`KeyTable::warm`].
    pub(super) fn warm(&self, keys: impl Iterator<Item = u64>) {
        self.table.warm(keys);
    }

    /// Makes keys the most recently used ones of the queue, one after the other, as [`touch`](Self::touch) does: keys
    /// that stand in this order already move together.
    #[inline]
    pub(super) fn touch_next(&mut self, run: &mut Run, number: u32) {
        let node = self.nodes.get(number);
        if is_beside(node, number) {
            self.touch_run(run);
            return self.touch(number);
        }
        match run.0 {
            Some((first, last)) if self.nodes.get(last).newer == number => run.0 = Some((first, number)),
            _ => {
                self.touch_run(run);
                run.0 = Some((number, number));
            }
        }
    }

    /// Moves the last keys of a run.
    pub(super) fn touch_run(&mut self, run: &mut Run) {
        let Some((first, last)) = run.0.take().filter(|(_, last)| *last != self.newest) else { return };
        let (older, newer) = (self.nodes.get(first).older, self.nodes.get(last).newer);
        match older {
            NONE => self.oldest = newer,
            _ => self.nodes.get_mut(older).newer = newer,
        }
        // There is a newer one: the run does not end with the newest.
        self.nodes.get_mut(newer).older = older;
        let newest = std::mem::replace(&mut self.newest, last);
        self.nodes.get_mut(newest).newer = first;
        self.nodes.get_mut(first).older = newest;
        self.nodes.get_mut(last).newer = NONE;
    }

    /// Lets a key stand beside the queue.
    #[inline]
    pub(super) fn leave_queue(&mut self, number: u32) {
        let node = self.nodes.get_mut(number);
        if is_beside(node, number) {
            return;
        }
        let (older, newer) = (node.older, node.newer);
        (node.older, node.newer) = (number, number);
        match older {
            NONE => self.oldest = newer,
            _ => self.nodes.get_mut(older).newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.nodes.get_mut(newer).older = older,
        }
        self.queued -= 1;
    }

    /// Returns the least recently used key of the queue.
    pub(super) fn oldest(&self) -> Option<u64> {
        (self.oldest != NONE).then(|| join(self.nodes.get(self.oldest).key))
    }

    /// Takes a key out; handles of other keys are void then.
    pub(super) fn remove(&mut self, key: u64) -> Option<V> {
        let number = self.find(key)?;
        self.leave_queue(number);
        let nodes = &self.nodes;
        self.table.remove(key, |number| join(nodes.get(number).key));
        let last = (self.nodes.len() - 1) as u32;
        if number != last {
            let nodes = &self.nodes;
            self.table.renumber(join(nodes.get(last).key), number, |number| join(nodes.get(number).key));
        }
        let removed = self.nodes.swap_remove(number);
        if number != last {
            self.moved(last, number);
        }
        let nodes = &self.nodes;
        self.table.shrink(|number| join(nodes.get(number).key));
        Some(removed.value)
    }

    /// Mends the links to a node that moved.
    fn moved(&mut self, from: u32, to: u32) {
        let node = self.nodes.get_mut(to);
        if is_beside(node, from) {
            (node.older, node.newer) = (to, to);
            return;
        }
        let (older, newer) = (node.older, node.newer);
        match older {
            NONE => self.oldest = to,
            _ => self.nodes.get_mut(older).newer = to,
        }
        match newer {
            NONE => self.newest = to,
            _ => self.nodes.get_mut(newer).older = to,
        }
    }

    /// Iterates over the queue, the least recently used key first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        let first = (self.oldest != NONE).then_some(self.oldest);
        let next = |number: &u32| {
            let newer = self.nodes.get(*number).newer;
            (newer != NONE).then_some(newer)
        };
        std::iter::successors(first, next).map(|number| {
            let node = self.nodes.get(number);
            (join(node.key), &node.value)
        })
    }

    /// Returns the key and value of the node `number`, below [`len`](Self::len).
    pub(super) fn at(&self, number: u32) -> (u64, &V) {
        let node = self.nodes.get(number);
        (join(node.key), &node.value)
    }

    /// Returns the memory in use, without what the values own.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes() + self.nodes.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_node_has_no_padding() {
        assert_eq!(size_of::<Node<u32>>(), 20);
        assert_eq!(size_of::<Node<[u32; 3]>>(), 28);
    }

    proptest! {
        #[test]
        fn a_run_moves_as_its_keys_do_one_by_one(
            beside in proptest::collection::vec(0u64..20, 0..4),
            touched in proptest::collection::vec((0u64..20, 1u64..6), 0..30),
        ) {
            let (mut runs, mut single) = (LruMap::default(), LruMap::default());
            for map in [&mut runs, &mut single] {
                for key in 0..20 {
                    let number = map.insert(key, ());
                    map.touch(number);
                }
                for key in &beside {
                    let number = map.find(*key).expect("it is there");
                    map.leave_queue(number);
                }
            }
            let keys = touched.iter().flat_map(|(first, length)| (*first..first + length).map(|key| key % 20));
            let mut run = Run::default();
            for key in keys {
                let number = runs.find(key).expect("it is there");
                runs.touch_next(&mut run, number);
                single.touch(number);
            }
            runs.touch_run(&mut run);
            let order = |map: &LruMap<()>| map.iter().map(|(key, _)| key).collect::<Vec<_>>();
            prop_assert_eq!(order(&runs), order(&single));
            prop_assert_eq!(runs.queued(), single.queued());
        }

        #[test]
        fn behaves_as_a_queue_of_pairs(steps in proptest::collection::vec((0u8..4, 0u64..300), 0..1500)) {
            let (mut map, mut model) = (LruMap::default(), VecDeque::<(u64, u64)>::new());
            for (at, (op, key)) in steps.into_iter().enumerate() {
                let key = key << 40;
                let found = map.find(key);
                match (op, found) {
                    (0, Some(_)) => {
                        prop_assert!(map.remove(key).is_some());
                        model.retain(|(k, _)| *k != key);
                    }
                    (1, Some(number)) => {
                        map.leave_queue(number);
                        model.retain(|(k, _)| *k != key);
                    }
                    (_, None) if op < 2 => prop_assert_eq!(map.remove(key), None),
                    (_, found) => {
                        let number = found.unwrap_or_else(|| map.insert(key, 0));
                        map.touch(number);
                        *map.value_mut(number) = at as u64;
                        model.retain(|(k, _)| *k != key);
                        model.push_back((key, at as u64));
                    }
                }
                prop_assert_eq!(map.queued(), model.len());
                prop_assert_eq!(map.oldest(), model.front().map(|(k, _)| *k));
            }
            let got: Vec<(u64, u64)> = map.iter().map(|(k, v)| (k, *v)).collect();
            prop_assert_eq!(got, Vec::from(model));
        }
    }

    #[test]
    fn a_million_keys_come_and_go_without_a_trace() {
        let mut map = LruMap::default();
        let empty = map.bytes();
        for round in 0..10u64 {
            for key in 0..100_000 {
                let number = map.insert(round << 32 | key, [0u32; 3]);
                map.touch(number);
            }
            assert!(map.bytes() < 100_000 * 37, "{} bytes a key", map.bytes() / 100_000);
            while let Some(oldest) = map.oldest() {
                map.remove(oldest);
            }
        }
        assert!(map.bytes() <= empty + 2 * 1024 * 28 + 4096, "{} bytes left", map.bytes());
    }
}
