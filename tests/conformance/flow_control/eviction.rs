//! `eviction.jsonl`: policies, the eviction queue, the evictor, and evictions on demand of the controller.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use executor::Instant;
use router::flow_control::eviction::{
    EvictionFilter, EvictionItem, EvictionQueue, Evictor, InFlight, RequestEvictor, Signal,
};
use serde_json::{Map, Value, json};

use super::{given, processor};
use crate::outcome::Outcome;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    // Four subjects, told apart by what is given.
    if given.get("setup").is_some() {
        return processor::run(given, then);
    }
    let case = given.clone();
    let answer = given::run(|handle| async move {
        if case.get("items").is_some() {
            return policies(&case, &handle);
        }
        let steps =
            if case.get("filter").is_some() { queue(&case, &handle) } else { evictor(&case, &handle).await };
        json!({ "steps": steps })
    });
    super::compare(then, &answer)
}

fn request(value: &Value) -> InFlight {
    InFlight {
        priority: value["priority"].as_i64().unwrap_or_default(),
        dispatched: Instant::ZERO
            + Duration::from_millis(1_000 + value["dispatch_ms"].as_u64().unwrap_or_default()),
    }
}

fn policies(case: &Value, handle: &router::plugin::Handle) -> Value {
    let build = |name: &str| {
        let plugin_type = case[name].as_str().expect("a policy");
        given::build(plugin_type, &case["parameters"], handle).expect("no parameter is refused").roles
    };
    let filter = build("filter").eviction_filter.expect("a filter");
    let order = build("ordering").eviction_order.expect("an order");
    let items: Vec<InFlight> = case["items"].as_array().into_iter().flatten().map(request).collect();
    let row = |a: &InFlight| items.iter().map(|b| i32::from(order.key(a) < order.key(b))).collect::<Vec<_>>();
    json!({
        "accepted": items.iter().map(|item| filter.accepts(item)).collect::<Vec<_>>(),
        "less": items.iter().map(row).collect::<Vec<_>>(),
    })
}

struct AcceptAll;

impl EvictionFilter for AcceptAll {
    fn accepts(&self, _: &InFlight) -> bool {
        true
    }
}

fn queue(case: &Value, handle: &router::plugin::Handle) -> Vec<Value> {
    let roles = |plugin_type| given::build(plugin_type, &Value::Null, handle).expect("a policy").roles;
    let filter = match case["filter"].as_str() {
        Some("accept-all") => Rc::new(AcceptAll),
        _ => roles("sheddable-eviction-filter").eviction_filter.expect("a filter"),
    };
    let order = roles("priority-then-time-eviction-order-policy").eviction_order.expect("an order");
    let mut queue: EvictionQueue<()> = EvictionQueue::new(filter, order);
    let step = |op: &Value| {
        let id = op["request_id"].as_str().unwrap_or_default();
        let mut answer = json!({});
        match op["op"].as_str().expect("a step has a kind") {
            "track" => queue.track(EvictionItem { id: id.into(), request: request(op), owned: () }),
            "untrack" => queue.untrack(id),
            "pop_n" => {
                let count = op["n"].as_u64().unwrap_or_default();
                let popped = (0..count).map_while(|_| queue.pop());
                answer["popped"] = popped.map(|item| json!(*item.id)).collect();
            }
            "peek" => {}
            other => panic!("unknown step {other}"),
        }
        answer["head"] = json!(queue.peek().map(|item| item.id.to_string()));
        answer["in_flight"] = json!(queue.in_flight());
        answer["evictable"] = json!(queue.evictable());
        answer
    };
    case["ops"].as_array().into_iter().flatten().map(step).collect()
}

/// Fails while it is told to.
struct Failing(Rc<Cell<bool>>);

impl Evictor for Failing {
    fn evict(&self, _: &str, _: &Signal) -> Result<(), String> {
        if self.0.get() { Err("told to fail".to_owned()) } else { Ok(()) }
    }
}

async fn evictor(case: &Value, handle: &router::plugin::Handle) -> Vec<Value> {
    let fails = Rc::new(Cell::new(false));
    let failing: Box<dyn Evictor> = Box::new(Failing(Rc::clone(&fails)));
    let evictor = RequestEvictor::with_evictor(handle.rt().clone(), Some(failing));
    let terminated: Rc<RefCell<Vec<String>>> = Rc::default();
    let told = Rc::clone(&terminated);
    evictor.on_terminated(move |id| told.borrow_mut().push(id.to_owned()));
    let signalled: Rc<RefCell<BTreeSet<String>>> = Rc::default();
    let mut streams: BTreeMap<String, String> = BTreeMap::new();
    let mut steps = Vec::new();
    for op in case["ops"].as_array().into_iter().flatten() {
        let text = |name: &str| op[name].as_str().unwrap_or_default().to_owned();
        let mut answer = json!({});
        match text("op").as_str() {
            // What the director asks before it lets the evictor know (flow-control spec 13.2): a target.
            "pre_request" if op["missing"].is_null() => {
                let (stream, id) = (text("stream"), text("request_id"));
                let signal = evictor.dispatched(&id, op["priority"].as_i64().unwrap_or_default());
                streams.insert(stream.clone(), id);
                if let Some(signal) = signal {
                    let signalled = Rc::clone(&signalled);
                    signal.on_fire(move || {
                        signalled.borrow_mut().insert(stream);
                    });
                }
            }
            "pre_request" | "chunk" => {}
            "end_of_stream" | "context_end" => {
                if let Some(id) = streams.get(&text("stream")) {
                    evictor.ended(id);
                }
            }
            "deregister" => evictor.deregister(&text("request_id")),
            "evict_n" => {
                let bound = op["priority_bound"].as_i64().unwrap_or_default();
                let evicted = evictor.evict(op["n"].as_u64().unwrap_or_default() as usize, bound);
                answer["evicted"] = evicted.iter().map(|id| json!(**id)).collect();
            }
            "evictor_fails" => fails.set(op["on"] == true),
            "advance" => {
                handle.rt().sleep(Duration::from_millis(op["ms"].as_u64().unwrap_or_default())).await
            }
            other => panic!("unknown step {other}"),
        }
        let registry: Map<String, Value> = evictor
            .registered()
            .iter()
            .map(|id| (id.to_string(), json!(evictor.reason(id).unwrap_or_default())))
            .collect();
        let (in_flight, evictable) = evictor.counts();
        answer["registry"] = Value::Object(registry);
        answer["signalled_streams"] = json!(signalled.take());
        answer["terminated"] = json!(terminated.take());
        answer["victim_priority"] = json!(evictor.victim_priority());
        answer["in_flight"] = json!(in_flight);
        answer["evictable"] = json!(evictable);
        steps.push(answer);
    }
    steps
}
