//! `label-selector-filter`: endpoints that a Kubernetes label selector matches (scheduling spec 4.1).

mod syntax;
mod text;

pub(crate) use text::LabelSelectorText;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::candidates::Candidate;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{Filter, SchedulingContext, invalid};

/// Name of the type.
pub const TYPE: &str = "label-selector-filter";

/// The type's old name.
pub const DEPRECATED_TYPE: &str = "by-label-selector";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct LabelSelector {
    match_labels: BTreeMap<String, String>,
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Expression {
    key: String,
    operator: String,
    values: Vec<String>,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    build(TYPE, name, parameters)
}

/// Builds an instance under the old name, which it reports.
pub fn deprecated_factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    build(DEPRECATED_TYPE, name, parameters)
}

fn build(plugin_type: &str, name: &str, parameters: &Parameters) -> Result<Instance, FactoryError> {
    let selector: LabelSelector = parameters.decode()?;
    if name.is_empty() {
        return Err(invalid(format!("a {plugin_type} needs a name")));
    }
    let mut requirements = Vec::new();
    for (key, value) in selector.match_labels {
        requirements.push(Requirement::new(key, Test::In(vec![value]))?);
    }
    for Expression { key, operator, values } in selector.match_expressions {
        requirements.push(Requirement::new(key, Test::new(&operator, values)?)?);
    }
    Ok(Instance::new(plugin_type, name, Roles::filter(LabelSelectorFilter(requirements))))
}

/// What a selector asks of one label.
struct Requirement {
    key: String,
    test: Test,
}

enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Test {
    fn new(operator: &str, values: Vec<String>) -> Result<Self, FactoryError> {
        match (operator, values.is_empty()) {
            ("In", false) => Ok(Test::In(values)),
            ("NotIn", false) => Ok(Test::NotIn(values)),
            ("Exists", true) => Ok(Test::Exists),
            ("DoesNotExist", true) => Ok(Test::DoesNotExist),
            ("In" | "NotIn", true) => Err(invalid(format!("operator {operator} needs at least one value"))),
            ("Exists" | "DoesNotExist", false) => {
                Err(invalid(format!("operator {operator} takes no values")))
            }
            _ => Err(invalid(format!(
                "{operator:?} is not a label selector operator; accepted: In, NotIn, Exists, DoesNotExist"
            ))),
        }
    }
}

impl Requirement {
    fn new(key: String, test: Test) -> Result<Self, FactoryError> {
        syntax::check_key(&key)?;
        if let Test::In(values) | Test::NotIn(values) = &test {
            values.iter().try_for_each(|value| syntax::check_value(&key, value))?;
        }
        Ok(Requirement { key, test })
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    }
}

struct LabelSelectorFilter(Vec<Requirement>);

impl Filter for LabelSelectorFilter {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        survivors.retain(|&candidate| {
            let labels = &cx.candidates.endpoint(candidate).metadata.labels;
            self.0.iter().all(|requirement| requirement.matches(labels))
        });
    }
}
