use std::time::Duration;

use executor::{Instant, Signal};
use router::explain::Explanation;

use crate::workload::Tenant;

/// Watches a run. The cluster calls it in the order of simulated time.
pub trait Observer {
    /// Whether decisions are to come with their reasons; asked once, before the first.
    fn wants_explanations(&self) -> bool {
        false
    }

    /// The router decided about a request.
    fn decided(&mut self, decision: &Decision<'_>);

    /// `times` output tokens came `gap` after the token before them; a request's first token is not among
    /// them.
    fn tokens_followed(&mut self, gap: Duration, times: u64);

    /// A request ended. Every request that was injected ends once.
    fn request_ended(&mut self, request: &RequestEnd<'_>);
}

/// One decision of the router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision<'a> {
    /// The request's place in the workload.
    pub request: u64,
    /// When it was made.
    pub at: Instant,
    /// How many endpoints could have been chosen.
    pub candidates: usize,
    /// The endpoint chosen, or why there is none.
    pub endpoint: Result<&'a str, &'a str>,
    /// Its reason, where an observer asked for reasons.
    pub explanation: Option<&'a Explanation>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// All its output arrived.
    Done,
    /// It was refused or its server failed; says why.
    Failed(&'a str),
    /// Its client went away.
    Cancelled,
}

impl Outcome<'_> {
    /// Returns the outcome's name in `requests.csv`.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Failed(_) => "failed",
            Outcome::Cancelled => "cancelled",
        }
    }
}

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequestEnd<'a> {
    /// Its place in the workload.
    pub request: u64,
    /// When it arrived.
    pub arrival: Instant,
    /// The endpoint that served it, if one was chosen.
    pub endpoint: Option<&'a str>,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens that were generated for it.
    pub output_tokens: u32,
    /// Tokens of its prompt that the engine found in its cache.
    pub prefix_hit_tokens: u32,
    /// When its first output token arrived.
    pub first_token: Option<Instant>,
    /// When it ended.
    pub end: Instant,
    /// How it ended.
    pub outcome: Outcome<'a>,
    /// When the router decided about it last; `None` where it never did.
    pub decided: Option<Instant>,
    /// Who sent it.
    pub tenant: Option<&'a Tenant>,
}

impl RequestEnd<'_> {
    /// Returns the time from arrival to the first output token.
    pub fn ttft(&self) -> Option<Duration> {
        self.first_token.map(|first| first - self.arrival)
    }

    /// Returns the time from arrival to the end.
    pub fn e2e(&self) -> Duration {
        self.end - self.arrival
    }
}

/// What a run adds to its requests when it is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunEnd {
    /// The digest over all events of the run.
    pub digest: u64,
    /// Simulated time.
    pub simulated: Duration,
    /// Time on the clock on the wall.
    pub wall: Duration,
    /// The engines, in the order of the cluster.
    pub engines: Vec<EngineTotals>,
    /// Whether it came to its end and the watchdog found nothing but what is informational.
    pub clean: bool,
    /// What the watchdog found.
    pub findings: Vec<String>,
    /// The signal that ended the run before its end, if one did.
    pub interrupted: Option<Signal>,
}

/// What one engine did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineTotals {
    /// Its name.
    pub name: String,
    /// Requests it was sent.
    pub requests: u64,
    /// The most requests that waited in it at one time.
    pub peak_queue: u64,
    /// How often it took a running request's blocks away.
    pub preemptions: u64,
}
