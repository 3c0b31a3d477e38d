//! `config/`: the configuration loader, the data graph and the plugin registry.

mod answer;
mod data_graph;
mod loader;
mod plugin_types;

use executor::{Real, Rt};
use serde_json::Value;

use crate::outcome::Outcome;

pub(crate) use answer::{controller, registry};

/// Runs one case of a file of this folder.
pub(crate) fn run(file: &str, case: &Value) -> Outcome {
    let (given, then) = (&case["given"], &case["then"]);
    match file {
        "config/loader_ok" | "config/loader_errors" => loader::run(given, then),
        "config/data_graph" => data_graph::run(given, then),
        "config/plugin_types" => plugin_types::run(given, then),
        _ => Outcome::Failed(format!("no adapter for {file}")),
    }
}

/// Returns a runtime with a fixed seed, for plugins that are built and never run.
fn rt() -> Rt {
    Real::builder().current_thread().seed(1).build().expect("a runtime starts").rt()
}
