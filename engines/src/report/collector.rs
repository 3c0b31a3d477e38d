use std::collections::BTreeMap;
use std::time::Duration;

use super::classes::Classes;
use super::summary::{EngineSummary, RequestCounts, Summary, ThroughputSummary, TokenCounts};
use super::{Decision, Distribution, LatencySummary, Observer, Outcome, RequestEnd, RunEnd};

/// Reasons for failure that are counted apart; the rest is counted together.
const MAX_REASONS: usize = 16;

/// The numbers of a run, in memory that does not grow with its requests.
#[derive(Debug)]
pub struct Collector {
    decisions: u64,
    requests: RequestCounts,
    tokens: TokenCounts,
    /// Nanoseconds.
    ttft: Distribution,
    /// Nanoseconds.
    itl: Distribution,
    /// Nanoseconds.
    e2e: Distribution,
    classes: Classes,
    /// By the reason without its numbers: the first such reason, and how many there were.
    failures: BTreeMap<String, (String, u64)>,
}

impl Default for Collector {
    fn default() -> Self {
        let latencies = || Distribution::new(1000);
        Collector {
            decisions: 0,
            requests: RequestCounts::default(),
            tokens: TokenCounts::default(),
            ttft: latencies(),
            itl: latencies(),
            e2e: latencies(),
            classes: Classes::default(),
            failures: BTreeMap::new(),
        }
    }
}

impl Collector {
    /// Returns why requests failed and how often, the most frequent reason first. Reasons that differ in numbers
    /// alone are one, told with the numbers of the first.
    pub fn failures(&self) -> Vec<(String, u64)> {
        let told = |(kind, (first, count)): (&String, &(String, u64))| {
            let reason = match count {
                _ if kind == "other reasons" => kind.clone(),
                1 => first.clone(),
                _ if kind == first => first.clone(),
                _ => format!("as {first:?}"),
            };
            (reason, *count)
        };
        let mut failures: Vec<(String, u64)> = self.failures.iter().map(told).collect();
        failures.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        failures
    }

    /// Returns the summary of a run that is over.
    pub fn summarize(self, seed: u64, end: RunEnd) -> Summary {
        let simulated = end.simulated.as_secs_f64();
        let per_second = |count: u64| if simulated > 0.0 { count as f64 / simulated } else { 0.0 };
        let TokenCounts { prompt, output, prefix_hit } = self.tokens;
        let (bands, tenants) = self.classes.summarize(simulated);
        Summary {
            seed,
            digest: format!("{:016x}", end.digest),
            requests: self.requests,
            tokens: self.tokens,
            prefix_hit_rate: if prompt > 0 { prefix_hit as f64 / prompt as f64 } else { 0.0 },
            ttft_ms: milliseconds(self.ttft),
            itl_ms: milliseconds(self.itl),
            e2e_ms: milliseconds(self.e2e),
            throughput: ThroughputSummary {
                requests_per_s: per_second(self.requests.done),
                output_tokens_per_s: per_second(output),
            },
            preemptions: end.engines.iter().map(|engine| engine.preemptions).sum(),
            engines: end
                .engines
                .into_iter()
                .map(|engine| EngineSummary {
                    name: engine.name,
                    requests: engine.requests,
                    peak_queue: engine.peak_queue,
                })
                .collect(),
            bands,
            tenants,
            decisions: self.decisions,
            sim_s: simulated,
            wall_s: end.wall.as_secs_f64(),
            findings: end.findings,
            interrupted: end.interrupted.map(|signal| signal.to_string()),
        }
    }

    fn count_failure(&mut self, reason: &str) {
        let kind = without_numbers(reason);
        let known = self.failures.len() < MAX_REASONS || self.failures.contains_key(&kind);
        let kind = if known { kind } else { "other reasons".to_owned() };
        let failure = self.failures.entry(kind).or_insert_with(|| (reason.to_owned(), 0));
        failure.1 += 1;
    }
}

impl Observer for Collector {
    fn decided(&mut self, _: &Decision<'_>) {
        self.decisions += 1;
    }

    fn tokens_followed(&mut self, gap: Duration, times: u64) {
        self.itl.add(nanos(gap), times);
    }

    fn request_ended(&mut self, request: &RequestEnd<'_>) {
        self.requests.add(request.outcome);
        self.classes.add(request);
        match request.outcome {
            Outcome::Done => self.e2e.add(nanos(request.e2e()), 1),
            Outcome::Failed(reason) => self.count_failure(reason),
            Outcome::Cancelled => {}
        }
        if let Some(ttft) = request.ttft() {
            self.ttft.add(nanos(ttft), 1);
            self.tokens.prompt += u64::from(request.prompt_tokens);
            self.tokens.prefix_hit += u64::from(request.prefix_hit_tokens);
        }
        self.tokens.output += u64::from(request.output_tokens);
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns milliseconds; nulls where there was nothing to measure.
pub(super) fn milliseconds(nanos: Distribution) -> LatencySummary {
    nanos.percentiles().map_or_else(LatencySummary::default, |percentiles| {
        let percentile = |nanos: u64| Some(nanos as f64 / 1e6);
        LatencySummary {
            mean: Some(percentiles.mean / 1e6),
            p50: percentile(percentiles.p50),
            p90: percentile(percentiles.p90),
            p99: percentile(percentiles.p99),
        }
    })
}

/// Returns the reason with `#` for each number.
fn without_numbers(reason: &str) -> String {
    let mut kind = String::with_capacity(reason.len());
    for c in reason.chars() {
        match c.is_ascii_digit() {
            true if kind.ends_with('#') => {}
            true => kind.push('#'),
            false => kind.push(c),
        }
    }
    kind
}
