//! Request control: parsers, producers, plugin state (`request_control/`).

mod admitters;
mod evictor;
mod exchanges;
mod header_plugins;
mod inflight_load;
mod latency;
mod lifecycle;
mod mm_embeddings;
mod parsers;
mod plugin_state;
mod render;
mod rewrite;
mod screeners;
mod token_producer;
mod vec_plugins;

use executor::{Real, Rt};
use router::plugin::Parameters;
use router::support::{Registry, Support};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::flow_control::candidates;
use crate::outcome::Outcome;

/// Runs one case of a file of this folder.
pub(crate) fn run(file: &str, case: &Value) -> Outcome {
    match file {
        "request_control/parsers" => parsers::requests(case),
        "request_control/responses" => parsers::responses(case),
        "request_control/admitters" => admitters::run(case),
        "request_control/candidates" => candidates::run_cached(case),
        "request_control/director" | "request_control/headers" => exchanges::run(case),
        "request_control/evictor" => evictor::run(case),
        "request_control/inflight_load" => inflight_load::run(case),
        "request_control/lifecycle" => lifecycle::run(case),
        "request_control/rewrite" => rewrite::run(case),
        "request_control/screeners" => screeners::run(case),
        "request_control/producers" => producers(case),
        "request_control/producers_latency" => latency::run(case),
        "request_control/producers_render" => render::run(case),
        _ => Outcome::Failed(format!("no adapter for {file}")),
    }
}

fn producers(case: &Value) -> Outcome {
    let plugin_type = case["given"]["type"].as_str().unwrap_or_default();
    match Registry::default().get(plugin_type).map(|registered| registered.support) {
        Some(Support::Supported(_)) => {}
        _ => return Outcome::NotBuilt(plugin_type.to_owned()),
    }
    match plugin_type {
        "token-producer" | "tokenizer" => token_producer::run(case, rt()),
        "mm-embeddings-cache-producer" => mm_embeddings::run(case),
        _ => header_plugins::run(case),
    }
}

/// Returns a configuration without its section `dataLayer`: the recorded runs had no data layer at all, which is no
/// configuration of a router.
fn without_data_layer(config: &Value) -> Value {
    let mut config = config.clone();
    config.as_object_mut().map(|config| config.remove("dataLayer"));
    config
}

/// Returns what `then` says of parameters that are refused; `T` is the type that they decode into.
fn refused<T: DeserializeOwned + Default + Serialize>(parameters: &Parameters) -> Value {
    let kind = if parameters.decode::<T>().is_ok() { "bad-parameter" } else { "undecodable-parameters" };
    json!({"error": {"kind": kind}})
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
