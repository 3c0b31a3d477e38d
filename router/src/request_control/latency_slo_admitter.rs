//! `latency-slo-admitter`: turns sheddable requests away whose latency objectives no endpoint can meet
//! (request-control spec 9.1).

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::{Admitter, go_float};
use crate::attributes::LatencyPredictionInfo;
use crate::candidates::Candidates;
use crate::data_key::{DataKey, resolve, well_known};
use crate::director::headers::{SLO_TPOT_MS, SLO_TTFT_MS};
use crate::error::PluginError;
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::request::InferenceRequest;

/// Name of the type.
pub const TYPE: &str = "latency-slo-admitter";

/// An endpoint whose cache is used less than this is cold: nothing is known of it yet.
const COLD: f64 = 0.02;

/// Parameters of the type.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct LatencySloParameters {
    /// Whose predictions to read; empty = the default producer's.
    pub latency_prediction_info_producer_name: String,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let LatencySloParameters { latency_prediction_info_producer_name } = parameters.decode()?;
    let key = resolve(well_known::LATENCY_PREDICTION_INFO, &latency_prediction_info_producer_name);
    let data = DataFlow::consumer(vec![TypedKey::of::<LatencyPredictionInfo>(&key)]);
    let roles = Roles { admitter: Some(Rc::new(LatencySloAdmitter { key })), ..Roles::default() };
    Ok(Instance::new(TYPE, name, roles).with_data(data))
}

struct LatencySloAdmitter {
    key: DataKey,
}

impl Admitter for LatencySloAdmitter {
    fn admit(&self, request: &InferenceRequest, candidates: &Candidates) -> Result<(), PluginError> {
        let asks = |names| objective_ms(request, names).is_some();
        if request.priority >= 0 || !(asks(&SLO_TTFT_MS) || asks(&SLO_TPOT_MS)) {
            return Ok(());
        }
        let predictions = candidates.read::<LatencyPredictionInfo>(&self.key);
        let mut predicted = false;
        for candidate in candidates.all() {
            let metrics = &candidates.endpoint(candidate).metrics;
            if metrics.kv_cache_usage_percent < COLD || metrics.running_requests_size == 0 {
                return Ok(());
            }
            if let Some(info) = predictions.get(candidate) {
                predicted = true;
                if info.ttft_valid && info.tpot_valid {
                    return Ok(());
                }
            }
        }
        // Without a prediction nothing is known against the request.
        match predicted {
            false => Ok(()),
            true => Err(PluginError::other("no valid endpoint available to serve the request")),
        }
    }
}

/// Returns the objective that the first of `names` that is present gives, `None` unless it is above zero.
/// Unit: milliseconds.
fn objective_ms(request: &InferenceRequest, names: &[&str]) -> Option<f64> {
    request.headers.first_present(names).and_then(go_float::parse).filter(|ms| *ms > 0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::endpoint::Metrics;
    use crate::scheduling::testing::{candidates, endpoint, handle};

    type Pod = (f64, i64, Option<bool>);

    fn admits(headers: &[(&str, &str)], priority: i64, pods: &[Pod]) -> bool {
        let instance = factory(TYPE, &Parameters::new(json!({})), &handle()).unwrap();
        let of = |(kv, running, _): &Pod| {
            let metrics = Metrics {
                kv_cache_usage_percent: *kv,
                running_requests_size: *running,
                ..Metrics::default()
            };
            endpoint("e", metrics)
        };
        let mut candidates = candidates(pods.iter().map(of));
        let info = |(_, _, valid): &Pod| {
            valid.map(|valid| LatencyPredictionInfo {
                ttft_valid: valid,
                tpot_valid: valid,
                ..Default::default()
            })
        };
        let key = resolve(well_known::LATENCY_PREDICTION_INFO, "");
        candidates.put(key, pods.iter().map(info).collect());
        let headers = headers.iter().copied().collect();
        let request = InferenceRequest { headers, priority, ..InferenceRequest::default() };
        instance.roles.admitter.unwrap().admit(&request, &candidates).is_ok()
    }

    /// Request-control spec 9.1.
    #[test]
    fn sheddable_requests_need_an_endpoint_that_meets_their_objectives() {
        let new = [("x-llm-d-slo-ttft-ms", "100"), ("x-llm-d-slo-tpot-ms", "30")];
        let busy: [Pod; 2] = [(0.5, 5, Some(false)), (0.4, 3, Some(false))];
        assert!(!admits(&new, -1, &busy));
        assert!(admits(&new, 0, &busy), "not sheddable");
        assert!(admits(&[], -1, &busy), "no objective");
        assert!(admits(&new, -1, &[busy[0], (0.4, 0, Some(false))]), "one is idle");
        assert!(admits(&new, -1, &[busy[0], (0.01, 3, Some(false))]), "one is cold");
        assert!(admits(&new, -1, &[busy[0], (0.4, 3, Some(true))]), "one is valid");
        assert!(admits(&new, -1, &[(0.5, 5, None), (0.4, 3, None)]), "nothing is predicted");
        let old = [("x-slo-ttft-ms", "100"), ("x-slo-tpot-ms", "30")];
        assert!(!admits(&old, -1, &busy));
        let hidden = [("x-llm-d-slo-ttft-ms", "0"), ("x-llm-d-slo-tpot-ms", "0"), old[0], old[1]];
        assert!(admits(&hidden, -1, &busy), "a current name hides its alias");
        assert!(!admits(&[("x-slo-ttft-ms", "inf")], -1, &busy));
        assert!(admits(&[("x-slo-ttft-ms", "NaN")], -1, &busy));
    }
}
