//! Finds the number of a node by its key.

/// A place without a node.
const EMPTY: u32 = u32::MAX;

/// Bits of a place that hold the node's number; those above hold a piece of the key's hash.
const NUMBER_BITS: u32 = 27;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

/// Fewest places.
const SMALLEST: usize = 64;

/// Returns the next larger size: by half.
fn larger(size: usize) -> usize {
    size + size / 2
}

/// Returns the size below `size`, one of those that [`larger`] leads through.
fn smaller(size: usize) -> usize {
    std::iter::successors(Some(SMALLEST), |at| Some(larger(*at)))
        .take_while(|at| *at < size)
        .last()
        .unwrap_or(SMALLEST)
}

/// Returns how many nodes a table of `size` places takes.
fn most(size: usize) -> usize {
    size / 5 * 4
}

/// A hash table from key to node number that holds neither: the keys lie in the nodes, and the caller hands a way
/// to read them to every call.
///
/// Four bytes a place, five to seven and a half a key: linear probing, at most four fifths full, growing by half and
/// shrinking the same way as soon as the smaller table does (but for a sixty-fourth, so that a table at an edge does
/// not change with every key). So its size is that of what it holds, whatever it held before. The common hash maps
/// take up to twice as much, because they double, and do not give it back.
#[derive(Debug)]
pub(super) struct KeyTable {
    places: Vec<u32>,
    len: usize,
    /// Below this many nodes the table gets smaller.
    fewest: usize,
}

impl Default for KeyTable {
    fn default() -> Self {
        KeyTable { places: vec![EMPTY; SMALLEST], len: 0, fewest: 0 }
    }
}

impl KeyTable {
    /// Most nodes that can have a number.
    pub(super) const MOST: usize = NUMBER as usize;

    /// Returns the number of the node with `key`.
    #[inline]
    pub(super) fn find(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        self.place_of(key, key_of).map(|place| self.places[place] & NUMBER)
    }

    /// Looks at where the search for each key starts, so that the searches that follow find it near: memory answers
    /// many such looks at a time, and searches one after the other.
    pub(super) fn warm(&self, keys: impl Iterator<Item = u64>) {
        let seen = keys.fold(0, |seen, key| seen ^ self.places[home(mix(key), self.places.len())]);
        std::hint::black_box(seen);
    }

    /// Adds the last node, whose key is not there yet. The nodes before it are numbered from 0, and there.
    pub(super) fn insert(&mut self, key: u64, number: u32, key_of: impl Fn(u32) -> u64) {
        debug_assert!(number < NUMBER, "callers keep to MOST");
        if self.len + 1 > most(self.places.len()) {
            self.resize(larger(self.places.len()), key_of);
        }
        self.put(key, number);
        self.len += 1;
    }

    /// Gives the node with `key` another number.
    pub(super) fn renumber(&mut self, key: u64, number: u32, key_of: impl Fn(u32) -> u64) {
        if let Some(place) = self.place_of(key, key_of) {
            self.places[place] = tag(mix(key)) | number;
        }
    }

    /// Takes out the node with `key`. To be called while its key can still be read.
    pub(super) fn remove(&mut self, key: u64, key_of: impl Fn(u32) -> u64) {
        let Some(mut hole) = self.place_of(key, &key_of) else { return };
        // Whoever probed past the hole moves up, so that every run stays whole.
        let size = self.places.len();
        let mut place = hole;
        loop {
            place = next(place, size);
            let entry = self.places[place];
            if entry == EMPTY {
                break;
            }
            let home = home(mix(key_of(entry & NUMBER)), size);
            let (from_home, from_hole) = ((place + size - home) % size, (place + size - hole) % size);
            if from_home >= from_hole {
                self.places[hole] = entry;
                hole = place;
            }
        }
        self.places[hole] = EMPTY;
        self.len -= 1;
    }

    /// Gives back what is not needed. To be called when all nodes, numbered from 0, are there and no others.
    pub(super) fn shrink(&mut self, key_of: impl Fn(u32) -> u64) {
        while self.len < self.fewest {
            self.resize(smaller(self.places.len()), &key_of);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.places.capacity() * size_of::<u32>()
    }

    #[inline]
    fn place_of(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<usize> {
        let hash = mix(key);
        let tag = tag(hash);
        let mut place = home(hash, self.places.len());
        loop {
            let entry = self.places[place];
            if entry == EMPTY {
                return None;
            }
            if entry & !NUMBER == tag && key_of(entry & NUMBER) == key {
                return Some(place);
            }
            place = next(place, self.places.len());
        }
    }

    fn put(&mut self, key: u64, number: u32) {
        let hash = mix(key);
        let mut place = home(hash, self.places.len());
        while self.places[place] != EMPTY {
            place = next(place, self.places.len());
        }
        self.places[place] = tag(hash) | number;
    }

    fn resize(&mut self, size: usize, key_of: impl Fn(u32) -> u64) {
        self.places = vec![EMPTY; size];
        let below = most(smaller(size));
        self.fewest = if size == SMALLEST { 0 } else { below - below / 64 };
        // In the order in which the nodes lie, not in that of the table: memory is read from one end to the other.
        for number in 0..self.len as u32 {
            self.put(key_of(number), number);
        }
    }
}

/// Spreads a key over 64 bits (the finisher of splitmix64): the hashes of engines are spread already, but nobody
/// promises it.
fn mix(key: u64) -> u64 {
    let key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    key ^ (key >> 31)
}

/// Returns the place at which the search for a hash starts: its high bits, scaled.
fn home(hash: u64, size: usize) -> usize {
    ((u128::from(hash) * size as u128) >> 64) as usize
}

fn tag(hash: u64) -> u32 {
    (hash as u32) << NUMBER_BITS
}

fn next(place: usize, size: usize) -> usize {
    if place + 1 == size { 0 } else { place + 1 }
}
