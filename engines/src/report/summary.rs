use serde::Serialize;

use super::{BandSummary, Outcome, TenantSummary};

/// The numbers of a run, as `summary.json` holds them; its keys stay as they are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The seed of the run.
    pub seed: u64,
    /// The digest over all events, 16 hexadecimal digits.
    pub digest: String,
    /// Requests by how they ended.
    pub requests: RequestCounts,
    /// Tokens.
    pub tokens: TokenCounts,
    /// The part of the prompt tokens that was found in the caches, 0 to 1.
    pub prefix_hit_rate: f64,
    /// Time from arrival to the first output token, of every request that got one.
    pub ttft_ms: LatencySummary,
    /// Time between two output tokens of a request.
    pub itl_ms: LatencySummary,
    /// Time from arrival to the last output token, of every request that was done.
    pub e2e_ms: LatencySummary,
    /// What was done a simulated second.
    pub throughput: ThroughputSummary,
    /// How often an engine took a running request's blocks away.
    pub preemptions: u64,
    /// The engines, in the order of the cluster.
    pub engines: Vec<EngineSummary>,
    /// What each priority got, the highest first; the key is there for workloads with tenants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bands: Vec<BandSummary>,
    /// What each tenant got, those of the highest priority first; the key is there for workloads with tenants.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tenants: Vec<TenantSummary>,
    /// Decisions of the router.
    pub decisions: u64,
    /// Simulated seconds.
    pub sim_s: f64,
    /// Seconds on the clock on the wall.
    pub wall_s: f64,
    /// What the watchdog found.
    pub findings: Vec<String>,
    /// The signal that ended the run before its end; the key is there only then. Requests that were open at that
    /// time count as cancelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupted: Option<String>,
}

/// Requests by how they ended: `injected = done + failed + cancelled`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct RequestCounts {
    pub injected: u64,
    pub done: u64,
    pub failed: u64,
    pub cancelled: u64,
}

impl RequestCounts {
    /// Counts a request.
    pub(super) fn add(&mut self, outcome: Outcome<'_>) {
        self.injected += 1;
        match outcome {
            Outcome::Done => self.done += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Cancelled => self.cancelled += 1,
        }
    }
}

/// Tokens of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TokenCounts {
    /// Prompt tokens of the requests that got a first output token.
    pub prompt: u64,
    /// Tokens generated.
    pub output: u64,
    /// The part of `prompt` that was found in the caches.
    pub prefix_hit: u64,
}

/// A latency in milliseconds; all null where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct LatencySummary {
    pub mean: Option<f64>,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
}

/// What was done a simulated second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ThroughputSummary {
    pub requests_per_s: f64,
    pub output_tokens_per_s: f64,
}

/// What one engine did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EngineSummary {
    /// Its name.
    pub name: String,
    /// Requests it was sent.
    pub requests: u64,
    /// The most requests that waited in it at one time.
    pub peak_queue: u64,
}
