//! `prefix-cache-affinity-filter`: endpoints that hold the prefix, unless they are too loaded (scheduling spec
//! 4.9).

use std::cell::RefCell;

use executor::Stream;
use serde::{Deserialize, Serialize};

use crate::attributes::{InFlightLoad, LatencyPredictionInfo, PrefixCacheMatchInfo};
use crate::candidates::Candidate;
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::scheduling::{Filter, SchedulingContext, invalid};

/// Name of the type.
pub const TYPE: &str = "prefix-cache-affinity-filter";

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PrefixAffinityParameters {
    /// Share of the prompt from which a match is sticky; not positive = the filter is off.
    affinity_threshold: f64,
    /// Chance that all pass.
    exploration_probability: f64,
    /// How much later the first token of a sticky endpoint may come; 0 = any. Unit: milliseconds.
    #[serde(rename = "maxTTFTPenaltyMs")]
    max_ttft_penalty_ms: f64,
    /// Where times to first token come from: `prefillThroughput` or `latencyPredictor`.
    ttft_source: String,
    /// Unit: tokens a second.
    peak_prefill_throughput: f64,
    prefix_match_info_producer_name: String,
    latency_prediction_info_producer_name: String,
    in_flight_load_producer_name: String,
}

impl Default for PrefixAffinityParameters {
    fn default() -> Self {
        PrefixAffinityParameters {
            affinity_threshold: 0.80,
            exploration_probability: 0.0,
            max_ttft_penalty_ms: 18_000.0,
            ttft_source: "prefillThroughput".to_owned(),
            peak_prefill_throughput: 15_928.0,
            prefix_match_info_producer_name: String::new(),
            latency_prediction_info_producer_name: String::new(),
            in_flight_load_producer_name: String::new(),
        }
    }
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let p: PrefixAffinityParameters = parameters.decode()?;
    let source = p.validate()?;
    let matches = resolve(well_known::PREFIX_CACHE_MATCH_INFO, &p.prefix_match_info_producer_name);
    let mut requires = vec![TypedKey::of::<PrefixCacheMatchInfo>(&matches)];
    if p.max_ttft_penalty_ms > 0.0 {
        requires.push(match &source {
            Ttft::Predicted(key) => TypedKey::of::<LatencyPredictionInfo>(key),
            Ttft::FromLoad { key, .. } => TypedKey::of::<InFlightLoad>(key),
        });
    }
    let filter = PrefixCacheAffinityFilter {
        threshold: p.affinity_threshold,
        exploration: p.exploration_probability,
        max_penalty_ms: p.max_ttft_penalty_ms,
        matches,
        source,
        stream: RefCell::new(handle.stream(&format!("filter/{name}"))),
    };
    Ok(Instance::new(TYPE, name, Roles::filter(filter)).with_data(DataFlow::consumer(requires)))
}

impl PrefixAffinityParameters {
    fn validate(&self) -> Result<Ttft, FactoryError> {
        if self.affinity_threshold > 1.0 {
            let got = self.affinity_threshold;
            return Err(invalid(format!("affinityThreshold must be <= 1.0, got {got}")));
        }
        if !(0.0..=1.0).contains(&self.exploration_probability) {
            let got = self.exploration_probability;
            return Err(invalid(format!("explorationProbability must be in [0, 1], got {got}")));
        }
        if self.max_ttft_penalty_ms < 0.0 {
            let got = self.max_ttft_penalty_ms;
            return Err(invalid(format!("maxTTFTPenaltyMs must be >= 0, got {got}")));
        }
        let peak = self.peak_prefill_throughput;
        if peak < 0.0 {
            return Err(invalid(format!("peakPrefillThroughput must be >= 0, got {peak}")));
        }
        match self.ttft_source.as_str() {
            "latencyPredictor" => {
                let producer = &self.latency_prediction_info_producer_name;
                Ok(Ttft::Predicted(resolve(well_known::LATENCY_PREDICTION_INFO, producer)))
            }
            "prefillThroughput" if peak == 0.0 && self.max_ttft_penalty_ms > 0.0 => {
                Err(invalid("peakPrefillThroughput must be > 0 when ttftSource is prefillThroughput"))
            }
            "prefillThroughput" => {
                let key = resolve(well_known::IN_FLIGHT_LOAD, &self.in_flight_load_producer_name);
                Ok(Ttft::FromLoad { key, peak })
            }
            other => Err(invalid(format!(
                "ttftSource must be prefillThroughput or latencyPredictor, got {other:?}"
            ))),
        }
    }
}

/// Where times to first token come from.
enum Ttft {
    Predicted(DataKey),
    FromLoad { key: DataKey, peak: f64 },
}

impl Ttft {
    /// Returns the least time to first token among the candidates. Unit: milliseconds.
    ///
    /// A missing prediction is the largest double; a missing load is none.
    fn least(&self, cx: &SchedulingContext<'_>, candidates: &[Candidate]) -> f64 {
        match self {
            Ttft::Predicted(key) => {
                let predictions = cx.candidates.read::<LatencyPredictionInfo>(key);
                least(candidates, |c| predictions.get(c).map_or(f64::MAX, |info| info.ttft))
            }
            Ttft::FromLoad { key, peak } => {
                let loads = cx.candidates.read::<InFlightLoad>(key);
                let tokens = |c| loads.get(c).map_or(0, |load| load.tokens.get()) as f64;
                least(candidates, |c| tokens(c) / peak * 1000.0)
            }
        }
    }
}

/// Returns the least value; the first one if it is NaN, which nothing is less than.
fn least(candidates: &[Candidate], value: impl Fn(Candidate) -> f64) -> f64 {
    let values = candidates.iter().map(|&candidate| value(candidate));
    values.fold(f64::MAX, |least, value| if value < least { value } else { least })
}

struct PrefixCacheAffinityFilter {
    threshold: f64,
    exploration: f64,
    max_penalty_ms: f64,
    matches: DataKey,
    source: Ttft,
    stream: RefCell<Stream>,
}

impl Filter for PrefixCacheAffinityFilter {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        if survivors.len() <= 1 || self.threshold <= 0.0 {
            return;
        }
        if self.stream.borrow_mut().unit() < self.exploration {
            return;
        }
        let matches = cx.candidates.read::<PrefixCacheMatchInfo>(&self.matches);
        let is_sticky = |&candidate: &Candidate| matches.get(candidate).map_or(0.0, share) >= self.threshold;
        let (sticky, others): (Vec<Candidate>, Vec<Candidate>) = survivors.iter().partition(|c| is_sticky(c));
        if sticky.is_empty() {
            return;
        }
        if self.max_penalty_ms > 0.0 && !others.is_empty() {
            let penalty = self.source.least(cx, &sticky) - self.source.least(cx, &others);
            if penalty > self.max_penalty_ms {
                return;
            }
        }
        *survivors = sticky;
    }
}

fn share(info: &PrefixCacheMatchInfo) -> f64 {
    if info.total_blocks > 0 { info.match_blocks as f64 / info.total_blocks as f64 } else { 0.0 }
}
