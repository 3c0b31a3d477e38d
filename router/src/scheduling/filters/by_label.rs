//! `by-label`: values that one label may have (scheduling spec 4.2); the role filters are made of it.

use serde::{Deserialize, Serialize};

use crate::candidates::Candidate;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{Filter, SchedulingContext, invalid};

/// Name of the type.
pub const TYPE: &str = "by-label";

/// The label that says what part of a request an endpoint serves.
pub const ROLE_LABEL: &str = "llm-d.ai/role";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ByLabelParameters {
    label: String,
    valid_values: Vec<String>,
    allows_no_label: bool,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let ByLabelParameters { label, valid_values, allows_no_label } = parameters.decode()?;
    if name.is_empty() {
        return Err(invalid("a by-label filter needs a name"));
    }
    if label.is_empty() {
        return Err(invalid("label is required: the label whose value decides"));
    }
    if valid_values.is_empty() && !allows_no_label {
        return Err(invalid("validValues must list at least one value unless allowsNoLabel is true"));
    }
    Ok(Instance::new(TYPE, name, Roles::filter(ByLabel { label, valid_values, allows_no_label })))
}

/// Returns a filter on the role label; it reports the type `by-label` (scheduling spec 4.3).
pub(super) fn role_filter(name: &str, roles: &[&str], allows_no_label: bool) -> Instance {
    let valid_values = roles.iter().map(|&role| role.to_owned()).collect();
    let filter = ByLabel { label: ROLE_LABEL.to_owned(), valid_values, allows_no_label };
    Instance::new(TYPE, name, Roles::filter(filter))
}

struct ByLabel {
    label: String,
    valid_values: Vec<String>,
    allows_no_label: bool,
}

impl Filter for ByLabel {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        survivors.retain(|&candidate| {
            let value = cx.candidates.endpoint(candidate).metadata.labels.get(&self.label);
            // An absent label reads as the empty text, which the values may list.
            (value.is_none() && self.allows_no_label)
                || self.valid_values.iter().any(|valid| valid == value.map_or("", String::as_str))
        });
    }
}
