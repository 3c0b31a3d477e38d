//! Scores from one number of a whole cluster; a cluster without it is not scored.

use crate::attributes::ScalarMetricValue;
use crate::candidates::Candidate;
use crate::data_key::DataKey;
use crate::plugin::{DataFlow, Instance, Roles, TypedKey};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// How a number becomes a score.
#[derive(Clone, Copy, Debug)]
pub(super) enum Formula {
    /// `1 - v`.
    OneMinus,
    /// `(max - v) / (max - min)`, all equal = 1.0.
    LowerIsBetter,
}

/// Builds a scorer of type `plugin_type` that reads `attribute`.
///
/// The attribute is a plain one; as a key of the dependency graph it has an empty producer, so it must be
/// produced by a plugin that is configured.
pub(super) fn build(plugin_type: &str, name: &str, attribute: &str, formula: Formula) -> Instance {
    let required = DataKey::new(attribute, "");
    let data = DataFlow::consumer(vec![TypedKey::of::<ScalarMetricValue>(&required)]);
    let scorer = ClusterScorer { attribute: DataKey::plain(attribute), formula };
    Instance::new(plugin_type, name, Roles::scorer(scorer)).with_data(data)
}

struct ClusterScorer {
    attribute: DataKey,
    formula: Formula,
}

impl Scorer for ClusterScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Distribution
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let values = cx.candidates.read::<ScalarMetricValue>(&self.attribute);
        for (&candidate, score) in survivors.iter().zip(scores.iter_mut()) {
            *score = values.get(candidate).map(|value| value.0);
        }
        match self.formula {
            Formula::OneMinus => scores.iter_mut().flatten().for_each(|score| *score = 1.0 - *score),
            Formula::LowerIsBetter => lower_is_better(scores),
        }
    }
}

/// Turns values into scores. One NaN makes the range NaN, hence every score (scheduling spec 5.2).
fn lower_is_better(scores: &mut [Option<f64>]) {
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    for &value in scores.iter().flatten() {
        (min, max) = (minimum(min, value), maximum(max, value));
    }
    for score in scores.iter_mut().flatten() {
        *score = if max == min { 1.0 } else { (max - *score) / (max - min) };
    }
}

/// The smaller one; NaN if either is NaN.
fn minimum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.min(b) }
}

/// The greater one; NaN if either is NaN.
fn maximum(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
