//! What each tenant and each band of priority got.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::collector::{milliseconds, nanos};
use super::{Distribution, LatencySummary, Outcome, RequestCounts, RequestEnd};

/// The numbers of every tenant and of every band, in memory that does not grow with the requests.
#[derive(Debug, Default)]
pub(super) struct Classes {
    tenants: BTreeMap<String, (i32, Class)>,
    bands: BTreeMap<Reverse<i32>, Class>,
}

#[derive(Debug)]
struct Class {
    requests: RequestCounts,
    rejected: u64,
    output_tokens: u64,
    /// Nanoseconds.
    wait: Distribution,
    /// Nanoseconds.
    ttft: Distribution,
}

/// What the requests of one tenant, or of one priority, got.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClassSummary {
    /// Requests by how they ended.
    pub requests: RequestCounts,
    /// Failed requests that the router refused.
    pub rejected: u64,
    /// Time from arrival to the router's decision, of every request that got an endpoint.
    pub wait_ms: LatencySummary,
    /// Time from arrival to the first output token, of every request that got one.
    pub ttft_ms: LatencySummary,
    /// Requests that were done, a simulated second.
    pub goodput_requests_per_s: f64,
    /// Output tokens of requests that were done, a simulated second.
    pub goodput_output_tokens_per_s: f64,
}

/// What one tenant got.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TenantSummary {
    /// Its name.
    pub name: String,
    /// Priority of its requests.
    pub priority: i32,
    /// What it got.
    #[serde(flatten)]
    pub got: ClassSummary,
}

/// What the requests of one priority got.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BandSummary {
    /// The priority.
    pub priority: i32,
    /// What they got.
    #[serde(flatten)]
    pub got: ClassSummary,
    /// Jain's index of the output tokens that its tenants got of requests that were done: 1 where all got the same, 1/n
    /// where one of n got all, null where nobody got any.
    pub jain_index: Option<f64>,
}

impl Default for Class {
    fn default() -> Self {
        let latencies = || Distribution::new(1000);
        Class {
            requests: RequestCounts::default(),
            rejected: 0,
            output_tokens: 0,
            wait: latencies(),
            ttft: latencies(),
        }
    }
}

impl Class {
    fn add(&mut self, request: &RequestEnd<'_>) {
        self.requests.add(request.outcome);
        match request.outcome {
            Outcome::Done => self.output_tokens += u64::from(request.output_tokens),
            Outcome::Failed(_) => self.rejected += u64::from(request.endpoint.is_none()),
            Outcome::Cancelled => {}
        }
        if let (Some(decided), Some(_)) = (request.decided, request.endpoint) {
            self.wait.add(nanos(decided - request.arrival), 1);
        }
        if let Some(ttft) = request.ttft() {
            self.ttft.add(nanos(ttft), 1);
        }
    }

    fn summarize(self, seconds: f64) -> ClassSummary {
        let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        ClassSummary {
            requests: self.requests,
            rejected: self.rejected,
            goodput_requests_per_s: per_second(self.requests.done),
            goodput_output_tokens_per_s: per_second(self.output_tokens),
            wait_ms: milliseconds(self.wait),
            ttft_ms: milliseconds(self.ttft),
        }
    }
}

impl Classes {
    /// Counts a request of a tenant.
    pub(super) fn add(&mut self, request: &RequestEnd<'_>) {
        let Some(tenant) = request.tenant else { return };
        if !self.tenants.contains_key(&tenant.name) {
            self.tenants.insert(tenant.name.clone(), (tenant.priority, Class::default()));
        }
        if let Some((_, class)) = self.tenants.get_mut(&tenant.name) {
            class.add(request);
        }
        self.bands.entry(Reverse(tenant.priority)).or_default().add(request);
    }

