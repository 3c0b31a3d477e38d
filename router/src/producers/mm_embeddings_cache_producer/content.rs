use std::collections::BTreeMap;
use std::rc::Rc;

use rustc_hash::FxHashMap;

/// The items that an endpoint was last sent, bounded; the least recent one falls out.
#[derive(Debug)]
pub(super) struct Content {
    capacity: usize,
    /// When each item was last pushed, in pushes.
    pushed: FxHashMap<Rc<str>, u64>,
    by_push: BTreeMap<u64, Rc<str>>,
    pushes: u64,
}

impl Content {
    /// Returns an empty cache for `capacity` items, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        Content { capacity, pushed: FxHashMap::default(), by_push: BTreeMap::new(), pushes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.pushed.len()
    }

    pub(super) fn contains(&self, hash: &str) -> bool {
        self.pushed.contains_key(hash)
    }

    /// Makes `hash` the most recent item.
    pub(super) fn push(&mut self, hash: &str) {
        self.pushes += 1;
        let hash: Rc<str> = match self.pushed.get_mut(hash) {
            Some(last) => {
                let hash = self.by_push.remove(last).expect("each item stands in both maps");
                *last = self.pushes;
                hash
            }
            None => {
                if self.pushed.len() == self.capacity
                    && let Some((_, oldest)) = self.by_push.pop_first()
                {
                    self.pushed.remove(&oldest);
                }
                let hash: Rc<str> = hash.into();
                self.pushed.insert(Rc::clone(&hash), self.pushes);
                hash
            }
        };
        self.by_push.insert(self.pushes, hash);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_list_that_is_searched(
            capacity in 0usize..6,
            pushes in proptest::collection::vec(0u8..10, 0..100),
        ) {
            let mut content = Content::new(capacity);
            let mut model: Vec<String> = Vec::new();
            for hash in pushes {
                let hash = hash.to_string();
                model.retain(|h| *h != hash);
                if model.len() == capacity.max(1) {
                    model.remove(0);
                }
                content.push(&hash);
                model.push(hash);
                for hash in 0..10u8 {
                    let hash = hash.to_string();
                    prop_assert_eq!(content.contains(&hash), model.contains(&hash));
                }
            }
        }
    }
}
