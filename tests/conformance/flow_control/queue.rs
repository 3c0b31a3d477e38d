//! `queue.jsonl`: the queue of one flow.

use std::collections::BTreeMap;

use router::flow_control::queue::{FlowQueue, ItemId, QueueError, QueueHandle, QueueId, Queued, Ties};
use serde_json::{Value, json};

use super::given::{self, Item};
use crate::outcome::Outcome;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let case = given.clone();
    let answer = given::run(|handle| async move {
        let plugin_type = case["ordering_policy"].as_str().expect("a policy");
        let instance = given::build(plugin_type, &Value::Null, &handle).expect("a policy without parameters");
        let policy = instance.roles.ordering_policy.expect("an ordering policy");
        let other = FlowQueue::new(QueueId(2), policy.clone(), Ties::Heap);
        let queue = FlowQueue::new(QueueId(1), policy, Ties::Heap);
        let mut script = Script { queue, other, names: Vec::new(), handles: BTreeMap::new() };
        let steps: Vec<Value> =
            case["ops"].as_array().into_iter().flatten().map(|op| script.step(op)).collect();
        json!({ "steps": steps })
    });
    super::compare(then, &answer)
}

struct Script {
    queue: FlowQueue,
    other: FlowQueue,
    /// Names of the items, which are numbered.
    names: Vec<String>,
    handles: BTreeMap<String, QueueHandle>,
}

impl Script {
    fn step(&mut self, op: &Value) -> Value {
        let text = |name: &str| op[name].as_str().unwrap_or_default();
        let mut answer = json!({});
        match text("op") {
            "add" => self.add(&op["item"]),
            "peek" => answer["item"] = self.head(),
            "pop" => {
                let head = self.queue.peek().map(|(_, handle)| handle);
                let popped = head.map(|handle| self.queue.remove(handle).expect("the head is there"));
                answer["item"] = self.removed(popped);
            }
            "remove" => {
                let result = self.queue.remove(self.handles[text("name")]);
                self.put(&mut answer, result);
            }
            "remove_bad_handle" => {
                // What cannot be written here – no handle, one of another type – is a handle of nothing any more.
                let mut queue = FlowQueue::new(QueueId(3), self.queue.policy().clone(), Ties::Heap);
                let item = Item::read(&json!({"name": "stranger"}), None);
                let stranger = queue.add(ItemId(0), &item.arrival(), 1);
                let result = if text("handle") == "other-queue" {
                    let stranger = self.other.add(ItemId(0), &item.arrival(), 1);
                    self.queue.remove(stranger)
                } else {
                    queue.remove(stranger).and_then(|_| queue.remove(stranger))
                };
                self.put(&mut answer, result);
            }
            // The size is booked when an item is added; the queue never asks again.
            "resize" => {}
            "cleanup" => {
                let gone: Vec<&str> =
                    op["names"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
                let names = &self.names;
                let removed = self.queue.cleanup(|item| gone.contains(&names[item.0 as usize].as_str()));
                answer["removed"] = self.all(&removed);
            }
            "drain" => {
                let removed = self.queue.drain();
                answer["removed"] = self.all(&removed);
            }
            other => panic!("unknown step {other}"),
        }
        answer["head"] = self.head();
        answer["len"] = json!(self.queue.len());
        answer["bytes"] = json!(self.queue.bytes());
        answer
    }

    fn add(&mut self, value: &Value) {
        let item = Item::read(value, None);
        let number = ItemId(self.names.len() as u32);
        let handle = self.queue.add(number, &item.arrival(), item.bytes);
        self.names.push(item.name.clone());
        self.handles.insert(item.name, handle);
    }

    fn put(&self, answer: &mut Value, result: Result<Queued, QueueError>) {
        match result {
            Ok(queued) => answer["item"] = self.removed(Some(queued)),
            Err(QueueError::InvalidHandle) => answer["result"] = json!({"error": {"kind": "invalid-handle"}}),
            Err(QueueError::ItemNotFound) => answer["result"] = json!({"error": {"kind": "item-not-found"}}),
        }
    }

    fn head(&self) -> Value {
        self.removed(self.queue.peek().map(|(queued, _)| queued))
    }

    fn removed(&self, queued: Option<Queued>) -> Value {
        json!(queued.map(|queued| self.names[queued.item.0 as usize].as_str()))
    }

    fn all(&self, queued: &[Queued]) -> Value {
        queued.iter().map(|queued| self.names[queued.item.0 as usize].as_str()).collect()
    }
}
