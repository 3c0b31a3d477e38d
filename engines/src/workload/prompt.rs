use std::sync::Arc;

/// Token ids of prompts lie below this number: the vocabulary of every bundled model holds them.
pub const TOKEN_IDS: u32 = 32_000;

/// A run of tokens that is the same wherever its id occurs.
///
/// Of two segments with one id, the shorter is a prefix of the longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Segment {
    /// What the tokens are a function of.
    pub id: u64,
    /// How many tokens there are.
    pub tokens: u32,
}

impl Segment {
    /// Returns the segment's token ids.
    pub fn token_ids(self) -> impl ExactSizeIterator<Item = u32> + Clone {
        let start = mix(self.id ^ 0x5bf0_3635_dcd6_2e54);
        (0..self.tokens).map(move |offset| {
            let bits = mix(start.wrapping_add(u64::from(offset).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            (((bits >> 32) * u64::from(TOKEN_IDS)) >> 32) as u32
        })
    }
}

impl Segment {
    /// Returns a number for this segment behind the prefix that `prefix` stands for: another segment, or another
    /// prefix, has another number but for one chance in 2^64.
    pub(super) fn chained(self, prefix: u64) -> u64 {
        let Segment { id, tokens } = self;
        let own = mix(id ^ 0x2545_f491_4f6c_dd1d).wrapping_add(u64::from(tokens));
        mix(mix(prefix.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ mix(own))
    }
}

/// The finalizer of SplitMix64: every bit of the input reaches every bit of the output.
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// A prompt as a chain of segments: two prompts share as many tokens as their chains agree on.
///
/// Cheap to clone. The tokens themselves are a function of the segments, made when somebody asks for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    segments: Arc<[Segment]>,
    tokens: u32,
}

impl Prompt {
    /// Chains `segments`.
    ///
    /// Behind 2^32 - 1 tokens the prompt is cut.
    pub fn new(segments: impl Into<Arc<[Segment]>>) -> Self {
        let segments = segments.into();
        let tokens = segments.iter().fold(0u32, |sum, segment| sum.saturating_add(segment.tokens));
        Prompt { segments, tokens }
    }

    /// Returns the segments in order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the number of tokens.
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Returns the token ids in order, each below [`TOKEN_IDS`].
    pub fn token_ids(&self) -> impl Iterator<Item = u32> {
        self.segments.iter().flat_map(|segment| segment.token_ids()).take(self.tokens as usize)
    }

    /// Returns the token ids in one piece, as an engine takes them.
    pub fn to_token_ids(&self) -> Arc<[u32]> {
        let mut ids = Vec::with_capacity(self.tokens as usize);
        for segment in self.segments.iter() {
            let room = self.tokens as usize - ids.len();
            ids.extend(segment.token_ids().take(room));
        }
        ids.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(segments: &[(u64, u32)]) -> Vec<u32> {
        let segments: Vec<Segment> = segments.iter().map(|&(id, tokens)| Segment { id, tokens }).collect();
        let prompt = Prompt::new(segments);
        let ids: Vec<u32> = prompt.token_ids().collect();
        assert_eq!(ids.len(), prompt.tokens() as usize);
        assert_eq!(*prompt.to_token_ids(), *ids);
        ids
    }

    #[test]
    fn equal_ids_are_equal_prefixes_and_other_ids_are_not() {
        assert_eq!(ids(&[(7, 100)])[..40], ids(&[(7, 40)]));
        assert_eq!(ids(&[(7, 8), (9, 8)])[8..], ids(&[(9, 8)]));
        let blocks: std::collections::BTreeSet<Vec<u32>> = (0..10_000).map(|id| ids(&[(id, 16)])).collect();
        assert_eq!(blocks.len(), 10_000, "no two segments start with one block");
    }

    #[test]
    fn token_ids_spread_over_their_range() {
        let ids = ids(&[(0, 100_000)]);
        assert!(ids.iter().all(|id| *id < TOKEN_IDS));
        let mean = ids.iter().map(|id| f64::from(*id)).sum::<f64>() / 1e5;
        assert!((mean - 16_000.0).abs() < 100.0, "{mean}");
    }
}
