//! Values of random streams that must never change: recorded runs depend on them.
//!
//! The expected values come from the published definitions alone: state = SplitMix64 from seed ^ FNV-1a(name),
//! generator = xoshiro256++, both written out again here.

use executor::Stream;

struct Reference([u64; 4]);

impl Reference {
    fn new(mut seed: u64) -> Self {
        Reference(std::array::from_fn(|_| {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[test]
fn a_stream_is_xoshiro_from_seed_and_name() {
    for (seed, name) in [(0, ""), (7, "random-picker"), (u64::MAX, "arrivals")] {
        let mut stream = Stream::new(seed, name);
        let mut reference = Reference::new(seed ^ fnv1a(name.as_bytes()));
        for _ in 0..100 {
            assert_eq!(stream.u64(), reference.next());
        }
    }
}

#[test]
fn a_fork_is_a_stream_from_the_parents_seed_and_the_key() {
    let parent = 7 ^ fnv1a(b"p");
    let mut fork = Stream::new(7, "p").fork(3);
    let mut reference = Reference::new(parent ^ fnv1a(&3u64.to_le_bytes()));
    assert_eq!(fork.u64(), reference.next());
}

#[test]
fn draws_use_the_stream_as_defined() {
    let mut reference = Reference::new(1 ^ fnv1a(b"draws"));
    let mut stream = Stream::new(1, "draws");
    let word = reference.next();
    assert_eq!(stream.below(1000), ((u128::from(word) * 1000) >> 64) as u64);
    let word = reference.next();
    assert_eq!(stream.unit(), (word >> 11) as f64 / (1u64 << 53) as f64);
    let word = reference.next();
    let unit = (word >> 11) as f64 / (1u64 << 53) as f64;
    assert!((stream.exp(2.0) - -2.0 * libm::log(1.0 - unit)).abs() < 1e-12);
}
