//! `queue-scorer`: the shorter the queue, the better (scheduling spec 5.2).

use super::min_max;
use crate::candidates::Candidate;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "queue-scorer";

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles::scorer(QueueScorer)))
}

struct QueueScorer;

impl Scorer for QueueScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Distribution
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        min_max::lower_is_better(survivors, scores, |&candidate| {
            cx.candidates.endpoint(candidate).metrics.waiting_queue_size
        });
    }
}
