//! `slo-headroom-tier-filter`: those that meet the latency objectives, now and then the others (scheduling spec
//! 4.7).

use std::cell::RefCell;

use executor::Stream;
use serde::{Deserialize, Serialize};

use crate::attributes::LatencyPredictionInfo;
use crate::candidates::Candidate;
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::scheduling::{Filter, SchedulingContext, invalid};

/// Name of the type.
pub const TYPE: &str = "slo-headroom-tier-filter";

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HeadroomTierParameters {
    /// Chance of choosing the tier that misses its objectives.
    epsilon_explore_neg: f64,
    /// Whose predictions to read; empty = the default producer's.
    latency_prediction_info_producer_name: String,
}

impl Default for HeadroomTierParameters {
    fn default() -> Self {
        HeadroomTierParameters {
            epsilon_explore_neg: 0.01,
            latency_prediction_info_producer_name: String::new(),
        }
    }
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let p: HeadroomTierParameters = parameters.decode()?;
    let epsilon = p.epsilon_explore_neg;
    if !(0.0..=1.0).contains(&epsilon) {
        return Err(invalid(format!("epsilonExploreNeg must be in [0, 1], got {epsilon}")));
    }
    let key = resolve(well_known::LATENCY_PREDICTION_INFO, &p.latency_prediction_info_producer_name);
    let data = DataFlow::consumer(vec![TypedKey::of::<LatencyPredictionInfo>(&key)]);
    let stream = RefCell::new(handle.stream(&format!("filter/{name}")));
    let filter = HeadroomTierFilter { key, epsilon, stream };
    Ok(Instance::new(TYPE, name, Roles::filter(filter)).with_data(data))
}

struct HeadroomTierFilter {
    key: DataKey,
    epsilon: f64,
    stream: RefCell<Stream>,
}

impl Filter for HeadroomTierFilter {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        if survivors.len() <= 1 {
            return;
        }
        let predictions = cx.candidates.read::<LatencyPredictionInfo>(&self.key);
        let (mut meeting, mut missing, mut unpredicted) = (Vec::new(), Vec::new(), Vec::new());
        for &candidate in &*survivors {
            match predictions.get(candidate) {
                None => unpredicted.push(candidate),
                Some(info) if info.ttft_headroom >= 0.0 && info.tpot_headroom >= 0.0 => {
                    meeting.push(candidate);
                }
                Some(_) => missing.push(candidate),
            }
        }
        if meeting.is_empty() && missing.is_empty() {
            return;
        }
        missing.extend(unpredicted);
        *survivors = match (meeting.is_empty(), missing.is_empty()) {
            (true, _) => missing,
            (_, true) => meeting,
            _ if self.stream.borrow_mut().unit() < self.epsilon => missing,
            _ => meeting,
        };
    }
}
