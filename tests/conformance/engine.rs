//! Drives the engine core with the scripts of `engine/*.jsonl` and answers as the real one's harness did.

mod contents;
mod machine;
mod script;
mod steps;
mod timeline;

use serde::Deserialize as _;
use serde_json::{Value, json};
use tests::compare::{REWRITE_TOLERANCE, Rules};

use self::script::{Given, Script};
use crate::outcome::Outcome;

/// Runs one case of any file of the folder.
pub(crate) fn run(_file: &str, case: &Value) -> Outcome {
    match answer(&case["given"]) {
        Ok(answer) => Rules::within(REWRITE_TOLERANCE).outcome(&case["then"], &answer),
        Err(error) => Outcome::Failed(error),
    }
}

fn answer(given: &Value) -> Result<Value, String> {
    let given = Given::deserialize(given).map_err(|error| format!("given: {error}"))?;
    let machine = machine::Machine::new(&given)?;
    match given.script {
        Script::Steps { ops } => Ok(json!({ "steps": steps::run(machine, &ops)? })),
        Script::Timeline { time, timeline } => {
            Ok(json!({ "log": timeline::Run::new(machine, &time, &timeline).log()? }))
        }
    }
}