    /// Returns bands and tenants, the highest priority first, tenants of one priority by name.
    pub(super) fn summarize(self, seconds: f64) -> (Vec<BandSummary>, Vec<TenantSummary>) {
        let mut tenants: Vec<TenantSummary> = self
            .tenants
            .into_iter()
            .map(|(name, (priority, class))| TenantSummary { name, priority, got: class.summarize(seconds) })
            .collect();
        tenants.sort_by_key(|tenant| Reverse(tenant.priority));
        let band = |(Reverse(priority), class): (Reverse<i32>, Class)| {
            let shares = tenants.iter().filter(|tenant| tenant.priority == priority);
            BandSummary {
                priority,
                jain_index: jain(shares.map(|tenant| tenant.got.goodput_output_tokens_per_s)),
                got: class.summarize(seconds),
            }
        };
        (self.bands.into_iter().map(band).collect(), tenants)
    }
}

/// Jain's index of fairness: the square of the sum over n times the sum of squares.
fn jain(shares: impl Iterator<Item = f64>) -> Option<f64> {
    let (n, sum, squares) = shares
        .fold((0.0, 0.0, 0.0), |(n, sum, squares), share| (n + 1.0, sum + share, squares + share * share));
    (squares > 0.0).then(|| sum * sum / (n * squares))
}

#[cfg(test)]
mod tests {
    use executor::Instant;

    use super::*;
    use crate::workload::Tenant;

    #[test]
    fn jains_index_is_one_for_equal_shares_and_one_of_n_for_one_who_gets_all() {
        for (shares, index) in [
            (vec![2.0, 2.0, 2.0], Some(1.0)),
            (vec![5.0, 0.0, 0.0, 0.0], Some(0.25)),
            // (1 + 3)^2 / (2 * (1 + 9)).
            (vec![1.0, 3.0], Some(0.8)),
            (vec![0.0, 0.0], None),
            (vec![], None),
        ] {
            assert_eq!(jain(shares.into_iter()), index);
        }
    }

    #[test]
    fn bands_and_tenants_add_up() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let tenant = |name: &str, priority| Tenant { name: name.to_owned(), share: 1.0, priority };
        let (gold, a, b) = (tenant("gold", 10), tenant("a", 0), tenant("b", 0));
        let end = |tenant, outcome, endpoint, waited: u64| RequestEnd {
            request: 0,
            arrival: at(100),
            endpoint,
            prompt_tokens: 8,
            output_tokens: if outcome == Outcome::Done { 50 } else { 0 },
            prefix_hit_tokens: 0,
            first_token: (outcome == Outcome::Done).then(|| at(100 + waited + 30)),
            end: at(1000),
            outcome,
            decided: Some(at(100 + waited)),
            tenant: Some(tenant),
        };
        let mut classes = Classes::default();
        for request in [
            end(&gold, Outcome::Done, Some("e"), 1),
            end(&a, Outcome::Done, Some("e"), 10),
            end(&a, Outcome::Done, Some("e"), 20),
            end(&b, Outcome::Done, Some("e"), 30),
            end(&b, Outcome::Failed("full"), None, 40),
            end(&b, Outcome::Failed("reset"), Some("e"), 50),
        ] {
            classes.add(&request);
        }
        classes.add(&RequestEnd { tenant: None, ..end(&a, Outcome::Done, Some("e"), 1) });
        let (bands, tenants) = classes.summarize(2.0);
        let names: Vec<&str> = tenants.iter().map(|tenant| &*tenant.name).collect();
        assert_eq!(names, ["gold", "a", "b"]);
        let [high, low] = &bands[..] else { panic!("{bands:?}") };
        assert_eq!((high.priority, low.priority), (10, 0));
        assert_eq!(high.got.ttft_ms.mean, Some(31.0));
        let counts = low.got.requests;
        assert_eq!((counts.injected, counts.done, counts.failed, low.got.rejected), (5, 3, 2, 1));
        // 10, 20, 30 and 50: the refused one did not get an endpoint.
        assert_eq!(low.got.wait_ms.mean, Some(27.5));
        assert_eq!((low.got.goodput_requests_per_s, low.got.goodput_output_tokens_per_s), (1.5, 75.0));
        // 100 and 50 tokens: 150^2 / (2 * 12500).
        assert_eq!(low.jain_index, Some(0.9));
        assert_eq!(tenants[2].got.rejected, 1);
    }
}
