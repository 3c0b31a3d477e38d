//! Pods, objectives and rewrites of a pool.

use std::cell::RefCell;
use std::rc::Rc;

use executor::Rt;
use router::data_layer::datastore::{Datastore, Plan};
use router::data_layer::endpoints::Endpoints;
use router::data_layer::objects::{
    ObjectName, Objective, Objects, Pod, PoolIdentity, PoolReference, PoolSpec, PrioritySink, Rewrite,
};
use router::data_layer::{EndpointEvent, EndpointListener, EndpointNotifier};
use router::director::{RewriteRule, RewriteTarget};
use router::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use router::metrics::Registry;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::{discovery, real, text};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let answer = real().run(async |rt| Cluster::new(&rt, &case["given"]["pool"]).steps(case));
    match answer {
        Ok(answer) => Rules::exact().outcome(&case["then"], &answer),
        Err(error) => Outcome::Failed(error),
    }
}

/// Writes down the events; an endpoint that is listed already is updated.
#[derive(Default)]
struct Recorder {
    events: RefCell<Vec<String>>,
    listed: RefCell<Endpoints>,
}

impl EndpointListener for Recorder {
    fn on_event(&self, event: &EndpointEvent, _: Option<&mut Endpoint>) {
        let (word, id) = match event {
            EndpointEvent::AddOrUpdate(metadata) if self.listed.borrow().get(&metadata.id).is_some() => {
                ("update", &metadata.id)
            }
            EndpointEvent::AddOrUpdate(metadata) => ("add", &metadata.id),
            EndpointEvent::Delete(metadata) => ("release", &metadata.id),
        };
        self.events.borrow_mut().push(format!("{word} {id}"));
    }
}

struct Cluster {
    store: Rc<Datastore>,
    objects: Objects,
    recorder: Rc<Recorder>,
    submitted: Rc<RefCell<Vec<i32>>>,
}

impl Cluster {
    fn new(rt: &Rt, pool: &Value) -> Self {
        let recorder = Rc::new(Recorder::default());
        let plan = Plan { listeners: vec![Rc::clone(&recorder) as _], ..Plan::default() };
        let store = Rc::new(Datastore::new(rt, plan, &Registry::default()));
        *recorder.listed.borrow_mut() = store.endpoints().clone();
        let identity = PoolIdentity {
            namespace: text(pool, "namespace").into(),
            name: text(pool, "name").into(),
            group: text(pool, "group").into(),
        };
        let submitted = Rc::new(RefCell::new(Vec::new()));
        let last = Rc::clone(&submitted);
        let sink: PrioritySink = Box::new(move |priorities| *last.borrow_mut() = priorities.to_vec());
        let objects = Objects::new(identity, Rc::clone(&store), Some(sink));
        Cluster { store, objects, recorder, submitted }
    }

    fn steps(&self, case: &Value) -> Result<Value, String> {
        let expected = case["then"]["steps"].as_array().into_iter().flatten();
        let operations = case["given"]["operations"].as_array().into_iter().flatten();
        let mut steps = Vec::new();
        // A step shows what its group is about; which that is, its own keys say.
        for (operation, expected) in operations.zip(expected) {
            self.apply(operation)?;
            let events = sorted_releases(self.recorder.events.take());
            steps.push(if expected.get("endpoints").is_some() {
                let endpoints = self.store.endpoints().snapshot();
                let endpoints: Vec<Value> =
                    endpoints.iter().map(|endpoint| discovery::endpoint(&endpoint.metadata)).collect();
                json!({ "endpoints": endpoints, "events": events, "pool_synced": self.objects.pool_has_synced() })
            } else if let Some(names) = expected["objectives"].as_object() {
                let objectives: Map<String, Value> =
                    names.keys().map(|name| (name.clone(), self.objective(name))).collect();
                json!({ "objectives": objectives, "submitted_priorities": *self.submitted.borrow() })
            } else {
                let models = expected["lookup"].as_object().into_iter().flat_map(Map::keys);
                let lookup: Map<String, Value> =
                    models.map(|model| (model.clone(), self.rewrite(model))).collect();
                json!({ "lookup": lookup })
            });
        }
        Ok(json!({ "steps": steps }))
    }

