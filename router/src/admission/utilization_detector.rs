//! `utilization-detector`: saturation from scraped queue lengths and KV-cache use (flow-control spec 12.1).

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use executor::Instant;
use serde::{Deserialize, Serialize};

use super::SaturationDetector;
use crate::candidates::Candidate;
use crate::config::scalars::parse_duration;
use crate::endpoint::{Endpoint, Metrics};
use crate::metrics::Metric;
use crate::plugin::{FactoryError, Handle, Instance, ParameterError, Parameters, Roles};
use crate::scheduling::{Filter, SchedulingContext};

/// Name of the type.
pub const TYPE: &str = "utilization-detector";

/// Time between two lines of the log about stale endpoints.
const SAY_AGAIN: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct UtilizationParameters {
    /// Waiting requests at which an endpoint is full.
    queue_depth_threshold: i64,
    /// KV-cache use at which an endpoint is full, a fraction.
    kv_cache_util_threshold: f64,
    /// Age from which metrics count for nothing, and the endpoint as full.
    metrics_staleness_threshold: String,
    /// By what fraction the filter lets an endpoint be fuller than full.
    headroom: f64,
}

impl Default for UtilizationParameters {
    fn default() -> Self {
        UtilizationParameters {
            queue_depth_threshold: 5,
            kv_cache_util_threshold: 0.8,
            metrics_staleness_threshold: "200ms".to_owned(),
            headroom: 0.0,
        }
    }
}

/// Builds an instance, which is a filter too.
///
/// # Errors
/// Parameters that do not decode, and all that are out of range together.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let parameters: UtilizationParameters = parameters.decode()?;
    let name = if name.is_empty() { TYPE } else { name };
    let detector = Rc::new(UtilizationDetector {
        limits: Limits::new(&parameters)?,
        name: name.into(),
        stale: handle.metrics().metric("llm_d_epp_flow_control_stale_endpoints"),
        said: Cell::new(None),
    });
    super::warn_of_headroom(name, parameters.headroom);
    let roles =
        Roles { saturation_detector: Some(detector.clone()), filter: Some(detector), ..Roles::default() };
    Ok(Instance::new(TYPE, name, roles))
}

/// The detector.
struct UtilizationDetector {
    limits: Limits,
    name: Rc<str>,
    /// Gauge of the stale endpoints.
    stale: Metric,
    /// When the log last told of them.
    said: Cell<Option<Instant>>,
}

/// When an endpoint is full.
#[derive(Clone, Copy, Debug)]
struct Limits {
    queue_depth: f64,
    kv_cache: f64,
    staleness: Duration,
    headroom: f64,
}

impl Limits {
    fn new(parameters: &UtilizationParameters) -> Result<Self, ParameterError> {
        let staleness = parse_duration(&parameters.metrics_staleness_threshold)
            .map_err(|why| ParameterError::at("metricsStalenessThreshold", why))?;
        let mut wrong = Vec::new();
        let queue_depth = parameters.queue_depth_threshold;
        if queue_depth <= 0 {
            wrong.push(format!("queueDepthThreshold must be strictly positive, got {queue_depth}"));
        }
        let kv_cache = parameters.kv_cache_util_threshold;
        if !(kv_cache > 0.0 && kv_cache <= 1.0) {
            wrong.push(format!("kvCacheUtilThreshold must be in (0.0, 1.0], got {kv_cache}"));
        }
        if staleness <= 0 {
            let text = &parameters.metrics_staleness_threshold;
            wrong.push(format!("metricsStalenessThreshold must be strictly positive, got {text}"));
        }
        wrong.extend(super::wrong_headroom(parameters.headroom));
        super::all_wrong("utilization detector", &wrong)?;
        Ok(Limits {
            queue_depth: queue_depth as f64,
            kv_cache,
            staleness: Duration::from_nanos(staleness.unsigned_abs()),
            headroom: parameters.headroom,
        })
    }

    fn is_fresh(&self, metrics: &Metrics, now: Instant) -> bool {
        metrics.update_time.is_some_and(|updated| now - updated <= self.staleness)
    }

    /// Returns how full an endpoint is: the fuller of queue and cache.
    fn saturation(&self, metrics: &Metrics) -> f64 {
        let queue = metrics.waiting_queue_size as f64 / self.queue_depth;
        let cache = metrics.kv_cache_usage_percent / self.kv_cache;
        // Unlike f64::max: not a number here makes the whole pool not a number (flow-control spec 12.1).
        if cache.is_nan() { cache } else { queue.max(cache) }
    }

    /// Returns whether the filter keeps an endpoint. The cache may be fuller than 1.0 where the headroom says so.
    fn admits(&self, metrics: &Metrics, now: Instant) -> bool {
        let room = 1.0 + self.headroom;
        self.is_fresh(metrics, now)
            && (metrics.waiting_queue_size as f64) < self.queue_depth * room
            && metrics.kv_cache_usage_percent < self.kv_cache * room
    }
}

impl UtilizationDetector {
    fn tell_of_stale(&self, stale: usize, now: Instant) {
        self.stale.set(&[&self.name], stale as f64);
        if stale > 0 && self.said.get().is_none_or(|said| now - said >= SAY_AGAIN) {
            self.said.set(Some(now));
            tracing::warn!(detector = &*self.name, stale, "endpoints without fresh metrics count as full");
        }
    }
}

