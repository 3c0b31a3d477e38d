//! `running-requests-size-scorer`: the fewer running requests, the better (scheduling spec 5.3).

use super::min_max;
use crate::candidates::Candidate;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "running-requests-size-scorer";

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles::scorer(RunningRequestsSizeScorer)))
}

struct RunningRequestsSizeScorer;

impl Scorer for RunningRequestsSizeScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Distribution
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        min_max::lower_is_better(survivors, scores, |&candidate| {
            cx.candidates.endpoint(candidate).metrics.running_requests_size
        });
    }
}
