//! What an engine counts.

use std::ops::AddAssign;

/// The state behind vLLM's gauges at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Requests that run.
    pub running: usize,
    /// Requests that wait and were not passed over.
    pub waiting: usize,
    /// Requests that an admission passed over; `vllm:num_requests_waiting` counts them too.
    pub skipped: usize,
    /// KV blocks nobody refers to.
    pub free_blocks: u32,
    /// `vllm:kv_cache_usage_perc`: share of blocks that live requests hold, from 0 to 1.
    pub usage: f64,
}

/// Look-ups in the prefix cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// Requests looked up.
    pub requests: u64,
    /// Tokens looked up.
    pub queries: u64,
    /// Tokens found.
    pub hits: u64,
}

impl AddAssign for Lookups {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.queries += other.queries;
        self.hits += other.hits;
    }
}

/// What vLLM's scheduler reports with an update: gauges, and counts since the update before (model-server spec 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// The gauges at the end of the update.
    pub gauges: Gauges,
    /// Look-ups for requests that never ran: `vllm:prefix_cache_queries`, `vllm:prefix_cache_hits`.
    pub lookups: Lookups,
    /// Look-ups for requests that were preempted.
    pub lookups_after_preemption: Lookups,
    /// Preemptions: `vllm:num_preemptions`.
    pub preemptions: u64,
    /// The prefix cache was reset.
    pub reset: bool,
}
