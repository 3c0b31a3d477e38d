//! `load-aware-scorer`: from 0.5 for an empty queue down to 0 for a full one (scheduling spec 5.5).

use serde::{Deserialize, Serialize};

use crate::candidates::Candidate;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "load-aware-scorer";

/// Queue length that scores zero, where the configuration does not say.
const DEFAULT_THRESHOLD: i64 = 128;

/// Score of an empty queue.
const BEST: f64 = 0.5;

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct LoadAwareParameters {
    /// Queue length that scores zero; not positive = the default.
    threshold: i64,
}

impl Default for LoadAwareParameters {
    fn default() -> Self {
        LoadAwareParameters { threshold: DEFAULT_THRESHOLD }
    }
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let LoadAwareParameters { mut threshold } = parameters.decode()?;
    if threshold <= 0 {
        tracing::warn!(plugin = name, threshold, "threshold must be positive; using {DEFAULT_THRESHOLD}");
        threshold = DEFAULT_THRESHOLD;
    }
    Ok(Instance::new(TYPE, name, Roles::scorer(LoadAwareScorer { threshold })))
}

struct LoadAwareScorer {
    threshold: i64,
}

impl Scorer for LoadAwareScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Distribution
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let threshold = self.threshold as f64;
        for (&candidate, score) in survivors.iter().zip(scores) {
            let waiting = cx.candidates.endpoint(candidate).metrics.waiting_queue_size;
            *score = Some(if waiting == 0 {
                BEST
            } else {
                BEST * (1.0 - waiting.min(self.threshold) as f64 / threshold)
            });
        }
    }
}
