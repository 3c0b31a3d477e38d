//! `request-attribute-reporter`: tells the proxy a number that is computed from a response's token usage
//! (request-control spec 12).

mod expression;

use std::rc::Rc;
use std::sync::Arc;

use cel::{Context, Env, Value};
use serde::{Deserialize, Serialize};

use super::{ResponseBodyProcessor, ResponseRecord, Usage};
use crate::endpoint::EndpointMetadata;
use crate::plugin::{FactoryError, Handle, Instance, ParameterError, Parameters, Roles};
use crate::request::InferenceRequest;
use expression::Expression;

/// Name of the type.
pub const TYPE: &str = "request-attribute-reporter";

/// Namespace of the metadata where none is given.
const DEFAULT_NAMESPACE: &str = "envoy.lb";

/// Parameters of the type.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RequestAttributeReporterParameters {
    /// What is reported; exactly one entry.
    pub attributes: Vec<AttributeParameters>,
}

/// A number to report.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AttributeParameters {
    /// Where the proxy finds it.
    pub key: AttributeKey,
    /// CEL expression of `usage` that gives it.
    pub expression: String,
    /// CEL expression of `usage` that must be `true` for it to be reported; empty = always.
    pub condition: String,
}

/// A field of dynamic metadata.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AttributeKey {
    /// Namespace, `envoy.lb` where empty.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Builds an instance.
///
/// # Errors
/// Not exactly one attribute, one without name or expression, an expression that is no CEL over `usage`.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let mut parameters: RequestAttributeReporterParameters = parameters.decode()?;
    let (Some(attribute), true) = (parameters.attributes.pop(), parameters.attributes.is_empty()) else {
        let message = "attributes must contain exactly one entry";
        return Err(ParameterError::at("attributes", message).into());
    };
    let reporter = Rc::new(RequestAttributeReporter::new(attribute)?);
    let roles = Roles { response_body: Some(reporter), ..Roles::default() };
    Ok(Instance::new(TYPE, name, roles))
}

struct RequestAttributeReporter {
    key: AttributeKey,
    expression: Expression,
    condition: Option<Expression>,
    env: Arc<Env>,
}

impl RequestAttributeReporter {
    fn new(attribute: AttributeParameters) -> Result<Self, ParameterError> {
        let AttributeParameters { mut key, expression, condition } = attribute;
        if key.name.is_empty() {
            return Err(ParameterError::new("attributeKey.name cannot be empty"));
        }
        if expression.is_empty() {
            return Err(ParameterError::new("attributes[0].expression cannot be empty"));
        }
        if key.namespace.is_empty() {
            DEFAULT_NAMESPACE.clone_into(&mut key.namespace);
        }
        // Optional values are no part of the language that the llm-d Router compiles.
        let env = Env::stdlib().with_optional_support(false);
        let compile = |what, text: &str| {
            Expression::compile(&env, text)
                .map_err(|why| ParameterError::new(format!("failed to compile {what}: {why}")))
        };
        let expression = compile("expression", &expression)?;
        let condition = match condition.is_empty() {
            true => None,
            false => Some(compile("condition", &condition)?),
        };
        Ok(RequestAttributeReporter { key, expression, condition, env: Arc::new(env) })
    }

    /// Returns the number to report, if there is one.
    fn number(&self, usage: &Usage) -> Option<i64> {
        let mut context = Context::with_env(Arc::clone(&self.env));
        context.add_variable_from_value("usage", cel::to_value(UsageRecord::from(usage)).ok()?);
        if let Some(condition) = &self.condition
            && condition.evaluate(&context) != Some(Value::Bool(true))
        {
            return None;
        }
        let number = match self.expression.evaluate(&context)? {
            Value::Int(number) => number,
            Value::Float(number) => truncated(number),
            _ => return None,
        };
        // 0 and -1 say that there is nothing to report.
        Some(number).filter(|number| !matches!(number, 0 | -1))
    }
}

/// Cuts a double to an integer as the llm-d Router does on amd64: what does not fit is the smallest one.
fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// The variable `usage`: all numbers are doubles.
#[derive(Serialize)]
struct UsageRecord {
    prompt_tokens: f64,
    completion_tokens: f64,
    total_tokens: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens_details: Option<Details>,
}

#[derive(Serialize)]
struct Details {
    cached_tokens: f64,
}

impl From<&Usage> for UsageRecord {
    fn from(usage: &Usage) -> Self {
        UsageRecord {
            prompt_tokens: usage.prompt_tokens as f64,
            completion_tokens: usage.completion_tokens as f64,
            total_tokens: usage.total_tokens as f64,
            prompt_tokens_details: usage.cached_tokens.map(|tokens| Details { cached_tokens: tokens as f64 }),
        }
    }
}

impl ResponseBodyProcessor for RequestAttributeReporter {
    /// Only what the last hook writes reaches the proxy, so that only the end counts.
    fn watches_every_chunk(&self) -> bool {
        false
    }

    fn response_body(
        &self,
        _request: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        _target: Option<&Rc<EndpointMetadata>>,
    ) {
        if !response.end_of_stream {
            return;
        }
        if let Some(number) = self.number(&response.usage) {
            let fields = response.dynamic_metadata.entry(self.key.namespace.clone()).or_default();
            // Metadata holds doubles.
            fields.insert(self.key.name.clone(), (number as f64).into());
        }
    }
}

#[cfg(test)]
mod tests;
