//! `active-request-scorer`: the fewer requests this router has in flight there, the better (scheduling spec 5.11).

use std::cell::RefCell;

use serde::{Deserialize, Serialize};

use crate::attributes::InFlightLoad;
use crate::candidates::Candidate;
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "active-request-scorer";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ActiveRequestParameters {
    /// Requests up to which an endpoint counts as idle; negative = 0.
    idle_threshold: i64,
    /// The best score of a busy endpoint, 0..=1; absent or outside = 1.
    max_busy_score: Option<f64>,
    /// Whose counters to read; empty = the default producer's.
    in_flight_load_producer_name: String,
    /// Had a meaning once.
    #[serde(rename = "requestTimeout")]
    _request_timeout: Option<String>,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let p: ActiveRequestParameters = parameters.decode()?;
    let max_busy_score = p.max_busy_score.unwrap_or(1.0);
    let accepted = (0.0..=1.0).contains(&max_busy_score);
    if !accepted {
        tracing::warn!(plugin = name, max_busy_score, "maxBusyScore must be in [0, 1]; using 1.0");
    }
    let key = resolve(well_known::IN_FLIGHT_LOAD, &p.in_flight_load_producer_name);
    let data = DataFlow::consumer(vec![TypedKey::of::<InFlightLoad>(&key)]);
    let scorer = ActiveRequestScorer {
        key,
        idle_threshold: p.idle_threshold.max(0),
        max_busy_score: if accepted { max_busy_score } else { 1.0 },
        counts: RefCell::default(),
    };
    Ok(Instance::new(TYPE, name, Roles::scorer(scorer)).with_data(data))
}

struct ActiveRequestScorer {
    key: DataKey,
    idle_threshold: i64,
    max_busy_score: f64,
    /// Scratch of one call: requests of each survivor.
    counts: RefCell<Vec<i64>>,
}

impl Scorer for ActiveRequestScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Distribution
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let loads = cx.candidates.read::<InFlightLoad>(&self.key);
        let mut counts = self.counts.borrow_mut();
        counts.clear();
        counts.extend(survivors.iter().map(|&c| loads.get(c).map_or(0, |load| load.requests.get())));
        let max = counts.iter().copied().fold(0, i64::max);
        for (&count, score) in counts.iter().zip(scores) {
            *score = Some(if count <= self.idle_threshold {
                1.0
            } else {
                max.wrapping_sub(count) as f64 / max as f64 * self.max_busy_score
            });
        }
    }
}
