//! `header-label-affinity-scorer`: endpoints whose label equals a request header (scheduling spec 5.8).

use serde::{Deserialize, Serialize};

use crate::candidates::Candidate;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory, invalid, name_or};

/// Name of the type.
pub const TYPE: &str = "header-label-affinity-scorer";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HeaderLabelParameters {
    header_name: String,
    label_key: String,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    if parameters.value().is_none() {
        return Err(invalid("header-label-affinity-scorer requires parameters: headerName and labelKey"));
    }
    let HeaderLabelParameters { header_name, label_key } = parameters.decode()?;
    if header_name.is_empty() {
        return Err(invalid("headerName is required: the request header to compare"));
    }
    if label_key.is_empty() {
        return Err(invalid("labelKey is required: the endpoint label to compare with"));
    }
    let scorer = HeaderLabelAffinityScorer { header: header_name.to_lowercase(), label: label_key };
    Ok(Instance::new(TYPE, name_or(name, TYPE), Roles::scorer(scorer)))
}

struct HeaderLabelAffinityScorer {
    header: String,
    label: String,
}

impl Scorer for HeaderLabelAffinityScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Affinity
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let wanted = cx.request.headers.get(&self.header).filter(|value| !value.is_empty());
        for (&candidate, score) in survivors.iter().zip(scores) {
            let label = cx.candidates.endpoint(candidate).metadata.labels.get(&self.label);
            let equal = wanted.is_some() && label.map(String::as_str) == wanted;
            *score = Some(f64::from(u8::from(equal)));
        }
    }
}
