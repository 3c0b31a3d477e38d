//! Request control: parsers, producers, director (`request_control/`).

mod parsers;

use executor::{Real, Rt};
use serde_json::Value;
use tests::outcome::Outcome;

/// Runs one case of the file `request_control/<file>`.
pub(crate) fn run(file: &str, case: &Value) -> Outcome {
    match file.rsplit('/').next().unwrap_or(file) {
        "parsers" => parsers::requests(case),
        "responses" => parsers::responses(case),
        other => Outcome::NotBuilt(format!("no adapter for {other}")),
    }
}

/// Returns a runtime with a fixed seed, for plugins that do not wait.
fn rt() -> Rt {
    Real::builder().current_thread().seed(1).build().expect("a runtime starts").rt()
}
