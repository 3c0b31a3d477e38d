//! The model server: its HTTP surface, and what its streams and counters show (`model_server/`).

mod answer;
mod http;
mod metrics;
mod series;
mod session;
mod timeline;

use serde_json::Value;
use tests::outcome::Outcome;

/// Runs one case of the file `model_server/<file>`.
pub(crate) fn run(file: &str, case: &Value) -> Outcome {
    match file.rsplit('/').next().unwrap_or(file) {
        "http" => http::run(case),
        "metrics" => metrics::run(case),
        "timeline" => timeline::run(case),
        other => Outcome::NotBuilt(format!("no adapter for {other}")),
    }
}
