use rustc_hash::FxHashMap;

/// No node.
const NONE: u32 = u32::MAX;

/// The hashes that an endpoint was last sent, bounded; the least recent one falls out.
#[derive(Debug)]
pub(super) struct Lru {
    capacity: usize,
    nodes: Vec<Node>,
    places: FxHashMap<u64, u32>,
    newest: u32,
    oldest: u32,
}

#[derive(Debug)]
struct Node {
    hash: u64,
    newer: u32,
    older: u32,
}

/// What a push did.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pushed {
    /// The hash was not there before.
    pub(super) is_new: bool,
    /// The hash that fell out.
    pub(super) evicted: Option<u64>,
}

impl Lru {
    /// Returns an empty list for `capacity` hashes, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        Lru {
            capacity: capacity.clamp(1, NONE as usize),
            nodes: Vec::new(),
            places: FxHashMap::default(),
            newest: NONE,
            oldest: NONE,
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn contains(&self, hash: u64) -> bool {
        self.places.contains_key(&hash)
    }

    /// Makes `hash` the most recent one.
    pub(super) fn push(&mut self, hash: u64) -> Pushed {
        if let Some(&place) = self.places.get(&hash) {
            if place != self.newest {
                self.unlink(place);
                self.link_newest(place);
            }
            return Pushed { is_new: false, evicted: None };
        }
        let (place, evicted) = if self.nodes.len() < self.capacity {
            self.nodes.push(Node { hash, newer: NONE, older: NONE });
            ((self.nodes.len() - 1) as u32, None)
        } else {
            let place = self.oldest;
            self.unlink(place);
            let evicted = std::mem::replace(&mut self.nodes[place as usize].hash, hash);
            self.places.remove(&evicted);
            (place, Some(evicted))
        };
        self.link_newest(place);
        self.places.insert(hash, place);
        Pushed { is_new: true, evicted }
    }

    /// Iterates over the hashes, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.nodes.iter().map(|node| node.hash)
    }

    fn unlink(&mut self, place: u32) {
        let Node { newer, older, .. } = self.nodes[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, place: u32) {
        let older = std::mem::replace(&mut self.newest, place);
        let node = &mut self.nodes[place as usize];
        (node.newer, node.older) = (NONE, older);
        match older {
            NONE => self.oldest = place,
            older => self.nodes[older as usize].newer = place,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_list_that_is_searched(
            capacity in 1usize..6,
            pushes in proptest::collection::vec(0u64..10, 0..100),
        ) {
            let mut lru = Lru::new(capacity);
            let mut model: Vec<u64> = Vec::new();
            for hash in pushes {
                let is_new = !model.contains(&hash);
                model.retain(|h| *h != hash);
                let evicted = (model.len() == capacity).then(|| model.remove(0));
                model.push(hash);
                prop_assert_eq!(lru.push(hash), Pushed { is_new, evicted });
                let mut held: Vec<u64> = lru.iter().collect();
                held.sort_unstable();
                let mut expected = model.clone();
                expected.sort_unstable();
                prop_assert_eq!(held, expected);
                prop_assert_eq!(lru.len(), model.len());
            }
        }
    }
}
