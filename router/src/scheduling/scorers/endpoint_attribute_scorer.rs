//! `endpoint-attribute-scorer`: a linear score of a metric of the user's choice (scheduling spec 5.9).

use serde::{Deserialize, Serialize};

use crate::attributes::ScalarMetricValue;
use crate::candidates::Candidate;
use crate::data_key::DataKey;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory, invalid};

/// Name of the type.
pub const TYPE: &str = "endpoint-attribute-scorer";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct EndpointAttributeParameters {
    attribute_key: String,
    algorithm: Algorithm,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Algorithm {
    #[serde(rename = "type")]
    kind: String,
    normalization: Option<Normalization>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Normalization {
    adaptive_range: Option<AdaptiveRange>,
    fixed_range: Option<FixedRange>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct AdaptiveRange {}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct FixedRange {
    min: f64,
    max: f64,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let EndpointAttributeParameters { attribute_key, algorithm } = parameters.decode()?;
    if attribute_key.is_empty() {
        return Err(invalid("attributeKey is required: the metric to score"));
    }
    let lower_is_better = match algorithm.kind.as_str() {
        "linear_lower_is_better" => true,
        "linear_higher_is_better" => false,
        other => {
            return Err(invalid(format!(
                "algorithm.type {other:?} is unknown; accepted: linear_lower_is_better, \
                 linear_higher_is_better"
            )));
        }
    };
    let normalization = algorithm.normalization.unwrap_or_default();
    if normalization.adaptive_range.is_some() && normalization.fixed_range.is_some() {
        return Err(invalid("at most one normalization strategy: adaptiveRange or fixedRange"));
    }
    if let Some(range) = normalization.fixed_range
        && range.min >= range.max
    {
        let FixedRange { min, max } = range;
        return Err(invalid(format!("fixedRange needs min < max, got min {min} and max {max}")));
    }
    let scorer = EndpointAttributeScorer {
        attribute: DataKey::plain(&attribute_key),
        lower_is_better,
        fixed_range: normalization.fixed_range,
    };
    Ok(Instance::new(TYPE, name, Roles::scorer(scorer)))
}

struct EndpointAttributeScorer {
    attribute: DataKey,
    lower_is_better: bool,
    fixed_range: Option<FixedRange>,
}

impl Scorer for EndpointAttributeScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Distribution
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let values = cx.candidates.read::<ScalarMetricValue>(&self.attribute);
        for (&candidate, score) in survivors.iter().zip(scores.iter_mut()) {
            *score = values.get(candidate).map(|value| value.0);
        }
        let range = self.fixed_range.unwrap_or_else(|| range_of(scores));
        for score in scores {
            *score = Some(score.map_or(0.0, |value| self.score_of(value, range)));
        }
    }
}

impl EndpointAttributeScorer {
    fn score_of(&self, value: f64, FixedRange { min, max }: FixedRange) -> f64 {
        if max == min {
            return 1.0;
        }
        let mut x = (value - min) / (max - min);
        if self.fixed_range.is_some() {
            x = x.clamp(0.0, 1.0);
        }
        if self.lower_is_better { 1.0 - x } else { x }
    }
}

/// Returns the range of the values; NaN takes no part.
fn range_of(values: &[Option<f64>]) -> FixedRange {
    let (min, max) = (f64::INFINITY, f64::NEG_INFINITY);
    let range = FixedRange { min, max };
    values.iter().flatten().fold(range, |r, &v| FixedRange { min: r.min.min(v), max: r.max.max(v) })
}