impl SaturationDetector for UtilizationDetector {
    fn plugin_type(&self) -> &'static str {
        TYPE
    }

    /// One request more waits at one of the endpoints, as far as anybody knows before the next scrape of all.
    fn unseen(&self, endpoints: &[Rc<Endpoint>], _: Instant) -> Option<(f64, Instant)> {
        let seen = endpoints.iter().filter_map(|endpoint| endpoint.metrics.update_time).min()?;
        Some((1.0 / (self.limits.queue_depth * endpoints.len() as f64), seen))
    }

    /// Returns the mean over the endpoints; one without fresh metrics counts as full, and so does an empty pool.
    fn saturation(&self, endpoints: &[Rc<Endpoint>], now: Instant) -> f64 {
        let (mut sum, mut stale) = (0.0, 0);
        for Endpoint { metrics, .. } in endpoints.iter().map(|endpoint| &**endpoint) {
            if self.limits.is_fresh(metrics, now) {
                sum += self.limits.saturation(metrics);
            } else {
                sum += 1.0;
                stale += 1;
            }
        }
        self.tell_of_stale(stale, now);
        if endpoints.is_empty() { 1.0 } else { sum / endpoints.len() as f64 }
    }
}

impl Filter for UtilizationDetector {
    /// Keeps what has room, and everything where nothing has.
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        let admits =
            |candidate: Candidate| self.limits.admits(&cx.candidates.endpoint(candidate).metrics, cx.now);
        if survivors.iter().any(|candidate| admits(*candidate)) {
            survivors.retain(|candidate| admits(*candidate));
        }
    }
}

#[cfg(test)]
mod tests {
    use executor::Sim;
    use serde_json::json;

    use super::*;

    fn with_detector(check: impl FnOnce(&dyn SaturationDetector, &Handle) + 'static) {
        Sim::new(1)
            .run(|rt| async move {
                let handle = Handle::new(rt);
                let parameters = json!({"kvCacheUtilThreshold": 0.9, "metricsStalenessThreshold": "100ms"});
                let instance = factory("", &Parameters::new(parameters), &handle).unwrap();
                check(&*instance.roles.saturation_detector.unwrap(), &handle);
            })
            .unwrap();
    }

    fn now() -> Instant {
        Instant::ZERO + Duration::from_secs(1)
    }

    fn endpoint(waiting_queue_size: i64, kv_cache_usage_percent: f64, age_ms: u64) -> Rc<Endpoint> {
        let update_time = Some(now() - Duration::from_millis(age_ms));
        let metrics =
            Metrics { waiting_queue_size, kv_cache_usage_percent, update_time, ..Metrics::default() };
        Rc::new(Endpoint { metrics, ..Endpoint::default() })
    }

    #[test]
    fn the_pool_is_as_full_as_its_endpoints_on_average() {
        with_detector(|detector, _| {
            let never = Rc::new(Endpoint::default());
            for (endpoints, expected) in [
                (vec![], 1.0),
                (vec![endpoint(2, 0.5, 0)], 0.555_555),
                (vec![endpoint(0, 0.0, 200)], 1.0),
                (vec![endpoint(0, 0.0, 101)], 1.0),
                (vec![endpoint(0, 0.0, 100)], 0.0),
                (vec![never], 1.0),
                (vec![endpoint(10, 0.1, 0)], 2.0),
                (vec![endpoint(1, 0.95, 0)], 1.055_555),
                (vec![endpoint(1, 0.1, 0), endpoint(0, 0.2, 0)], 0.211_111),
                (vec![endpoint(1, 0.1, 0), endpoint(0, 0.0, 200)], 0.6),
                (vec![endpoint(1, 0.1, 0), endpoint(15, 0.2, 0)], 1.6),
                (vec![endpoint(0, 0.0, 200), endpoint(20, 0.2, 0), endpoint(1, 0.99, 0)], 2.033_333),
            ] {
                let got = detector.saturation(&endpoints, now());
                assert!((got - expected).abs() < 1e-5, "{endpoints:?}: {got}");
            }
        });
    }

    #[test]
    fn cache_use_that_is_no_number_makes_the_pool_no_number() {
        with_detector(|detector, _| {
            assert!(detector.saturation(&[endpoint(9, f64::NAN, 0), endpoint(0, 0.0, 0)], now()).is_nan());
        });
    }

    #[test]
    fn stale_endpoints_are_counted() {
        with_detector(|detector, handle| {
            let stale = || handle.metrics().metric("llm_d_epp_flow_control_stale_endpoints").value(&[TYPE]);
            detector.saturation(&[endpoint(0, 0.0, 0), endpoint(0, 0.0, 200), Rc::default()], now());
            assert_eq!(stale(), Some(2.0));
            detector.saturation(&[], now());
            assert_eq!(stale(), Some(0.0));
        });
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let parameters = UtilizationParameters {
            queue_depth_threshold: 0,
            kv_cache_util_threshold: 1.5,
            metrics_staleness_threshold: "0s".to_owned(),
            headroom: -0.5,
        };
        assert_eq!(
            Limits::new(&parameters).err().unwrap().message,
            "invalid utilization detector configuration: queueDepthThreshold must be strictly positive, got 0\n\
             kvCacheUtilThreshold must be in (0.0, 1.0], got 1.5\n\
             metricsStalenessThreshold must be strictly positive, got 0s\n\
             headroom must be a non-negative value, got -0.5"
        );
    }
}
