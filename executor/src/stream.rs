//! Random numbers: named, forkable, value-stable.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of random numbers that belongs to one consumer.
///
/// Generator: xoshiro256++, its state expanded by SplitMix64 from `seed ^ fnv1a64(name)`. The draw functions
/// are defined here and do not change between releases: the n-th draw of a stream is a function of
/// (seed, name, the draws before it) alone, so one consumer cannot shift the numbers of another.
#[derive(Clone, Debug)]
pub struct Stream {
    seed: u64,
    rng: Xoshiro256PlusPlus,
}

impl Stream {
    /// Returns the stream `name` of the run with `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        Self::from_state_seed(seed ^ fnv1a64(name.as_bytes()))
    }

    fn from_state_seed(seed: u64) -> Self {
        Stream { seed, rng: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// Returns a child stream for `key`: one an endpoint, one a request.
    ///
    /// Depends on this stream's identity and `key`, not on how many numbers were drawn from it.
    pub fn fork(&self, key: u64) -> Self {
        Self::from_state_seed(self.seed ^ fnv1a64(&key.to_le_bytes()))
    }

    /// Draws 64 uniform bits.
    pub fn u64(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Draws a uniform integer in `0..n`: the high half of a 128-bit product, without rejection.
    ///
    /// # Panics
    /// When `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "Stream::below(0): there is no integer below zero");
        ((u128::from(self.u64()) * u128::from(n)) >> 64) as u64
    }

    /// Draws a uniform double in `[0, 1)`: the top 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Draws from the exponential distribution with the given mean.
    pub fn exp(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.unit())
    }

    /// Draws from the normal distribution: Box-Muller, one value of the pair, so that every draw costs two
    /// numbers of the stream.
    pub fn normal(&mut self, mean: f64, std_dev: f64) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log1p(-self.unit()));
        mean + std_dev * radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Draws one element, `None` from an empty slice.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        (!items.is_empty()).then(|| &items[self.below(items.len() as u64) as usize])
    }

    /// Shuffles in place (Fisher-Yates from the end); `items.len() - 1` draws.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}

/// FNV-1a, 64 bits: the fixed hash that turns names and keys into seeds.
pub(crate) const fn fnv1a64(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv1a64_equals_its_published_vectors() {
        assert_eq!(fnv1a64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a64(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a64(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn streams_of_other_names_are_independent_of_each_other() {
        let mut a = Stream::new(7, "a");
        let first: Vec<u64> = (0..4).map(|_| a.u64()).collect();
        let mut b = Stream::new(7, "b");
        b.u64();
        let mut again = Stream::new(7, "a");
        assert_eq!(first, (0..4).map(|_| again.u64()).collect::<Vec<_>>());
        assert_ne!(first[0], Stream::new(7, "b").u64());
    }

    #[test]
    fn a_fork_does_not_depend_on_draws() {
        let mut parent = Stream::new(1, "p");
        let before = parent.fork(3).u64();
        parent.u64();
        assert_eq!(before, parent.fork(3).u64());
        assert_ne!(before, parent.fork(4).u64());
    }

    #[test]
    fn means_are_where_they_belong() {
        let mut s = Stream::new(1, "means");
        let n = 100_000;
        let exp: f64 = (0..n).map(|_| s.exp(3.0)).sum::<f64>() / n as f64;
        let normal: f64 = (0..n).map(|_| s.normal(5.0, 2.0)).sum::<f64>() / n as f64;
        assert!((exp - 3.0).abs() < 0.05, "{exp}");
        assert!((normal - 5.0).abs() < 0.05, "{normal}");
    }
}
