use std::rc::Rc;
use std::time::Duration;

use executor::Instant;

use super::SaturationDetector;
use crate::endpoint::Endpoint;

/// `utilization-detector`: saturation from scraped queue lengths and KV-cache use (flow-control spec 12.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UtilizationDetector {
    /// Waiting requests at which an endpoint is full.
    pub queue_depth_threshold: i64,
    /// KV-cache use at which an endpoint is full, a fraction.
    pub kv_cache_util_threshold: f64,
    /// Age from which metrics count for nothing, and the endpoint as full.
    pub metrics_staleness_threshold: Duration,
}

impl UtilizationDetector {
    /// The plugin type.
    pub const TYPE: &str = "utilization-detector";
}

impl Default for UtilizationDetector {
    fn default() -> Self {
        UtilizationDetector {
            queue_depth_threshold: 5,
            kv_cache_util_threshold: 0.8,
            metrics_staleness_threshold: Duration::from_millis(200),
        }
    }
}

impl SaturationDetector for UtilizationDetector {
    /// Returns the mean over the endpoints of the fuller of queue and cache; an empty pool is full.
    fn saturation(&self, endpoints: &[Rc<Endpoint>], now: Instant) -> f64 {
        if endpoints.is_empty() {
            return 1.0;
        }
        let of = |endpoint: &Rc<Endpoint>| {
            let metrics = &endpoint.metrics;
            let fresh = metrics.update_time.is_some_and(|t| now - t <= self.metrics_staleness_threshold);
            if !fresh {
                return 1.0;
            }
            let queue = metrics.waiting_queue_size as f64 / self.queue_depth_threshold as f64;
            let cache = metrics.kv_cache_usage_percent / self.kv_cache_util_threshold;
            // Unlike f64::max: not a number here makes the whole pool not a number (flow-control spec 12.1).
            if cache.is_nan() { cache } else { queue.max(cache) }
        };
        endpoints.iter().map(of).sum::<f64>() / endpoints.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Metrics;

    fn saturation(metrics: &[Metrics]) -> f64 {
        let detector = UtilizationDetector {
            kv_cache_util_threshold: 0.9,
            metrics_staleness_threshold: Duration::from_millis(100),
            ..UtilizationDetector::default()
        };
        let endpoint =
            |metrics: &Metrics| Rc::new(Endpoint { metrics: metrics.clone(), ..Endpoint::default() });
        let endpoints: Vec<_> = metrics.iter().map(endpoint).collect();
        detector.saturation(&endpoints, Instant::ZERO + Duration::from_millis(1000))
    }

    fn metrics(waiting: i64, kv: f64, age_ms: u64) -> Metrics {
        Metrics {
            waiting_queue_size: waiting,
            kv_cache_usage_percent: kv,
            update_time: Some(Instant::ZERO + Duration::from_millis(1000 - age_ms)),
            ..Metrics::default()
        }
    }

    #[test]
    fn table_of_the_specification() {
        for (pool, expected) in [
            (vec![], 1.0),
            (vec![metrics(2, 0.5, 0)], 0.5 / 0.9),
            (vec![metrics(0, 0.0, 200)], 1.0),
            (vec![metrics(0, 0.0, 101)], 1.0),
            (vec![metrics(0, 0.0, 100)], 0.0),
            (vec![Metrics::default()], 1.0),
            (vec![metrics(10, 0.1, 0)], 2.0),
            (vec![metrics(1, 0.95, 0)], 0.95 / 0.9),
            (vec![metrics(5, 0.0, 0), metrics(0, 0.0, 0)], 0.5),
        ] {
            assert_eq!(saturation(&pool), expected, "{pool:?}");
        }
        assert!(saturation(&[metrics(10, f64::NAN, 0)]).is_nan());
    }
}
