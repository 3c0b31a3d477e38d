//! `mm-embeddings-cache-scorer`: the share of the multimodal input that the endpoint has encoded before
//! (scheduling spec 5.13).

use serde::{Deserialize, Serialize};

use crate::attributes::{EncoderCacheMatchInfo, EncoderItem};
use crate::candidates::Candidate;
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "mm-embeddings-cache-scorer";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct EncoderCacheParameters {
    /// Whose matches to read; empty = the default producer's.
    producer_name: String,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let EncoderCacheParameters { producer_name } = parameters.decode()?;
    let key = resolve(well_known::ENCODER_CACHE_MATCH_INFO, &producer_name);
    let data = DataFlow::consumer(vec![TypedKey::of::<EncoderCacheMatchInfo>(&key)]);
    Ok(Instance::new(TYPE, name, Roles::scorer(EncoderCacheScorer { key })).with_data(data))
}

struct EncoderCacheScorer {
    key: DataKey,
}

impl Scorer for EncoderCacheScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Affinity
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let matches = cx.candidates.read::<EncoderCacheMatchInfo>(&self.key);
        for (&candidate, score) in survivors.iter().zip(scores) {
            *score = Some(matches.get(candidate).map_or(0.0, score_of));
        }
    }
}

fn score_of(info: &EncoderCacheMatchInfo) -> f64 {
    let total = size(&info.request_items);
    if total <= 0 { 0.0 } else { size(&info.matched_items) as f64 / total as f64 }
}

fn size(items: &[EncoderItem]) -> i64 {
    items.iter().fold(0, |sum, item| sum.wrapping_add(item.size))
}
