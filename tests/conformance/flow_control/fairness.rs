//! `fairness.jsonl`: which flow of a band goes next.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::Rt;
use router::candidates::Candidates;
use router::flow_control::fairness::program_aware_fairness::{self, ProgramAware};
use router::flow_control::fairness::{BandFairness, ENQUEUE_TIME};
use router::flow_control::flows::{FlowKey, Flows};
use router::flow_control::queue::{ItemId, QueueHandle, Ties};
use router::plugin::{Handle, Instance, run_periodic};
use router::request::InferenceRequest;
use router::request_control::{ResponseRecord, Usage};
use router::scheduling::SchedulingResult;
use serde_json::{Map, Value, json};

use super::given::{self, Item};
use crate::outcome::Outcome;

/// What the script's clock shows at the start. Unit: milliseconds.
const START_MS: u64 = 1_700_000_000_000;
/// Steps come so much later than they say, so that none meets a tick.
const OFFSET: Duration = Duration::from_micros(500);

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let case = given.clone();
    let answer = given::run(|handle| async move {
        handle.rt().sleep(Duration::from_millis(START_MS)).await;
        match Script::new(&case, &handle) {
            Err(error) => json!({"error": error}),
            Ok(mut script) => {
                handle.rt().sleep(OFFSET).await;
                let mut steps = Vec::new();
                for op in case["ops"].as_array().into_iter().flatten() {
                    steps.push(script.step(op).await);
                }
                json!({ "steps": steps })
            }
        }
    });
    match answer["error"].as_str() {
        Some(error) => given::compare_refusal(then, error),
        None => super::compare(then, &cut(then, answer)),
    }
}

/// Cuts an answer as the recorded one is: behind a step that may turn out in several ways.
fn cut(then: &Value, mut answer: Value) -> Value {
    let recorded = then["steps"].as_array().map_or(0, Vec::len);
    if let Some(steps) = answer["steps"].as_array_mut() {
        steps.truncate(recorded);
    }
    answer
}

struct Band {
    flows: Flows,
    fairness: Box<dyn BandFairness>,
}

struct Script {
    rt: Rt,
    handle: Handle,
    instance: Instance,
    /// The policy where it is the program-aware one.
    programs: Option<Rc<ProgramAware>>,
    bands: BTreeMap<i64, Band>,
    items: Vec<(String, String)>,
    waiting: BTreeMap<String, (i64, FlowKey, QueueHandle)>,
    served: Vec<(String, InferenceRequest)>,
}

impl Script {
    fn new(case: &Value, handle: &Handle) -> Result<Self, String> {
        let plugin_type = case["plugin"].as_str().expect("a policy");
        let (instance, programs) = if plugin_type == program_aware_fairness::TYPE {
            let parameters = given::parameters(&case["parameters"]);
            let policy = ProgramAware::new(plugin_type, &parameters, handle).map_err(|e| e.to_string())?;
            (Rc::clone(&policy).instance(plugin_type), Some(policy))
        } else {
            let built = given::build(plugin_type, &case["parameters"], handle).map_err(|e| e.to_string())?;
            (built, None)
        };
        run_periodic(handle.rt(), std::slice::from_ref(&instance));
        Ok(Script {
            rt: handle.rt().clone(),
            handle: handle.clone(),
            instance,
            programs,
            bands: BTreeMap::new(),
            items: Vec::new(),
            waiting: BTreeMap::new(),
            served: Vec::new(),
        })
    }

    async fn step(&mut self, op: &Value) -> Value {
        let text = |name: &str| op[name].as_str().unwrap_or_default();
        let priority = op["band"].as_i64().unwrap_or_default();
        let mut answer = json!({});
        let mut shows_cursor = false;
        match text("op") {
            "create_flow" => {
                self.flow(priority, text("flow"), op["ordering_policy"].as_str());
            }
            "add" => self.add(priority, op),
            "remove" => {
                if let Some((band, flow, handle)) = self.waiting.remove(text("item_name")) {
                    self.band(band).flows.remove(flow, handle).expect("the item waits");
                }
            }
            "delete_flow" => {
                let flows = &mut self.band(priority).flows;
                if let Some(flow) = flows.find(text("flow")) {
                    for gone in flows.remove_flow(flow) {
                        let name = self.items[gone.item.0 as usize].0.clone();
                        self.waiting.remove(&name);
                    }
                }
            }
            how @ ("pick" | "dispatch" | "serve") => {
                self.pick(how, priority, &mut answer);
                shows_cursor = true;
            }
            "advance" => {
                self.rt.sleep(Duration::from_secs_f64(op["ms"].as_f64().unwrap_or_default() / 1e3)).await;
            }
            "pre_request" => self.pre_request(op),
            "response" => self.response(op, &mut answer),
            other => panic!("unknown step {other}"),
        }
        if shows_cursor && let Some(cursor) = self.band(priority).fairness.cursor() {
            answer["cursor"] = json!(cursor);
        }
        if let Some(programs) = &self.programs {
            answer["programs"] = described(programs);
            let dumper = self.instance.roles.state_dumper.as_ref().expect("the policy shows its state");
            answer["dump"] = dumper.dump_state();
            answer["at_ms"] = json!(((self.rt.now() - OFFSET).as_nanos() / 1_000_000) - START_MS);
        }
        answer
    }

