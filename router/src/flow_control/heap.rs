//! A binary heap whose entries can be removed wherever they are.

use std::fmt;

/// A binary min-heap with a handle for every entry.
///
/// Entries of equal keys leave in the order in which the llm-d Router's heap lets them go, which is not that of their
/// arrival (flow-control spec 8): the sifting is therefore part of the contract.
#[derive(Clone)]
pub struct Heap<K, T> {
    nodes: Vec<Node<K>>,
    slots: Vec<Slot<T>>,
    /// First unused slot; unused slots are a list.
    free: u32,
}

#[derive(Clone)]
struct Node<K> {
    key: K,
    slot: u32,
}

#[derive(Clone)]
struct Slot<T> {
    generation: u32,
    /// Position among the nodes; of an unused slot the next unused one.
    position: u32,
    value: Option<T>,
}

/// Where an entry of a [`Heap`] is; it stays the same while the entry moves, and is never given out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    slot: u32,
    generation: u32,
}

const NONE: u32 = u32::MAX;

impl<K, T> Default for Heap<K, T> {
    fn default() -> Self {
        Heap { nodes: Vec::new(), slots: Vec::new(), free: NONE }
    }
}

impl<K: Ord, T> Heap<K, T> {
    /// Returns how many entries there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds an entry.
    ///
    /// # Panics
    /// With more than 2^32 - 1 entries.
    pub fn push(&mut self, key: K, value: T) -> Place {
        let position = u32::try_from(self.nodes.len()).expect("a heap has fewer than 2^32 entries");
        let slot = self.free;
        let place = if let Some(unused) = self.slots.get_mut(slot as usize) {
            self.free = unused.position;
            unused.position = position;
            unused.value = Some(value);
            Place { slot, generation: unused.generation }
        } else {
            let slot = u32::try_from(self.slots.len()).expect("a heap has fewer than 2^32 entries");
            self.slots.push(Slot { generation: 0, position, value: Some(value) });
            Place { slot, generation: 0 }
        };
        self.nodes.push(Node { key, slot: place.slot });
        self.sift_up(position as usize);
        place
    }

    /// Returns the smallest entry.
    pub fn peek(&self) -> Option<(&K, &T, Place)> {
        let node = self.nodes.first()?;
        let slot = &self.slots[node.slot as usize];
        Some((&node.key, slot.value.as_ref()?, Place { slot: node.slot, generation: slot.generation }))
    }

    /// Takes the smallest entry out.
    pub fn pop(&mut self) -> Option<(K, T)> {
        if self.nodes.is_empty() { None } else { Some(self.take_at(0)) }
    }

    /// Returns whether an entry is there.
    pub fn holds(&self, place: Place) -> bool {
        let slot = self.slots.get(place.slot as usize);
        slot.is_some_and(|slot| slot.generation == place.generation && slot.value.is_some())
    }

    /// Returns how many entries have smaller keys than one; zero where it is there no more. Costs a look at all.
    pub fn before(&self, place: Place) -> usize {
        if !self.holds(place) {
            return 0;
        }
        let key = &self.nodes[self.slots[place.slot as usize].position as usize].key;
        self.nodes.iter().filter(|node| node.key < *key).count()
    }

    /// Takes an entry out; `None` where it is there no more.
    pub fn remove(&mut self, place: Place) -> Option<(K, T)> {
        if !self.holds(place) {
            return None;
        }
        Some(self.take_at(self.slots[place.slot as usize].position as usize))
    }

