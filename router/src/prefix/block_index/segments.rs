//! A vector in pieces: it grows without copying, and what it does not need it gives back.

/// Elements a piece.
const PIECE: usize = 1024;

/// A growable list whose room follows its length to within two pieces.
#[derive(Debug)]
pub(super) struct Segments<T> {
    pieces: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Segments<T> {
    fn default() -> Self {
        Segments { pieces: Vec::new(), len: 0 }
    }
}

impl<T> Segments<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, index: u32) -> &T {
        &self.pieces[index as usize / PIECE][index as usize % PIECE]
    }

    pub(super) fn get_mut(&mut self, index: u32) -> &mut T {
        &mut self.pieces[index as usize / PIECE][index as usize % PIECE]
    }

    pub(super) fn push(&mut self, value: T) -> u32 {
        let index = self.len;
        if index / PIECE == self.pieces.len() {
            self.pieces.push(Vec::with_capacity(PIECE));
        }
        self.pieces[index / PIECE].push(value);
        self.len += 1;
        index as u32
    }

    /// Takes out the element at `index`; the last one moves to its place.
    pub(super) fn swap_remove(&mut self, index: u32) -> T {
        self.len -= 1;
        let last = self.pieces[self.len / PIECE].pop().expect("the last piece in use has an element");
        // One empty piece stays, so that a list at an edge does not allocate with every change.
        if self.pieces.len() > self.len.div_ceil(PIECE) + 1 {
            self.pieces.pop();
        }
        if index as usize == self.len { last } else { std::mem::replace(self.get_mut(index), last) }
    }

    /// Returns the bytes of all pieces, without what the elements own.
    pub(super) fn bytes(&self) -> usize {
        self.pieces.len() * PIECE * size_of::<T>() + self.pieces.capacity() * size_of::<Vec<T>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_follows_length() {
        let mut list = Segments::default();
        for n in 0..10 * PIECE as u32 {
            assert_eq!(list.push(n), n);
        }
        let full = list.bytes();
        assert!(full >= 4 * 10 * PIECE);
        assert_eq!((list.swap_remove(3), *list.get(3)), (3, 10 * PIECE as u32 - 1));
        while list.len() > 0 {
            list.swap_remove(list.len() as u32 - 1);
        }
        assert!(list.bytes() < full / 4);
    }
}
