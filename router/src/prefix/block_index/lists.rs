//! Lists that are too long to lie in a node.

use super::segments::Segments;

/// Lists, each owned by the node of one key. Nodes hold the number of their list; they lie densely.
#[derive(Debug)]
pub(super) struct Lists<T> {
    lists: Segments<List<T>>,
    /// Bytes that the lists own.
    owned: usize,
}

#[derive(Debug)]
struct List<T> {
    owner: [u32; 2],
    items: Vec<T>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Lists { lists: Segments::default(), owned: 0 }
    }
}

impl<T> Lists<T> {
    #[inline]
    pub(super) fn get(&self, number: u32) -> &[T] {
        &self.lists.get(number).items
    }

    /// Lets `change` alter a list.
    pub(super) fn update<R>(&mut self, number: u32, change: impl FnOnce(&mut Vec<T>) -> R) -> R {
        let items = &mut self.lists.get_mut(number).items;
        let before = items.capacity();
        let result = change(items);
        if items.capacity() > 8 && items.len() * 4 < items.capacity() {
            items.shrink_to(items.len() * 2);
        }
        let after = items.capacity();
        self.owned = self.owned + after * size_of::<T>() - before * size_of::<T>();
        result
    }

    /// Adds a list of the node with the key `owner`.
    pub(super) fn add(&mut self, owner: u64, items: Vec<T>) -> u32 {
        self.owned += items.capacity() * size_of::<T>();
        self.lists.push(List { owner: [owner as u32, (owner >> 32) as u32], items })
    }

    /// Takes a list out. `Some(key)`: the list of that node has its number now.
    pub(super) fn remove(&mut self, number: u32) -> (Vec<T>, Option<u64>) {
        let items = self.lists.swap_remove(number).items;
        self.owned -= items.capacity() * size_of::<T>();
        let moved = ((number as usize) < self.lists.len()).then(|| {
            let [low, high] = self.lists.get(number).owner;
            u64::from(low) | u64::from(high) << 32
        });
        (items, moved)
    }

    pub(super) fn bytes(&self) -> usize {
        self.lists.bytes() + self.owned
    }
}
