//! Whole configurations: accepted, refused, defaulted.

use router::config::fault::Fault;
use router::config::loader::{Options, load};
use router::plugin::Handle;
use router::support::Registry;
use serde_json::{Value, json};
use tests::compare::Rules;

use super::answer;
use crate::outcome::Outcome;

/// Loads the text and compares what came of it. Experimental plugins are allowed, as in the recorded runs.
pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let text = given["config_text"].as_str().expect("a configuration is text");
    let registry = Registry::default();
    let options = Options { allow_experimental: true, ..Options::default() };
    let loaded = load("case.yaml", text, &registry, &Handle::new(super::rt()), &options);
    match loaded {
        Err(problems) => {
            let first = &problems.list()[0];
            if first.kind == Fault::NotBuilt {
                let reason = first.message.split([' ', ',']).nth(2).unwrap_or_default();
                return Outcome::NotBuilt(format!("plugin type {reason}"));
            }
            let Some(error) = then.get("error") else {
                return Outcome::Failed(format!("refused: {problems}"));
            };
            match error["phase"].as_str() {
                // The real process crashes: any refusal is right.
                Some("panic") => Outcome::Passed,
                // The kinds of this phase may be treated as one.
                Some("parse") => {
                    compare(&json!({"phase": "parse"}), &json!({"phase": first.kind.phase().name()}))
                }
                _ => {
                    let answer = json!({"phase": first.kind.phase().name(), "kind": first.kind.name()});
                    Rules::exact().ignore("at").outcome(error, &answer)
                }
            }
        }
        Ok(_) if then.get("error").is_some() => Outcome::Failed(format!("accepted; want {}", then["error"])),
        Ok(assembly) => {
            let mut answer = answer::of(&assembly, &registry, then);
            if let Some(accepted) = then.get("accepted") {
                answer["accepted"] = accepted.clone();
            }
            compare(then, &answer)
        }
    }
}

fn compare(then: &Value, answer: &Value) -> Outcome {
    Rules::exact()
        .set("notices")
        .ignore("order")
        .ignore("enqueue_channel_buffer_size")
        .outcome(&as_it_shows(then), answer)
}

/// Returns the recorded answer with its sources as their URLs show them: a port that is not above zero overrides
/// nothing, and a path begins with a slash.
fn as_it_shows(then: &Value) -> Value {
    let mut then = then.clone();
    let sources = then.pointer_mut("/data_layer/sources").and_then(Value::as_array_mut);
    for source in sources.into_iter().flatten() {
        if source["port_override"].as_i64().is_some_and(|port| port < 0) {
            source["port_override"] = json!(0);
        }
        if let Some(path) = source["path"].as_str().filter(|p| !p.starts_with('/')) {
            source["path"] = json!(format!("/{path}"));
        }
    }
    then
}
