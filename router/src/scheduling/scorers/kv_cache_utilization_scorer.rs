//! `kv-cache-utilization-scorer`: the share of the KV cache that is free (scheduling spec 5.1).

use crate::candidates::Candidate;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "kv-cache-utilization-scorer";

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles::scorer(KvCacheUtilizationScorer)))
}

struct KvCacheUtilizationScorer;

impl Scorer for KvCacheUtilizationScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Distribution
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        for (&candidate, score) in survivors.iter().zip(scores) {
            *score = Some(1.0 - cx.candidates.endpoint(candidate).metrics.kv_cache_usage_percent);
        }
    }
}
