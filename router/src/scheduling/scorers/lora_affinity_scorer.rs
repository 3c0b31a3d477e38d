//! `lora-affinity-scorer`: endpoints that have the adapter loaded, or room for it (scheduling spec 5.4).

use crate::candidates::Candidate;
use crate::endpoint::Metrics;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "lora-affinity-scorer";

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles::scorer(LoraAffinityScorer)))
}

struct LoraAffinityScorer;

impl Scorer for LoraAffinityScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Affinity
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        for (&candidate, score) in survivors.iter().zip(scores) {
            *score = Some(score_of(&cx.candidates.endpoint(candidate).metrics, &cx.request.target_model));
        }
    }
}

fn score_of(metrics: &Metrics, model: &str) -> f64 {
    let adapters = metrics.active_models.len() + metrics.waiting_models.len();
    if metrics.active_models.contains_key(model) {
        1.0
    } else if (adapters as i64) < metrics.max_active_models {
        0.8
    } else if metrics.waiting_models.contains_key(model) {
        0.6
    } else {
        0.0
    }
}
