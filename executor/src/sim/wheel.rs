//! What is due later: a hierarchical timing wheel.

const NIL: u32 = u32::MAX;
const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
/// 11 digits of 6 bits: all 64 bits of time.
const LEVELS: usize = 64usize.div_ceil(BITS as usize);

/// A queue of values by time: 64-ary digits of the time, one level a digit, one list a digit's value.
///
/// An entry lies at the level of the highest digit in which its time differs from `elapsed`. Entries of one
/// time therefore share every list on their way down, and a cascade walks each list from its front, so
/// **entries of one time come out in the order of insertion**. Push and cancel are O(1); an entry moves at
/// most once a level. Lists are links in a slab: no allocation a timer once the slab has grown.
pub(super) struct Wheel<T> {
    /// No entry is earlier; never above a limit that was given to [`pop`](Self::pop).
    elapsed: u64,
    /// A bit a list that is not empty.
    occupied: [u64; LEVELS],
    /// A bit a level that is not empty.
    levels: u32,
    lists: [List; LEVELS * SLOTS],
    slab: Vec<Entry<T>>,
    free: u32,
    len: usize,
}

#[derive(Clone, Copy)]
struct List {
    first: u32,
    last: u32,
}

const EMPTY: List = List { first: NIL, last: NIL };

struct Entry<T> {
    at: u64,
    next: u32,
    previous: u32,
    list: u16,
    value: Option<T>,
}

/// Names an entry until it is popped or cancelled; then the number is used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u32);

impl<T> Wheel<T> {
    pub(super) fn new() -> Self {
        Wheel {
            elapsed: 0,
            occupied: [0; LEVELS],
            levels: 0,
            lists: [EMPTY; LEVELS * SLOTS],
            slab: Vec::new(),
            free: NIL,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Queues `value` for `at`.
    ///
    /// A time is reached by popping it, or by a limit below which nothing was left; what is queued for an
    /// earlier one is due at some time that has been reached.
    #[inline]
    pub(super) fn push(&mut self, at: u64, value: T) -> Key {
        let at = at.max(self.elapsed);
        let index = if self.free == NIL {
            let index = u32::try_from(self.slab.len()).expect("fewer than 2^32 timers are pending");
            self.slab.push(Entry { at, next: NIL, previous: NIL, list: 0, value: Some(value) });
            index
        } else {
            let index = self.free;
            let entry = &mut self.slab[index as usize];
            self.free = entry.next;
            entry.at = at;
            entry.value = Some(value);
            index
        };
        self.len += 1;
        self.place(index, at);
        Key(index)
    }

    /// Takes an entry out before its time.
    #[inline]
    pub(super) fn cancel(&mut self, key: Key) -> Option<T> {
        self.slab.get(key.0 as usize)?.value.as_ref()?;
        self.unlink(key.0);
        self.release(key.0)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slab.get_mut(key.0 as usize)?.value.as_mut()
    }

    /// Returns a time before which nothing is due; `None` when nothing is queued. Once it is reached, a
    /// [`pop`](Self::pop) takes an entry out or brings it nearer.
    pub(super) fn next(&self) -> Option<u64> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros();
        let digit = self.occupied[level as usize].trailing_zeros();
        let List { first, last } = self.lists[level as usize * SLOTS + digit as usize];
        let exact = level == 0 || first == last;
        Some(if exact { self.slab[first as usize].at } else { self.start_of(level, digit) })
    }

    /// Takes the earliest entry out, the first inserted of several, unless it is later than `limit`.
    #[inline]
    pub(super) fn pop(&mut self, limit: u64) -> Option<(u64, T)> {
        while self.levels != 0 {
            let level = self.levels.trailing_zeros();
            let digit = self.occupied[level as usize].trailing_zeros();
            let list = level as usize * SLOTS + digit as usize;
            let List { first, last } = self.lists[list];
            // The lowest digit of the lowest level holds the earliest. At level 0 a list is one time; a
            // lone entry is the earliest wherever it lies, for all levels below are empty.
            if level == 0 || first == last {
                let at = self.slab[first as usize].at;
                if at > limit {
                    return None;
                }
                self.unlink(first);
                self.elapsed = at;
                return self.release(first).map(|value| (at, value));
            }
            let start = self.start_of(level, digit);
            if start > limit {
                return None;
            }
            self.elapsed = start;
            self.cascade(list, first);
        }
        None
    }

    /// The entries with their times, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.slab.iter().filter_map(|entry| Some((entry.at, entry.value.as_ref()?)))
    }

    /// The earliest time that a list of `level` can hold.
    fn start_of(&self, level: u32, digit: u32) -> u64 {
        let above = (level + 1) * BITS;
        let keep = u64::MAX.checked_shl(above).unwrap_or(0);
        (self.elapsed & keep) | u64::from(digit) << (level * BITS)
    }

    /// Moves the entries of a list to the levels below.
    fn cascade(&mut self, list: usize, first: u32) {
        self.lists[list] = EMPTY;
        self.clear_bit(list);
        let mut index = first;
        while index != NIL {
            let Entry { at, next, .. } = self.slab[index as usize];
            self.place(index, at);
            index = next;
        }
    }

    #[inline]
    fn place(&mut self, index: u32, at: u64) {
        let level = (u64::BITS - 1).saturating_sub((at ^ self.elapsed).leading_zeros()) / BITS;
        let digit = (at >> (level * BITS)) as usize % SLOTS;
        let list = level as usize * SLOTS + digit;
        let last = self.lists[list].last;
        let entry = &mut self.slab[index as usize];
        entry.list = list as u16;
        entry.previous = last;
        entry.next = NIL;
        self.lists[list].last = index;
        if last == NIL {
            self.lists[list].first = index;
            self.occupied[level as usize] |= 1 << digit;
            self.levels |= 1 << level;
        } else {
            self.slab[last as usize].next = index;
        }
    }

    #[inline]
    fn unlink(&mut self, index: u32) {
        let Entry { next, previous, list, .. } = self.slab[index as usize];
        let list = list as usize;
        if previous == NIL {
            self.lists[list].first = next;
        } else {
            self.slab[previous as usize].next = next;
        }
        if next == NIL {
            self.lists[list].last = previous;
        } else {
            self.slab[next as usize].previous = previous;
        }
        if self.lists[list].first == NIL {
            self.clear_bit(list);
        }
    }

    #[inline]
    fn clear_bit(&mut self, list: usize) {
        let level = list / SLOTS;
        self.occupied[level] &= !(1 << (list % SLOTS));
        if self.occupied[level] == 0 {
            self.levels &= !(1 << level);
        }
    }

    #[inline]
    fn release(&mut self, index: u32) -> Option<T> {
        let entry = &mut self.slab[index as usize];
        entry.next = self.free;
        self.free = index;
        self.len -= 1;
        entry.value.take()
    }
}

#[cfg(test)]
mod tests;
