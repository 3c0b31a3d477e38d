//! `prefix-cache-scorer`: how much of the prompt the endpoint holds (scheduling spec 5.10).

use serde::{Deserialize, Serialize};

use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidate;
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory, invalid};

/// Name of the type.
pub const TYPE: &str = "prefix-cache-scorer";

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PrefixCacheParameters {
    /// Whose matches to read; empty = the default producer's.
    prefix_match_info_producer_name: String,
    /// Weight of the length of the match against its share of the prompt, 0..=1.
    match_length_weight: f64,
    /// Length of a match that counts fully. Unit: tokens.
    match_length_scale_tokens: i64,
}

impl Default for PrefixCacheParameters {
    fn default() -> Self {
        PrefixCacheParameters {
            prefix_match_info_producer_name: String::new(),
            match_length_weight: 0.0,
            match_length_scale_tokens: 8192,
        }
    }
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    build(TYPE, name, parameters)
}

/// Builds an instance that reports `plugin_type`.
pub(super) fn build(
    plugin_type: &str,
    name: &str,
    parameters: &Parameters,
) -> Result<Instance, FactoryError> {
    let p: PrefixCacheParameters = parameters.decode()?;
    let (weight, scale) = (p.match_length_weight, p.match_length_scale_tokens);
    if !(0.0..=1.0).contains(&weight) {
        return Err(invalid(format!("matchLengthWeight must be in [0, 1], got {weight}")));
    }
    if weight > 0.0 && scale <= 0 {
        return Err(invalid(format!(
            "matchLengthScaleTokens must be > 0 when matchLengthWeight is > 0, got {scale}"
        )));
    }
    let key = resolve(well_known::PREFIX_CACHE_MATCH_INFO, &p.prefix_match_info_producer_name);
    Ok(instance(plugin_type, name, PrefixCacheScorer { key, weight, scale: scale as f64 }))
}

/// Returns an instance that reports `plugin_type`, has no parameters and reads the matches of `producer`.
pub(super) fn reading(plugin_type: &str, name: &str, producer: &str) -> Instance {
    let key = resolve(well_known::PREFIX_CACHE_MATCH_INFO, producer);
    instance(plugin_type, name, PrefixCacheScorer { key, weight: 0.0, scale: 0.0 })
}

fn instance(plugin_type: &str, name: &str, scorer: PrefixCacheScorer) -> Instance {
    let data = DataFlow::consumer(vec![TypedKey::of::<PrefixCacheMatchInfo>(&scorer.key)]);
    Instance::new(plugin_type, name, Roles::scorer(scorer)).with_data(data)
}

struct PrefixCacheScorer {
    key: DataKey,
    weight: f64,
    scale: f64,
}

impl Scorer for PrefixCacheScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Affinity
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let matches = cx.candidates.read(&self.key);
        for (&candidate, score) in survivors.iter().zip(scores) {
            *score = Some(matches.get(candidate).map_or(0.0, |info| self.score_of(info)));
        }
    }
}

impl PrefixCacheScorer {
    fn score_of(&self, info: &PrefixCacheMatchInfo) -> f64 {
        if info.total_blocks == 0 {
            return 0.0;
        }
        let ratio = info.match_blocks as f64 / info.total_blocks as f64;
        let mut length = 0.0;
        if self.weight > 0.0 && info.block_size_tokens > 0 {
            let tokens = info.match_blocks.wrapping_mul(info.block_size_tokens) as f64;
            length = (tokens / self.scale).min(1.0);
            // Attention costs the square of the length, so the square is what a match saves.
            length *= length;
        }
        self.weight * length + (1.0 - self.weight) * ratio
    }
}
