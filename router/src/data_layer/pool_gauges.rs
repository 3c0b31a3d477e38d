//! What the router shows of its pool: means over the endpoints (configuration spec 7.5).

use std::time::Duration;

use executor::{Instant, Missed, Rt};

use super::endpoints::Endpoints;
use crate::endpoint::Metrics;
use crate::metrics::{Metric, Registry};

/// Gauges of a pool.
#[derive(Clone, Debug)]
pub struct PoolGauges {
    pool: String,
    staleness: Duration,
    ready: Metric,
    /// KV cache in use, waiting, running.
    loads: [Load; 3],
    queue_size: Metric,
}

/// A value of every endpoint, shown as its mean and standard deviation.
#[derive(Clone, Debug)]
struct Load {
    read: fn(&Metrics) -> f64,
    average: Metric,
    std_dev: Metric,
}

impl PoolGauges {
    /// Returns the gauges of `pool`; endpoints whose metrics are older than `staleness` count for none of them.
    pub fn new(pool: &str, staleness: Duration, registry: &Registry) -> Self {
        let load = |name: &str, read: fn(&Metrics) -> f64| {
            let of = |statistic: &str| registry.metric(&format!("llm_d_epp_{statistic}_{name}"));
            Load { read, average: of("average"), std_dev: of("std_dev") }
        };
        PoolGauges {
            pool: pool.to_owned(),
            staleness,
            ready: registry.metric("llm_d_epp_ready_endpoints"),
            loads: [
                load("kv_cache_utilization", |metrics| metrics.kv_cache_usage_percent),
                load("queue_size", |metrics| metrics.waiting_queue_size as f64),
                load("running_requests", |metrics| metrics.running_requests_size as f64),
            ],
            queue_size: registry.metric("llm_d_epp_per_endpoint_queue_size"),
        }
    }

    /// Sets the gauges as of `now`. Without a fresh endpoint only their number is set, the means stay.
    pub fn refresh(&self, endpoints: &Endpoints, now: Instant) {
        let endpoints = endpoints.snapshot();
        let is_fresh = |metrics: &&Metrics| metrics.update_time.is_some_and(|at| now - at <= self.staleness);
        let fresh: Vec<&Metrics> =
            endpoints.iter().map(|endpoint| &endpoint.metrics).filter(is_fresh).collect();
        let pool = [self.pool.as_str()];
        self.ready.set(&pool, fresh.len() as f64);
        if fresh.is_empty() {
            return;
        }
        for Load { read, average, std_dev } in &self.loads {
            let values: Vec<f64> = fresh.iter().map(|metrics| read(metrics)).collect();
            let (mean, deviation) = mean_and_deviation(&values);
            average.set(&pool, rounded(mean));
            std_dev.set(&pool, rounded(deviation));
        }
    }

    /// Sets the waiting requests of each endpoint, which are shown as of the moment of a scrape. Of endpoints
    /// with one name in several namespaces the last is shown: the page has no label to tell them apart.
    pub fn refresh_queue_sizes(&self, endpoints: &Endpoints) {
        self.queue_size.remove(&[]);
        for endpoint in endpoints.snapshot().iter() {
            let labels = [self.pool.as_str(), endpoint.metadata.id.name.as_str()];
            self.queue_size.set(&labels, endpoint.metrics.waiting_queue_size as f64);
        }
    }

    /// Refreshes the gauges once a period while `pool_has_synced`, until the future is dropped.
    ///
    /// # Panics
    /// When `period` is zero.
    pub async fn run(
        &self,
        rt: &Rt,
        endpoints: &Endpoints,
        period: Duration,
        pool_has_synced: impl Fn() -> bool,
    ) {
        let mut ticker = rt.interval_at(rt.now() + period, period, Missed::Delay);
        loop {
            ticker.tick().await;
            if pool_has_synced() {
                self.refresh(endpoints, rt.now());
            }
        }
    }
}

/// Returns the mean and the standard deviation of a sample with at least one value.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    (mean, (squares / (count - 1.0).max(1.0)).sqrt())
}

/// Rounds to two decimals, halves away from zero.
fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata};

    fn endpoint(name: &str, kv: f64, waiting: i64, running: i64, updated: Option<u64>) -> Endpoint {
        let metadata = EndpointMetadata { id: EndpointId::new("ns", name), ..EndpointMetadata::default() };
        Endpoint {
            metadata: Rc::new(metadata),
            metrics: Metrics {
                kv_cache_usage_percent: kv,
                waiting_queue_size: waiting,
                running_requests_size: running,
                update_time: updated.map(Instant::from_nanos),
                ..Metrics::default()
            },
            ..Endpoint::default()
        }
    }

    /// Mean and deviation of KV cache, waiting and running, then the ready endpoints.
    fn shown(registry: &Registry) -> Vec<Option<f64>> {
        ["kv_cache_utilization", "queue_size", "running_requests"]
            .iter()
            .flat_map(|name| [format!("llm_d_epp_average_{name}"), format!("llm_d_epp_std_dev_{name}")])
            .chain(["llm_d_epp_ready_endpoints".to_owned()])
            .map(|name| registry.metric(&name).value(&["pool"]))
            .collect()
    }

    #[test]
    fn means_are_over_the_fresh_endpoints() {
        let registry = Registry::default();
        let gauges = PoolGauges::new("pool", Duration::from_nanos(10), &registry);
        let endpoints = Endpoints::default();
        endpoints.insert(endpoint("never", 9.0, 9, 9, None));
        gauges.refresh(&endpoints, Instant::from_nanos(5));
        assert_eq!(shown(&registry), [None, None, None, None, None, None, Some(0.0)]);

        endpoints.insert(endpoint("a", 30.0, 2, 1, Some(10)));
        endpoints.insert(endpoint("b", 70.0, 5, 3, Some(15)));
        gauges.refresh(&endpoints, Instant::from_nanos(20));
        let both = [50.0, 28.28, 3.5, 2.12, 2.0, 1.41, 2.0].map(Some);
        assert_eq!(shown(&registry), both);

        gauges.refresh(&endpoints, Instant::from_nanos(21));
        assert_eq!(shown(&registry), [70.0, 0.0, 5.0, 0.0, 3.0, 0.0, 1.0].map(Some), "a is stale");
    }

    #[test]
    fn queue_sizes_are_those_of_the_endpoints_that_there_are() {
        let registry = Registry::default();
        let gauges = PoolGauges::new("pool", Duration::ZERO, &registry);
        let endpoints = Endpoints::default();
        for name in ["a", "b"] {
            endpoints.insert(endpoint(name, 0.0, 4, 0, None));
        }
        gauges.refresh_queue_sizes(&endpoints);
        endpoints.remove(&EndpointId::new("ns", "a"));
        gauges.refresh_queue_sizes(&endpoints);
        let text = registry.text();
        assert!(
            text.contains("per_endpoint_queue_size{name=\"pool\",model_server_endpoint=\"b\"} 4\n"),
            "{text}"
        );
        assert!(text.contains("per_pod_queue_size{name=\"pool\",model_server_pod=\"b\"} 4\n"), "{text}");
        assert!(!text.contains("\"a\""), "{text}");
    }
}
