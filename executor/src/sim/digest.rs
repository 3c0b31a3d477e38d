/// A running hash over what a run did: two runs are the same if and (but for chance) only if it is.
#[derive(Clone, Copy)]
pub(super) struct Digest(u64);

impl Digest {
    pub(super) fn new(seed: u64) -> Self {
        Digest(seed ^ 0x6c6f_636b_7374_6570)
    }

    /// Takes in one event: when it ran and what it was.
    #[inline]
    pub(super) fn event(&mut self, now: u64, what: u64) {
        let mixed =
            (self.0 ^ now ^ what.wrapping_mul(0xd6e8_feb8_6659_fd93)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 29;
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }
}
