//! `candidates.jsonl` of this folder and of `request_control/`: subsets of the pool, and how long they are remembered.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use router::admission::EndpointList;
use router::director::PoolLocator;
use router::endpoint::{Endpoint, EndpointMetadata};
use router::flow_control::candidates::{CachedLocator, Locator};
use router::request_control::Metadata;
use serde_json::{Value, json};
use tests::compare::Rules;

use super::given;
use crate::outcome::Outcome;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let case = given.clone();
    let answer = given::run(|handle| async move {
        let rt = handle.rt().clone();
        let disabled = case["subset_filter_disabled"] == true;
        let counted = Rc::new(Counted { endpoints: RefCell::default(), disabled, fetches: Cell::new(0) });
        let locator: Rc<dyn Locator> = if case["cached_50ms"] == true {
            Rc::new(CachedLocator::new(rt.clone(), counted.clone(), Duration::ZERO))
        } else {
            counted.clone()
        };
        let mut steps = Vec::new();
        for op in case["ops"].as_array().into_iter().flatten() {
            let mut answer = json!({});
            match op["op"].as_str().expect("a step has a kind") {
                "set_endpoints" => *counted.endpoints.borrow_mut() = endpoints(&op["addresses"]),
                "locate" => {
                    let found = locator.locate(&metadata(&op["metadata"]));
                    answer["addresses"] = found.iter().map(|e| json!(e.metadata.address)).collect();
                }
                "advance" => {
                    rt.sleep(Duration::from_secs_f64(op["ms"].as_f64().unwrap_or_default() / 1e3)).await;
                }
                other => panic!("unknown step {other}"),
            }
            answer["fetches"] = json!(counted.fetches.take());
            steps.push(answer);
        }
        json!({ "steps": steps })
    });
    super::compare(then, &answer)
}

/// Runs a case of `request_control/`, which always has the cache, in front of the whole pool.
pub(crate) fn run_cached(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let answer = given::run(|handle| async move {
        let rt = handle.rt().clone();
        let disabled = false;
        let counted = Rc::new(Counted { endpoints: RefCell::default(), disabled, fetches: Cell::new(0) });
        // What is not above zero stands for the default.
        let ttl = Duration::from_millis(given["ttl_ms"].as_i64().unwrap_or(0).max(0) as u64);
        let locator = CachedLocator::new(rt.clone(), counted.clone(), ttl);
        let mut steps = Vec::new();
        for step in given["steps"].as_array().into_iter().flatten() {
            let mut answer = json!({});
            match step["op"].as_str().expect("a step has a kind") {
                "pool" => *counted.endpoints.borrow_mut() = endpoints(&step["addresses"]),
                "advance" => rt.sleep(Duration::from_millis(step["ms"].as_u64().unwrap_or(0))).await,
                "locate" => {
                    let found = locator.locate(&metadata(&step["metadata"]));
                    let mut addresses: Vec<&str> =
                        found.iter().map(|e| e.metadata.address.as_str()).collect();
                    addresses.sort_unstable();
                    answer["addresses"] = json!(addresses);
                    answer["delegate_called"] = json!(counted.fetches.take() > 0);
                }
                other => panic!("unknown step {other}"),
            }
            steps.push(answer);
        }
        json!({ "steps": steps })
    });
    Rules::exact().outcome(&case["then"], &answer)
}

/// The real look-up, counted.
struct Counted {
    endpoints: RefCell<EndpointList>,
    disabled: bool,
    fetches: Cell<u64>,
}

impl Locator for Counted {
    fn locate(&self, metadata: &Metadata) -> EndpointList {
        self.fetches.set(self.fetches.get() + 1);
        PoolLocator::subset(&self.endpoints.borrow(), metadata, self.disabled)
    }
}

fn endpoints(addresses: &Value) -> EndpointList {
    let endpoint = |address: &Value| {
        let metadata = EndpointMetadata {
            address: address.as_str().unwrap_or_default().to_owned(),
            port: "8000".to_owned(),
            ..EndpointMetadata::default()
        };
        Rc::new(Endpoint { metadata: Rc::new(metadata), ..Endpoint::default() })
    };
    Rc::new(addresses.as_array().into_iter().flatten().map(endpoint).collect())
}

/// Reads metadata; a namespace that is no map is none.
fn metadata(value: &Value) -> Metadata {
    let namespaces = value.as_object().into_iter().flatten();
    namespaces.filter_map(|(name, fields)| Some((name.clone(), fields.as_object()?.clone()))).collect()
}