    /// Iterates over the entries in the order of the heap's array.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &T)> {
        let value = |node: &Node<K>| self.slots[node.slot as usize].value.as_ref();
        self.nodes.iter().filter_map(move |node| Some((&node.key, value(node)?)))
    }

    /// Takes out what `gone` picks, and returns it in the order of the heap's array.
    pub fn extract(&mut self, mut gone: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        let nodes = std::mem::take(&mut self.nodes);
        for node in nodes {
            let slot = &mut self.slots[node.slot as usize];
            if slot.value.as_ref().is_some_and(&mut gone) {
                taken.extend(self.vacate(node.slot));
            } else {
                slot.position = self.nodes.len() as u32;
                self.nodes.push(node);
            }
        }
        if !taken.is_empty() {
            for position in (0..self.nodes.len() / 2).rev() {
                self.sift_down(position, self.nodes.len());
            }
        }
        taken
    }

    fn take_at(&mut self, position: usize) -> (K, T) {
        let last = self.nodes.len() - 1;
        if position != last {
            self.swap(position, last);
            if !self.sift_down(position, last) {
                self.sift_up(position);
            }
        }
        let node = self.nodes.pop().expect("the heap holds the entry that is taken");
        (node.key, self.vacate(node.slot).expect("a node's slot is in use"))
    }

    /// Frees a slot.
    fn vacate(&mut self, index: u32) -> Option<T> {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.position = self.free;
        self.free = index;
        slot.value.take()
    }

    fn sift_up(&mut self, mut child: usize) {
        while child > 0 {
            let parent = (child - 1) / 2;
            if self.nodes[child].key >= self.nodes[parent].key {
                break;
            }
            self.swap(child, parent);
            child = parent;
        }
    }

    /// Returns whether the entry moved.
    fn sift_down(&mut self, start: usize, end: usize) -> bool {
        let mut parent = start;
        loop {
            let mut child = 2 * parent + 1;
            if child >= end {
                break;
            }
            if child + 1 < end && self.nodes[child + 1].key < self.nodes[child].key {
                child += 1;
            }
            if self.nodes[child].key >= self.nodes[parent].key {
                break;
            }
            self.swap(parent, child);
            parent = child;
        }
        parent > start
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.nodes.swap(a, b);
        self.slots[self.nodes[a].slot as usize].position = a as u32;
        self.slots[self.nodes[b].slot as usize].position = b as u32;
    }
}

impl<K: fmt::Debug, T> fmt::Debug for Heap<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.nodes.iter().map(|node| &node.key)).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_keys_leave_in_the_order_of_the_binary_heap() {
        let mut heap = Heap::default();
        for name in ["a", "b", "c", "d"] {
            heap.push(0, name);
        }
        let order: Vec<&str> = std::iter::from_fn(|| heap.pop().map(|(_, name)| name)).collect();
        assert_eq!(order, ["a", "d", "c", "b"]);
    }

    #[test]
    fn a_place_is_good_for_one_entry_only() {
        let mut heap = Heap::default();
        let first = heap.push(1, "first");
        assert_eq!(heap.remove(first), Some((1, "first")));
        let second = heap.push(1, "second");
        assert_eq!(heap.remove(first), None, "the slot is in use again, by another entry");
        assert_eq!(heap.remove(second), Some((1, "second")));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u8),
        Pop,
        Remove(usize),
        Extract(u8),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => any::<u8>().prop_map(Step::Push),
            1 => Just(Step::Pop),
            2 => any::<usize>().prop_map(Step::Remove),
            1 => (1u8..5).prop_map(Step::Extract),
        ]
    }

    proptest! {
        #[test]
        fn every_entry_leaves_once_and_the_head_is_the_smallest(steps in prop::collection::vec(step(), 0..80)) {
            let mut heap = Heap::default();
            // The number of an entry is its value; this is what the heap must hold.
            let mut held: Vec<(u8, usize, Place)> = Vec::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Push(key) => held.push((key, number, heap.push(key, number))),
                    Step::Pop => {
                        let popped = heap.pop();
                        prop_assert_eq!(popped.map(|(key, _)| key), held.iter().map(|(key, ..)| *key).min());
                        held.retain(|(_, value, _)| popped.is_none_or(|(_, gone)| gone != *value));
                    }
                    Step::Remove(at) if !held.is_empty() => {
                        let (key, value, place) = held.swap_remove(at % held.len());
                        prop_assert_eq!(heap.remove(place), Some((key, value)));
                        prop_assert_eq!(heap.remove(place), None);
                    }
                    Step::Remove(_) => {}
                    Step::Extract(modulus) => {
                        let gone = |value: &usize| value.is_multiple_of(usize::from(modulus));
                        let mut taken = heap.extract(gone);
                        taken.sort_unstable();
                        let mut expected: Vec<usize> =
                            held.iter().map(|(_, value, _)| *value).filter(gone).collect();
                        expected.sort_unstable();
                        prop_assert_eq!(taken, expected);
                        held.retain(|(_, value, _)| !gone(value));
                    }
                }
                prop_assert_eq!(heap.len(), held.len());
                prop_assert_eq!(heap.peek().map(|(key, ..)| *key), held.iter().map(|(key, ..)| *key).min());
                let nodes = &heap.nodes;
                prop_assert!((1..nodes.len()).all(|i| nodes[(i - 1) / 2].key <= nodes[i].key));
            }
        }
    }
}