    fn objective(&self, name: &str) -> Value {
        let objective = self.objects.objective(name);
        objective.map_or(
            Value::Null,
            |(namespace, priority)| json!({ "namespace": namespace, "priority": priority }),
        )
    }

    fn rewrite(&self, model: &str) -> Value {
        self.objects.rewrite(model).map_or(Value::Null, |(name, rule)| {
            let targets: Vec<&str> = rule.targets.iter().map(|target| target.model.as_str()).collect();
            json!({ "rewrite": &*name, "targets": targets })
        })
    }

    fn apply(&self, operation: &Value) -> Result<(), String> {
        let name = ObjectName {
            namespace: text(operation, "namespace").into(),
            name: text(operation, "name").into(),
        };
        let pool = PoolReference {
            name: text(operation, "pool_name").into(),
            group: text(operation, "pool_group").into(),
        };
        match text(operation, "op") {
            "pool-set" => self.objects.set_pool(PoolSpec {
                selector: read(operation, "selector")?,
                target_ports: read(operation, "target_ports")?,
            }),
            "pool-delete" => self.objects.delete_pool(),
            "pod-set" => self.objects.set_pod(
                name,
                Pod {
                    ip: text(operation, "ip").into(),
                    host_ip: text(operation, "host_ip").into(),
                    ready: text(operation, "ready") == "True",
                    labels: read(operation, "labels")?,
                    annotations: read(operation, "annotations")?,
                },
            ),
            "pod-delete" => self.objects.delete_pod(&name),
            "endpoint-upsert" => {
                let (address, port) = (text(operation, "ip").to_owned(), text(operation, "port").to_owned());
                self.store.upsert(EndpointMetadata {
                    id: EndpointId::new(name.namespace, name.name.clone()),
                    name: name.name,
                    metrics_host: format!("{address}:{port}"),
                    address,
                    port,
                    labels: read(operation, "labels")?,
                    ..EndpointMetadata::default()
                });
            }
            "endpoint-delete" => self.store.delete(&EndpointId::new(name.namespace, name.name)),
            "objective-set" => {
                let priority = read(operation, "priority")?;
                let deleting = operation["deleting"] == true;
                self.objects.set_objective(name, Objective { pool, priority, deleting });
            }
            "objective-delete" => self.objects.delete_objective(&name),
            "rewrite-set" => {
                let rules = operation["rules"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(rule)
                    .collect::<Result<_, _>>()?;
                let created = read(operation, "created_s")?;
                let pool = Some(pool).filter(|pool| !pool.name.is_empty());
                self.objects.set_rewrite(&name, Rewrite { pool, created, rules });
            }
            "rewrite-delete" => self.objects.delete_rewrite(&name),
            other => return Err(format!("unknown operation {other}")),
        }
        Ok(())
    }
}

fn rule(rule: &Value) -> Result<RewriteRule, String> {
    let target = |target: &Value| {
        Ok(RewriteTarget { model: text(target, "model").into(), weight: read(target, "weight")? })
    };
    let targets =
        rule["targets"].as_array().into_iter().flatten().map(target).collect::<Result<_, String>>()?;
    Ok(RewriteRule { matches: read(rule, "matches")?, targets })
}

/// Reads a member; null and absent are the default.
fn read<T: DeserializeOwned + Default>(value: &Value, key: &str) -> Result<T, String> {
    let member = value.get(key).filter(|member| !member.is_null());
    member.map_or_else(
        || Ok(T::default()),
        |member| serde_json::from_value(member.clone()).map_err(|error| format!("{key}: {error}")),
    )
}

/// Sorts each run of releases by its text, as the vectors have them.
fn sorted_releases(mut events: Vec<String>) -> Vec<String> {
    for run in events.chunk_by_mut(|a, b| a.starts_with("release") && b.starts_with("release")) {
        run.sort();
    }
    events
}
