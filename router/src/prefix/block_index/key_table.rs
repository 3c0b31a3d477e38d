//! Finds the number of a node by its key.

/// A place without a node.
const EMPTY: u32 = u32::MAX;

/// Bits of a place that hold the node's number; those above hold a piece of the key's hash.
const NUMBER_BITS: u32 = 27;
const NUMBER: u32 = (1 << NUMBER_BITS) - 1;

/// Fewest places.
const SMALLEST: usize = 64;

/// A hash table from key to node number that holds neither: the keys lie in the nodes, and the caller hands a way
/// to read them to every call.
///
/// Four bytes a place, five to seven and a half a key: linear probing, at most four fifths full, growing by half.
/// The common hash maps take up to twice as much, because they double.
#[derive(Debug)]
pub(super) struct KeyTable {
    places: Vec<u32>,
    len: usize,
}

impl Default for KeyTable {
    fn default() -> Self {
        KeyTable { places: vec![EMPTY; SMALLEST], len: 0 }
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

    /// Adds a node whose key is not there yet.
    pub(super) fn insert(&mut self, key: u64, number: u32, key_of: impl Fn(u32) -> u64) {
        debug_assert!(number < NUMBER, "callers keep to MOST");
        if (self.len + 1) * 5 > self.places.len() * 4 {
            self.resize(self.places.len() + self.places.len() / 2, key_of);
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
        if size > SMALLEST && self.len * 3 < size {
            self.resize((self.len * 2).max(SMALLEST), key_of);
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
        let old = std::mem::replace(&mut self.places, vec![EMPTY; size]);
        for entry in old.into_iter().filter(|entry| *entry != EMPTY) {
            self.put(key_of(entry & NUMBER), entry & NUMBER);
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
