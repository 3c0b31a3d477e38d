//! Workloads drawn from distributions (engines-blis 23, 24).

mod arrivals;
mod lengths;

pub use arrivals::{Arrivals, Process};
pub use lengths::Lengths;

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use executor::Stream;

use super::{MAX_TOKENS, Prompt, Request, Segment, Tenants, tenants};
use crate::InputError;
use crate::input_error::number;

/// More prefix groups are refused: each takes 8 bytes while requests are drawn.
const MAX_GROUPS: u32 = 1_000_000;

/// A workload described by its distributions.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// How many requests there are.
    pub requests: NonZeroU64,
    /// When they arrive.
    pub arrivals: Arrivals,
    /// Tokens of a prompt behind its shared prefix.
    pub prompt: Lengths,
    /// Tokens of an output.
    pub output: Lengths,
    /// Prefixes that several prompts begin with.
    pub shared_prefix: Option<SharedPrefix>,
    /// Who sends the requests.
    pub tenants: Option<Tenants>,
}

/// Groups of requests whose prompts begin with the same tokens: system prompts, documents, examples.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedPrefix {
    /// How many different prefixes there are.
    pub groups: NonZeroU32,
    /// Tokens of each prefix.
    pub tokens: NonZeroU32,
    /// The exponent of the popularity: the n-th prefix is drawn in proportion to `n^-skew`; 0 draws evenly.
    pub skew: f64,
}

impl SharedPrefix {
    /// Checks the parameters.
    ///
    /// # Errors
    /// When one is out of range; the error names it.
    pub fn check(&self) -> Result<(), InputError> {
        let refuse = |key: &str, found: String, accepted: String| {
            Err(InputError::new(format!("{found} is out of range")).accepted(accepted).field(key))
        };
        if self.groups.get() > MAX_GROUPS {
            return refuse("groups", self.groups.to_string(), format!("1 to {MAX_GROUPS}"));
        }
        if self.tokens.get() > MAX_TOKENS {
            return refuse("tokens", self.tokens.to_string(), format!("1 to {MAX_TOKENS}"));
        }
        if !(0.0..=10.0).contains(&self.skew) {
            return refuse("skew", number(self.skew), "0 to 10".to_owned());
        }
        Ok(())
    }
}

impl Synthetic {
    /// Returns the requests, drawn from streams of `seed`: the times, the prompts, the outputs and the
    /// prefixes and the tenants each from their own, so that changing one distribution leaves the other draws alone.
    ///
    /// # Errors
    /// When a parameter is out of range; the error names it.
    pub fn requests(&self, seed: u64) -> Result<Requests, InputError> {
        self.prompt.check().map_err(|error| error.under("prompt"))?;
        self.output.check().map_err(|error| error.under("output"))?;
        self.arrivals.check().map_err(|error| error.under("arrivals"))?;
        if let Some(shared) = &self.shared_prefix {
            shared.check().map_err(|error| error.under("shared_prefix"))?;
        }
        Ok(Requests {
            gaps: self.arrivals.gaps(Stream::new(seed, "workload.arrivals"))?,
            prompts: (self.prompt.clone(), Stream::new(seed, "workload.prompt")),
            outputs: (self.output.clone(), Stream::new(seed, "workload.output")),
            prefixes: self
                .shared_prefix
                .as_ref()
                .map(|shared| Prefixes::new(shared, Stream::new(seed, "workload.prefix"))),
            tenants: self.tenants.as_ref().map(|t| t.draws(Stream::new(seed, "workload.tenant"))),
            next: 0,
            count: self.requests.get(),
            now: Duration::ZERO,
        })
    }
}

/// The requests of a [`Synthetic`] workload, drawn one by one.
#[derive(Debug)]
pub struct Requests {
    gaps: arrivals::Gaps,
    prompts: (Lengths, Stream),
    outputs: (Lengths, Stream),
    prefixes: Option<Prefixes>,
    tenants: Option<tenants::Draws>,
    next: u64,
    count: u64,
    now: Duration,
}

impl Requests {
    /// Returns how many requests are still to come.
    pub fn remaining(&self) -> u64 {
        self.count - self.next
    }
}

impl Iterator for Requests {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let index = self.next;
        if index == self.count {
            return None;
        }
        self.next += 1;
        self.now = self.now.saturating_add(self.gaps.draw());
        let prefix = self.prefixes.as_mut().map(Prefixes::draw);
        // Groups have the ids from 0, so a prompt's own tokens have the ids from the other end.
        let own = Segment { id: u64::MAX - index, tokens: self.prompts.0.draw(&mut self.prompts.1) };
        let segments: Vec<Segment> = prefix.into_iter().chain([own]).collect();
        let output_tokens = self.outputs.0.draw(&mut self.outputs.1);
        let tenant = self.tenants.as_mut().map(tenants::Draws::draw);
        Some(Request { index, arrival: self.now, prompt: Prompt::new(segments), output_tokens, tenant })
    }
}

#[derive(Debug)]
struct Prefixes {
    stream: Stream,
    tokens: u32,
    /// The weights of the groups, summed from the first.
    cumulative: Vec<f64>,
}

impl Prefixes {
    fn new(shared: &SharedPrefix, stream: Stream) -> Self {
        let SharedPrefix { groups, tokens, skew } = *shared;
        let cumulative = (1..=groups.get())
            .scan(0.0, |sum, rank| {
                *sum += libm::pow(f64::from(rank), -skew);
                Some(*sum)
            })
            .collect();
        Prefixes { stream, tokens: tokens.get(), cumulative }
    }

    fn draw(&mut self) -> Segment {
        let total = self.cumulative.last().copied().unwrap_or_default();
        let point = self.stream.unit() * total;
        let group = self.cumulative.partition_point(|sum| *sum <= point).min(self.cumulative.len() - 1);
        Segment { id: group as u64, tokens: self.tokens }
    }
}

#[cfg(test)]
mod tests;