    fn band(&mut self, priority: i64) -> &mut Band {
        let policy = self.instance.roles.fairness_policy.as_ref().expect("a fairness policy");
        let new = || Band { flows: Flows::new(Ties::Heap), fairness: policy.for_band() };
        self.bands.entry(priority).or_insert_with(new)
    }

    fn flow(&mut self, priority: i64, flow: &str, ordering: Option<&str>) -> FlowKey {
        let ordering = ordering.unwrap_or("fcfs-ordering-policy");
        let instance = given::build(ordering, &Value::Null, &self.handle).expect("an ordering policy");
        let policy = instance.roles.ordering_policy.expect("an ordering policy");
        self.band(priority).flows.provide(flow, &policy)
    }

    fn add(&mut self, priority: i64, op: &Value) {
        let item = Item::read(&op["item"], Some(self.rt.now()));
        let flow = op["flow"].as_str().expect("an item has a flow");
        let key = self.flow(priority, flow, op["ordering_policy"].as_str());
        let number = ItemId(self.items.len() as u32);
        let handle = self.band(priority).flows.add(key, number, &item.arrival(), item.bytes);
        self.items.push((item.name.clone(), flow.to_owned()));
        self.waiting.insert(item.name, (priority, key, handle));
    }

    fn pick(&mut self, how: &str, priority: i64, answer: &mut Value) {
        let now = self.rt.now();
        let band = self.band(priority);
        let picked = match band.fairness.pick(&band.flows, now) {
            Ok(Some(flow)) => flow,
            Ok(None) => return,
            Err(_) => {
                answer["result"] = json!({"error": {"kind": "incompatible-ordering"}});
                return;
            }
        };
        let (head, handle) = band.flows.queue(picked).peek().expect("a picked flow has a head");
        if how != "pick" {
            band.flows.remove(picked, handle).expect("the head waits");
        }
        let (name, flow) = self.items[head.item.0 as usize].clone();
        answer["flow"] = json!(flow);
        answer["item"] = json!(name);
        if how == "pick" {
            return;
        }
        self.waiting.remove(&name);
        if how == "serve" {
            let mut request = InferenceRequest { fairness_id: flow, ..InferenceRequest::default() };
            let policy = self.instance.roles.fairness_policy.as_ref().expect("a fairness policy");
            if policy.wants_enqueue_time() {
                request.attributes.put(ENQUEUE_TIME, head.enqueued);
            }
            self.hook(&mut request);
            self.served.push((name, request));
        }
    }

    fn hook(&self, request: &mut InferenceRequest) {
        if let Some(hook) = &self.instance.roles.pre_request {
            let result = SchedulingResult::default();
            hook.pre_request(request, &result, &Candidates::default()).expect("the hook never fails");
        }
    }

    /// Returns a request of the item or the fairness id that a step names.
    fn bare(&self, op: &Value) -> InferenceRequest {
        let item = op["item_name"].as_str().and_then(|name| self.items.iter().find(|item| item.0 == name));
        let id = item.map_or_else(|| op["fairness_id"].as_str().unwrap_or_default(), |item| &item.1);
        InferenceRequest { fairness_id: id.to_owned(), ..InferenceRequest::default() }
    }

    fn pre_request(&mut self, op: &Value) {
        let mut request = self.bare(op);
        self.hook(&mut request);
    }

    fn response(&mut self, op: &Value, answer: &mut Value) {
        let request = match op["served_index"].as_u64() {
            Some(index) => {
                let Some((name, request)) = self.served.get(index as usize) else { return };
                answer["item"] = json!(name);
                request
            }
            None => &self.bare(op),
        };
        let Some(hook) = &self.instance.roles.response_body else { return };
        let tokens = |name: &str| op[name].as_i64().unwrap_or_default();
        let usage = Usage {
            prompt_tokens: tokens("prompt_tokens"),
            completion_tokens: tokens("completion_tokens"),
            ..Usage::default()
        };
        let end_of_stream = op["not_end_of_stream"] != true;
        let mut record = ResponseRecord { usage, end_of_stream, ..ResponseRecord::default() };
        hook.response_body(Some(request), &mut record, None);
    }
}

fn described(policy: &ProgramAware) -> Value {
    let mut programs = Map::new();
    policy.each_program(|id, program| {
        let described = json!({
            "attained_service": program.attained_service,
            "in_flight": program.in_flight,
            "dispatched": program.dispatched,
            "wait_count": program.wait_count,
            "average_wait_ms": program.average_wait_ms,
        });
        programs.insert(id.to_owned(), described);
    });
    Value::Object(programs)
}
