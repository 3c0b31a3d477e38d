//! `probabilistic-admitter`: turns sheddable requests away by chance, the more so the fuller the pool
//! (request-control spec 9.2).

use std::cell::RefCell;
use std::rc::Rc;

use executor::Stream;
use serde::{Deserialize, Serialize};

use super::Admitter;
use crate::candidates::Candidates;
use crate::error::{ErrorCode, InferenceError, PluginError};
use crate::plugin::{FactoryError, Handle, Instance, ParameterError, Parameters, Roles};
use crate::request::InferenceRequest;

/// Name of the type.
pub const TYPE: &str = "probabilistic-admitter";

/// Parameters of the type.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ProbabilisticParameters {
    /// Waiting requests at which an endpoint is full.
    pub queue_depth_threshold: i64,
    /// Share of the KV cache at which it is.
    pub kv_cache_util_threshold: f64,
    /// How sharply denials set in.
    pub power: f64,
    /// How early they do.
    pub k: f64,
}

impl Default for ProbabilisticParameters {
    fn default() -> Self {
        ProbabilisticParameters {
            queue_depth_threshold: 5,
            kv_cache_util_threshold: 0.8,
            power: 5.0,
            k: 300.0,
        }
    }
}

/// Builds an instance, which draws from the stream of its name.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let parameters: ProbabilisticParameters = parameters.decode()?;
    let positive = |key: &str, value: f64| match value <= 0.0 {
        true => Err(ParameterError::at(key, format!("plugin '{TYPE}': {key} must be > 0, got {value}"))),
        false => Ok(()),
    };
    positive("queueDepthThreshold", parameters.queue_depth_threshold as f64)?;
    positive("kvCacheUtilThreshold", parameters.kv_cache_util_threshold)?;
    positive("power", parameters.power)?;
    positive("k", parameters.k)?;
    let plugin = Rc::new(ProbabilisticAdmitter::new(parameters, handle.stream(name)));
    Ok(Instance::new(TYPE, name, Roles { admitter: Some(plugin), ..Roles::default() }))
}

/// The admitter behind [`factory`].
#[derive(Debug)]
pub struct ProbabilisticAdmitter {
    parameters: ProbabilisticParameters,
    draws: RefCell<Stream>,
}

impl ProbabilisticAdmitter {
    /// Returns an admitter with parameters that are all above zero, which draws from `draws`.
    pub fn new(parameters: ProbabilisticParameters, draws: Stream) -> Self {
        ProbabilisticAdmitter { parameters, draws: RefCell::new(draws) }
    }

    /// Returns the next draw, which no decision will see: what was drawn so far shows in it.
    pub fn next_draw(&self) -> f64 {
        self.draws.borrow_mut().unit()
    }

    /// Returns how full the pool is, the mean over its endpoints: 1 = at the thresholds. Not bounded.
    pub fn saturation(&self, candidates: &Candidates) -> f64 {
        let ProbabilisticParameters { queue_depth_threshold, kv_cache_util_threshold, .. } = self.parameters;
        let of = |endpoint: &Rc<crate::endpoint::Endpoint>| {
            let metrics = &endpoint.metrics;
            let queue = metrics.waiting_queue_size as f64 / queue_depth_threshold as f64;
            queue.max(metrics.kv_cache_usage_percent / kv_cache_util_threshold)
        };
        candidates.endpoints().iter().map(of).sum::<f64>() / candidates.len() as f64
    }

    /// Returns the chance of a denial: min(saturation ^ power * k, 1).
    pub fn denial(&self, saturation: f64) -> f64 {
        (libm::pow(saturation, self.parameters.power) * self.parameters.k).min(1.0)
    }
}

impl Admitter for ProbabilisticAdmitter {
    fn admit(&self, request: &InferenceRequest, candidates: &Candidates) -> Result<(), PluginError> {
        if request.priority >= 0 || candidates.is_empty() {
            return Ok(());
        }
        let saturation = self.saturation(candidates);
        let denial = self.denial(saturation);
        if self.draws.borrow_mut().unit() < denial {
            let message = format!("{TYPE}: rejected, saturation={saturation:.3} prob={denial:.2}");
            return Err(InferenceError::new(ErrorCode::ResourceExhausted, message).into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::endpoint::Metrics;
    use crate::scheduling::testing::{candidates, endpoint, handle};

    fn admitter(parameters: Value) -> Result<ProbabilisticAdmitter, FactoryError> {
        factory(TYPE, &Parameters::new(parameters.clone()), &handle())?;
        let parameters = serde_json::from_value(parameters).expect("the factory took it");
        Ok(ProbabilisticAdmitter::new(parameters, handle().stream(TYPE)))
    }

    fn pods(pods: &[(i64, f64)]) -> Candidates {
        let of = |(waiting, kv): &(i64, f64)| {
            let metrics =
                Metrics { waiting_queue_size: *waiting, kv_cache_usage_percent: *kv, ..Metrics::default() };
            endpoint("e", metrics)
        };
        candidates(pods.iter().map(of))
    }

    /// Request-control spec 9.2.
    #[test]
    fn denials_follow_the_saturation() {
        let admitter = admitter(json!({})).unwrap();
        let chance = |list: &[(i64, f64)]| {
            let saturation = admitter.saturation(&pods(list));
            (saturation, admitter.denial(saturation))
        };
        assert_eq!(chance(&[(100, 0.0)]), (20.0, 1.0));
        assert_eq!(chance(&[(0, 0.0)]), (0.0, 0.0));
        assert_eq!(chance(&[(10, 0.0), (0, 0.0)]), (1.0, 1.0));
        assert_eq!(chance(&[(0, 0.272)]).1, 1.0);
        assert!((chance(&[(0, 0.16)]).1 - 0.096).abs() < 1e-9);
    }

    #[test]
    fn only_sheddable_requests_are_denied_and_each_of_them_draws() {
        let admitter = admitter(json!({})).unwrap();
        let full = pods(&[(100, 1.0)]);
        let request = |priority| InferenceRequest { priority, ..InferenceRequest::default() };
        assert!(admitter.admit(&request(0), &full).is_ok());
        assert!(admitter.admit(&request(-1), &pods(&[])).is_ok());
        let denied = admitter.admit(&request(-1), &full).expect_err("full").to_string();
        assert!(denied.ends_with("rejected, saturation=20.000 prob=1.00"), "{denied}");
        assert!(admitter.admit(&request(-1), &pods(&[(0, 0.0)])).is_ok());
        // Two draws so far, the one at a chance of zero among them.
        let mut same = handle().stream(TYPE);
        let draws: Vec<f64> = (0..3).map(|_| same.unit()).collect();
        assert_eq!(admitter.next_draw(), draws[2]);
    }

    #[test]
    fn parameters_are_above_zero() {
        for key in ["queueDepthThreshold", "kvCacheUtilThreshold", "power", "k"] {
            let error = admitter(json!({ key: 0 })).expect_err(key).to_string();
            assert!(error.contains(&format!("{key} must be > 0, got 0")), "{error}");
        }
    }
}
