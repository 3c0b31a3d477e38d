//! `endpoint-attribute-filter`: a threshold on a metric of the user's choice (scheduling spec 4.8).

use serde::{Deserialize, Serialize};

use super::retain_unless_all_go;
use crate::attributes::ScalarMetricValue;
use crate::candidates::Candidate;
use crate::data_key::DataKey;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{Filter, SchedulingContext, invalid, name_or};

/// Name of the type.
pub const TYPE: &str = "endpoint-attribute-filter";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct EndpointAttributeParameters {
    attribute: String,
    /// `Pass` or `Fail`, for candidates without the metric; empty = `Pass`.
    on_missing: String,
    /// Whether all stay where none would.
    fallback_on_empty: bool,
    algorithm: Algorithm,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Algorithm {
    #[serde(rename = "type")]
    kind: String,
    threshold: Option<Threshold>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Threshold {
    operator: String,
    value: f64,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let p: EndpointAttributeParameters = parameters.decode()?;
    if p.attribute.is_empty() {
        return Err(invalid("attribute is required: the metric to compare"));
    }
    let pass_missing = match p.on_missing.as_str() {
        "" | "Pass" => true,
        "Fail" => false,
        other => return Err(invalid(format!("onMissing {other:?} is unknown; accepted: Pass, Fail"))),
    };
    if p.algorithm.kind != "threshold" {
        let kind = p.algorithm.kind;
        return Err(invalid(format!("algorithm.type {kind:?} is unknown; accepted: threshold")));
    }
    let Some(threshold) = p.algorithm.threshold else {
        return Err(invalid("algorithm.threshold is required: {operator, value}"));
    };
    let filter = EndpointAttributeFilter {
        attribute: DataKey::plain(&p.attribute),
        pass_missing,
        fallback_on_empty: p.fallback_on_empty,
        passes: operator(&threshold.operator)?,
        threshold: threshold.value,
    };
    Ok(Instance::new(TYPE, name_or(name, TYPE), Roles::filter(filter)))
}

/// Whether a value passes against the threshold.
type Operator = fn(&f64, &f64) -> bool;

fn operator(name: &str) -> Result<Operator, FactoryError> {
    Ok(match name {
        "LessThan" => f64::lt,
        "LessThanOrEqual" => f64::le,
        "GreaterThan" => f64::gt,
        "GreaterThanOrEqual" => f64::ge,
        "Equal" => f64::eq,
        "NotEqual" => f64::ne,
        _ => {
            return Err(invalid(format!(
                "threshold.operator {name:?} is unknown; accepted: LessThan, LessThanOrEqual, GreaterThan, \
                 GreaterThanOrEqual, Equal, NotEqual"
            )));
        }
    })
}

struct EndpointAttributeFilter {
    attribute: DataKey,
    pass_missing: bool,
    fallback_on_empty: bool,
    passes: Operator,
    threshold: f64,
}

impl Filter for EndpointAttributeFilter {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        let values = cx.candidates.read::<ScalarMetricValue>(&self.attribute);
        let passes = |candidate| {
            values.get(candidate).map_or(self.pass_missing, |v| (self.passes)(&v.0, &self.threshold))
        };
        if self.fallback_on_empty {
            retain_unless_all_go(survivors, passes);
        } else {
            survivors.retain(|&candidate| passes(candidate));
        }
    }
}
