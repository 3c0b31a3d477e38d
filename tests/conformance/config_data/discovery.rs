//! File discovery: what each load of a file reports.

use std::cell::RefCell;
use std::collections::BTreeMap;

use router::data_layer::EndpointNotifier;
use router::data_layer::file_discovery::{EntryProblem, FileDiscovery, LoadError};
use router::endpoint::{EndpointId, EndpointMetadata};
use router::plugin::{Handle, Parameters};
use serde_json::{Value, json};
use tests::compare::Rules;

use super::{Fault, factory, instance, real, text};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = &case["given"];
    let answer = if given.get("files").is_some() { loads(given) } else { accepted(given) };
    match answer {
        Ok(answer) => Rules::exact().outcome(&case["then"], &answer),
        Err(fault) => fault.into(),
    }
}

fn accepted(given: &Value) -> Result<Value, Fault> {
    let handle = Handle::new(real().rt());
    let built = instance(text(given, "type"), "d", given.get("parameters"), &handle)?;
    Ok(json!({ "accepted": built.is_ok() }))
}

/// Writes down what is reported, and keeps what is known.
#[derive(Default)]
struct Reported {
    operations: RefCell<Vec<Value>>,
    endpoints: RefCell<BTreeMap<EndpointId, Value>>,
}

impl EndpointNotifier for Reported {
    fn upsert(&self, metadata: EndpointMetadata) {
        let endpoint = endpoint(&metadata);
        self.operations.borrow_mut().push(json!({ "op": "upsert", "endpoint": endpoint }));
        self.endpoints.borrow_mut().insert(metadata.id, endpoint);
    }

    fn delete(&self, id: &EndpointId) {
        self.operations.borrow_mut().push(json!({ "op": "delete", "id": id.to_string() }));
        self.endpoints.borrow_mut().remove(id);
    }
}

/// An endpoint as the vectors of this folder show it.
pub(super) fn endpoint(metadata: &EndpointMetadata) -> Value {
    json!({
        "id": metadata.id.to_string(),
        "name": metadata.name,
        "address": metadata.address,
        "node_address": metadata.node_address,
        "port": metadata.port,
        "metrics_host": metadata.metrics_host,
        "labels": metadata.labels,
        "rank_index": metadata.rank_index,
    })
}

fn loads(given: &Value) -> Result<Value, Fault> {
    let discovery_type = text(given, "type");
    // The support list decides whether the case runs; the loads need the type itself.
    factory(discovery_type)?;
    let folder = tempfile::tempdir().map_err(|error| Fault::Failed(error.to_string()))?;
    let path = folder.path().join("endpoints.yaml");
    let parameters = Parameters::new(json!({ "path": path, "watchFile": true }));
    let discovery =
        FileDiscovery::new(discovery_type, &parameters).map_err(|error| Fault::Failed(error.to_string()))?;
    real().run(async |rt| {
        let reported = Reported::default();
        let mut steps = Vec::new();
        for (index, file) in given["files"].as_array().into_iter().flatten().enumerate() {
            let written = match file.as_str() {
                Some(contents) => std::fs::write(&path, expanded(contents)),
                None if path.exists() => std::fs::remove_file(&path),
                None => Ok(()),
            };
            written.map_err(|error| Fault::Failed(error.to_string()))?;
            let loaded = discovery.load(&rt, &reported).await;
            let remembered: Vec<String> = discovery.known().iter().map(ToString::to_string).collect();
            let mut step = json!({
                "operations": reported.operations.take(),
                "endpoints": reported.endpoints.borrow().values().collect::<Vec<_>>(),
                "remembered": remembered,
                "error": loaded.as_ref().err().map(error),
            });
            if index == 0 {
                step["start_fails"] = loaded.is_err().into();
            }
            steps.push(step);
        }
        Ok(json!({ "steps": steps }))
    })
}

/// The two texts whose placeholders stand for many letters.
fn expanded(contents: &str) -> String {
    contents
        .replace("\u{a7}BIG\u{a7}", &"x".repeat(1 << 20))
        .replace("\u{a7}MAX\u{a7}", &"x".repeat((1 << 20) - 2))
}

fn error(error: &LoadError) -> Value {
    let kind = match error {
        LoadError::Unreadable { .. } => "unreadable",
        LoadError::TooLarge(_) => "too-large",
        LoadError::Syntax(_) => "bad-syntax",
        LoadError::Shape(_) => "wrong-shape",
        LoadError::Entries(entries) => {
            let entries: Vec<&str> = entries
                .iter()
                .map(|entry| match entry.problem {
                    EntryProblem::Address(_) => "bad-address",
                    EntryProblem::Host(_) => "bad-host",
                    EntryProblem::Port(_) => "bad-port",
                })
                .collect();
            return json!({ "kind": "bad-entries", "entries": entries });
        }
    };
    json!({ "kind": kind })
}
