//! Request control: parsers, producers, plugin state (`request_control/`).

mod exchanges;
mod inflight_load;
mod lifecycle;
mod parsers;
mod plugin_state;
mod rewrite;
mod token_producer;
mod vec_plugins;

use executor::{Real, Rt};
use router::plugin::Parameters;
use serde_json::Value;

use crate::outcome::Outcome;

/// Runs one case of a file of this folder.
pub(crate) fn run(file: &str, case: &Value) -> Outcome {
    match file {
        "request_control/parsers" => parsers::requests(case),
        "request_control/responses" => parsers::responses(case),
        "request_control/director" | "request_control/headers" => exchanges::run(case),
        "request_control/inflight_load" => inflight_load::run(case),
        "request_control/lifecycle" => lifecycle::run(case),
        "request_control/rewrite" => rewrite::run(case),
        "request_control/producers" => producers(case),
        _ => Outcome::Failed(format!("no adapter for {file}")),
    }
}

fn producers(case: &Value) -> Outcome {
    let plugin_type = case["given"]["type"].as_str().unwrap_or_default();
    if !router::producers::TYPES.iter().any(|(built, _)| *built == plugin_type) {
        return Outcome::NotBuilt(plugin_type.to_owned());
    }
    token_producer::run(case, rt())
}

/// Returns a configuration without its section `dataLayer`: the recorded runs had no data layer at all, which is no
/// configuration of a router.
fn without_data_layer(config: &Value) -> Value {
    let mut config = config.clone();
    config.as_object_mut().map(|config| config.remove("dataLayer"));
    config
}

/// Reads the `parameters` of a case: `null` = configured without any.
fn parameters(given: &Value) -> Parameters {
    match given {
        Value::Null => Parameters::absent(),
        value => Parameters::new(value.clone()),
    }
}

/// Returns a runtime with a fixed seed, for plugins that do not wait.
fn rt() -> Rt {
    Real::builder().current_thread().seed(1).build().expect("a runtime starts").rt()
}
