//! The data layer: what scrapes, files and objects make of the endpoints (`config/`).

mod discovery;
mod extract;
mod names;
mod objects;
mod topology;

use executor::Real;
use router::plugin::{Factory, Handle, Instance, Parameters};
use router::support::Registry;
use router::support::Support::{NotBuilt, Supported};
use serde_json::Value;

use crate::outcome::Outcome;

/// Runs one case of the file `config/<file>`.
pub(crate) fn run(file: &str, case: &Value) -> Outcome {
    match file.rsplit('/').next().unwrap_or(file) {
        // Only the topology cases name an instance.
        "models_extract" if case["given"].get("name").is_some() => topology::run(case),
        "metrics_extract" | "models_extract" => extract::run(case),
        "discovery_file" => discovery::run(case),
        "objects" => objects::run(case),
        "metrics_names" => names::run(case),
        other => Outcome::NotBuilt(format!("no adapter for {other}")),
    }
}

/// Why a case has no answer.
enum Fault {
    /// The case configures a plugin type that is not built.
    NotBuilt(String),
    /// The case cannot be read, or the host failed.
    Failed(String),
}

impl From<Fault> for Outcome {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NotBuilt(reason) => Outcome::NotBuilt(reason),
            Fault::Failed(reason) => Outcome::Failed(reason),
        }
    }
}

fn real() -> Real {
    Real::builder().current_thread().seed(1).build().expect("a runtime starts")
}

fn factory(plugin_type: &str) -> Result<Factory, Fault> {
    match Registry::default().get(plugin_type).map(|registered| registered.support) {
        Some(Supported(factory)) => Ok(factory),
        Some(NotBuilt) => Err(Fault::NotBuilt(format!("{plugin_type} is not built"))),
        None => Err(Fault::Failed(format!("{plugin_type} is not registered"))),
    }
}

/// Builds an instance; the inner error is the factory's.
fn instance(
    plugin_type: &str,
    name: &str,
    parameters: Option<&Value>,
    handle: &Handle,
) -> Result<Result<Instance, String>, Fault> {
    let parameters = parameters.map_or_else(Parameters::absent, |value| Parameters::new(value.clone()));
    Ok(factory(plugin_type)?(name, &parameters, handle).map_err(|error| error.to_string()))
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("")
}
