//! `latency-scorer`: room between predicted latency and its objective (scheduling spec 5.12).

mod bucket;
mod composite;

use serde::{Deserialize, Serialize};

use self::bucket::{Headroom, Strategy};
use self::composite::Composite;
use crate::attributes::{LatencyPredictionInfo, PrefixCacheMatchInfo};
use crate::candidates::Candidate;
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "latency-scorer";

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct LatencyParameters {
    ttft_weight: f64,
    tpot_weight: f64,
    /// `most`; any other text is `least`.
    headroom_selection_strategy: String,
    #[serde(rename = "compositeKVWeight")]
    composite_kv_weight: f64,
    composite_queue_weight: f64,
    composite_prefix_weight: f64,
    latency_prediction_info_producer_name: String,
    prefix_match_info_producer_name: String,
}

impl Default for LatencyParameters {
    fn default() -> Self {
        LatencyParameters {
            ttft_weight: 0.8,
            tpot_weight: 0.2,
            headroom_selection_strategy: "least".to_owned(),
            composite_kv_weight: 1.0,
            composite_queue_weight: 1.0,
            composite_prefix_weight: 1.0,
            latency_prediction_info_producer_name: String::new(),
            prefix_match_info_producer_name: String::new(),
        }
    }
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let p: LatencyParameters = parameters.decode()?;
    let predictions = resolve(well_known::LATENCY_PREDICTION_INFO, &p.latency_prediction_info_producer_name);
    let matches = resolve(well_known::PREFIX_CACHE_MATCH_INFO, &p.prefix_match_info_producer_name);
    let data = DataFlow::consumer(vec![
        TypedKey::of::<LatencyPredictionInfo>(&predictions),
        TypedKey::of::<PrefixCacheMatchInfo>(&matches),
    ]);
    let strategy = if p.headroom_selection_strategy == "most" { Strategy::Most } else { Strategy::Least };
    let scorer = LatencyScorer {
        predictions,
        weights: bucket::normalise(p.ttft_weight, p.tpot_weight),
        strategy,
        composite: Composite::new(
            [p.composite_kv_weight, p.composite_queue_weight, p.composite_prefix_weight],
            matches,
        ),
    };
    Ok(Instance::new(TYPE, name, Roles::scorer(scorer)).with_data(data))
}

struct LatencyScorer {
    predictions: DataKey,
    /// Shares of the two headrooms: time to first token, time an output token.
    weights: (f64, f64),
    strategy: Strategy,
    composite: Composite,
}

impl Scorer for LatencyScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Balance
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let predictions = cx.candidates.read::<LatencyPredictionInfo>(&self.predictions);
        let predicted: Vec<Option<&LatencyPredictionInfo>> =
            survivors.iter().map(|&candidate| predictions.get(candidate)).collect();
        if predicted.iter().all(Option::is_none) {
            return self.composite.score(cx, survivors, scores);
        }
        scores.fill(Some(0.0));
        let (bucket, strategy) = self.choose(&predicted);
        bucket::score(&bucket, self.weights, strategy, scores);
    }
}

impl LatencyScorer {
    /// Returns the endpoints that compete, by place: those that meet their objectives, else the idle ones,
    /// else those that miss the less important objective only, and so on. The rest score zero.
    fn choose(&self, predicted: &[Option<&LatencyPredictionInfo>]) -> (Vec<Headroom>, Strategy) {
        let headroom = |(place, info): (usize, &Option<&LatencyPredictionInfo>)| Headroom {
            place,
            ttft: info.map_or(0.0, |info| info.ttft_headroom),
            tpot: info.map_or(0.0, |info| info.tpot_headroom),
        };
        let all = || predicted.iter().enumerate().map(headroom);
        // An endpoint without a prediction counts as one that just meets its objectives.
        let positive: Vec<Headroom> = all().filter(|h| !h.misses_ttft() && !h.misses_tpot()).collect();
        if !positive.is_empty() {
            return (positive, self.strategy);
        }
        let idle = |h: &Headroom| predicted[h.place].is_some_and(|i| i.dispatched_request_count == 0);
        let only =
            |ttft: bool, tpot: bool| move |h: &Headroom| h.misses_ttft() == ttft && h.misses_tpot() == tpot;
        let mut bucket: Vec<Headroom> = all().filter(idle).collect();
        for (ttft, tpot) in [(false, true), (true, false), (true, true)] {
            if bucket.is_empty() {
                bucket = all().filter(only(ttft, tpot)).collect();
            }
        }
        (bucket, Strategy::Least)
    }
}
