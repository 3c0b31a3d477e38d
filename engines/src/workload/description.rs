//! What a workload is made of, in numbers.

use std::time::Duration;

use rustc_hash::FxHashSet;

use super::{Request, Segment};
use crate::report::{Distribution, Percentiles};

/// Prefixes remembered: of a workload with more, what it shares is told as a least.
const MOST_PREFIXES: usize = 1 << 23;

/// The numbers of a workload, in memory that is bounded.
#[derive(Debug)]
pub struct Description {
    requests: u64,
    last: Duration,
    prompts: Distribution,
    outputs: Distribution,
    gaps: Distribution,
    prompt_tokens: u64,
    output_tokens: u64,
    shared_tokens: u64,
    /// Every prefix seen that ends with a segment, by its hash. Look-ups only.
    prefixes: FxHashSet<u64>,
    forgotten: bool,
}

/// A workload in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Described {
    /// How many requests there are.
    pub requests: u64,
    /// When the last one arrives.
    pub span: Duration,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Tokens of all outputs.
    pub output_tokens: u64,
    /// Prompt tokens that an earlier prompt began with, too.
    pub shared_tokens: u64,
    /// There were more prefixes than are remembered: more tokens may be shared.
    pub at_least: bool,
    /// Tokens of a prompt.
    pub prompts: Option<Percentiles>,
    /// Tokens of an output.
    pub outputs: Option<Percentiles>,
    /// Nanoseconds between two arrivals.
    pub gaps: Option<Percentiles>,
}

impl Default for Description {
    fn default() -> Self {
        Description {
            requests: 0,
            last: Duration::ZERO,
            prompts: Distribution::new(1),
            outputs: Distribution::new(1),
            gaps: Distribution::new(1000),
            prompt_tokens: 0,
            output_tokens: 0,
            shared_tokens: 0,
            prefixes: FxHashSet::default(),
            forgotten: false,
        }
    }
}

impl Description {
    /// Counts a request; they come in the order of their arrival.
    pub fn add(&mut self, request: &Request) {
        if self.requests > 0 {
            let gap = request.arrival.saturating_sub(self.last);
            self.gaps.add(u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX), 1);
        }
        self.requests += 1;
        self.last = request.arrival;
        let tokens = u64::from(request.prompt.tokens());
        self.prompts.add(tokens, 1);
        self.outputs.add(u64::from(request.output_tokens), 1);
        self.prompt_tokens += tokens;
        self.output_tokens += u64::from(request.output_tokens);
        self.shared_tokens += self.share(request.prompt.segments());
    }

    /// Remembers the prefixes of a prompt; returns the tokens of the longest that was known.
    fn share(&mut self, segments: &[Segment]) -> u64 {
        let (mut prefix, mut shared, mut known) = (0, 0, true);
        for segment in segments {
            prefix = segment.chained(prefix);
            known = known && self.prefixes.contains(&prefix);
            if known {
                shared += u64::from(segment.tokens);
            } else if self.prefixes.len() < MOST_PREFIXES {
                self.prefixes.insert(prefix);
            } else {
                self.forgotten = true;
            }
        }
        shared
    }

    /// Returns the numbers.
    pub fn finish(self) -> Described {
        Described {
            requests: self.requests,
            span: self.last,
            prompt_tokens: self.prompt_tokens,
            output_tokens: self.output_tokens,
            shared_tokens: self.shared_tokens,
            at_least: self.forgotten,
            prompts: self.prompts.percentiles(),
            outputs: self.outputs.percentiles(),
            gaps: self.gaps.percentiles(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Prompt;

    fn request(index: u64, seconds: u64, segments: &[(u64, u32)], output_tokens: u32) -> Request {
        let segments: Vec<Segment> = segments.iter().map(|&(id, tokens)| Segment { id, tokens }).collect();
        Request {
            index,
            arrival: Duration::from_secs(seconds),
            prompt: Prompt::new(segments),
            output_tokens,
            tenant: None,
        }
    }

    #[test]
    fn a_prompt_shares_what_an_earlier_one_begins_with() {
        let mut all = Description::default();
        for request in [
            request(0, 0, &[(1, 100), (2, 50)], 10),
            // The first segment.
            request(1, 1, &[(1, 100), (3, 50)], 20),
            // Both; a known segment behind another prefix is not shared.
            request(2, 3, &[(1, 100), (3, 50), (2, 50)], 30),
            request(3, 3, &[(2, 50)], 40),
        ] {
            all.add(&request);
        }
        let found = all.finish();
        assert_eq!((found.requests, found.span), (4, Duration::from_secs(3)));
        assert_eq!((found.prompt_tokens, found.output_tokens), (550, 100));
        assert_eq!((found.shared_tokens, found.at_least), (100 + 150, false));
        assert_eq!(found.outputs.map(|outputs| (outputs.p50, outputs.largest)), Some((20, 40)));
        assert_eq!(found.gaps.map(|gaps| (gaps.mean, gaps.largest)), Some((1e9, 2_000_000_000)));
        assert_eq!(Description::default().finish(), Described::default());
    }
}
