//! `static-usage-limit-policy`: one ceiling for all bands (flow-control spec 11.1).

use serde::{Deserialize, Serialize};

use super::UsageLimitPolicy;
use crate::plugin::{FactoryError, Handle, Instance, Parameters};

/// Name of the type.
pub const TYPE: &str = "static-usage-limit-policy";

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct StaticParameters {
    threshold: f64,
}

impl Default for StaticParameters {
    fn default() -> Self {
        StaticParameters { threshold: 1.0 }
    }
}

/// Builds an instance. It reports the type `<name>-type`, as the llm-d Router's does. Every number is accepted: from
/// zero down nothing is ever dispatched, above 1.0 dispatching goes on past a full pool.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let StaticParameters { threshold } = parameters.decode()?;
    let name = if name.is_empty() { TYPE } else { name };
    Ok(super::instance(&format!("{name}-type"), name, Static { threshold }))
}

struct Static {
    threshold: f64,
}

impl UsageLimitPolicy for Static {
    fn limit(&self, _: f64, _: &[i64], ceilings: &mut [f64]) {
        ceilings.fill(self.threshold);
    }
}
