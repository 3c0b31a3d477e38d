//! `processor.jsonl`, and `controller` of `eviction.jsonl`: the whole controller on a virtual clock.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::sync::oneshot;
use executor::{Instant, Rt, WallTime};
use futures::future::{Either, select};
use router::admission::{Asking, EndpointList, SaturationDetector};
use router::candidates::Candidates;
use router::config::loader::{Options, load};
use router::config::schema::Behavior;
use router::director::Hooks;
use router::endpoint::Endpoint;
use router::flow_control::admission::{queue_request, refusal};
use router::flow_control::candidates::{CachedLocator, Locator};
use router::flow_control::eviction::RequestEvictor;
use router::flow_control::fairness::ENQUEUE_TIME;
use router::flow_control::{Ended, FlowController, Parts, Settings};
use router::plugin::{Handle, run_periodic};
use router::request::InferenceRequest;
use router::request_control::{Metadata, ResponseRecord, Usage};
use router::scheduling::SchedulingResult;
use router::support::Registry;
use serde_json::{Value, json};

use super::given;
use crate::outcome::Outcome;

/// Wall time at the start, so that headers can have come before it. Unit: milliseconds.
const START_MS: u64 = 1_700_000_000_000;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let case = given.clone();
    let answer = executor::Sim::builder()
        .seed(1)
        .epoch(WallTime::from_unix_nanos(START_MS * 1_000_000))
        .build()
        .run(|rt| async move {
            // Late enough for metrics that are older than the controller.
            rt.sleep(START).await;
            let script = Script::new(&rt, &case["setup"]);
            rt.sleep(Duration::from_micros(500)).await;
            let mut steps = Vec::new();
            for op in case["ops"].as_array().into_iter().flatten() {
                steps.push(script.step(op).await);
            }
            json!({ "steps": steps })
        })
        .unwrap();
    super::compare(then, &answer)
}

/// The detector of most cases.
#[derive(Default)]
struct Scripted(Cell<f64>);

impl SaturationDetector for Scripted {
    fn plugin_type(&self) -> &'static str {
        "scripted"
    }

    fn saturation(&self, endpoints: &[Rc<Endpoint>], _: Instant) -> f64 {
        if endpoints.is_empty() { 1.0 } else { self.0.get() }
    }
}

/// The datastore.
struct Pool(RefCell<EndpointList>);

impl Locator for Pool {
    fn locate(&self, _: &Metadata) -> EndpointList {
        Rc::clone(&self.0.borrow())
    }
}

struct Script {
    rt: Rt,
    pool: Rc<Pool>,
    cache: Rc<CachedLocator>,
    scripted: Rc<Scripted>,
    hooks: Rc<Hooks>,
    controller: FlowController,
    evictor: Option<Rc<RequestEvictor>>,
    ends_at_once: bool,
    seen: Rc<Seen>,
    cancels: RefCell<BTreeMap<String, oneshot::Sender<()>>>,
    /// The flow of each request.
    flows: RefCell<BTreeMap<String, String>>,
}

/// When the controller starts.
const START: Duration = Duration::from_secs(3600);

/// What happened in a step.
#[derive(Default)]
struct Seen {
    finished: RefCell<Vec<(u64, String, Value)>>,
    evicted: RefCell<Vec<(u64, String, Value)>>,
}

/// Returns the time as the vectors count it, in microseconds.
fn micros(rt: &Rt) -> u64 {
    (rt.now() - START).as_nanos() / 1_000
}

fn ms(micros: u64) -> Value {
    json!(micros as f64 / 1e3)
}

impl Script {
    fn new(rt: &Rt, setup: &Value) -> Self {
        let handle = Handle::new(rt.clone());
        let config = json!({
            "apiVersion": "llm-d.ai/v1alpha1",
            "kind": "EndpointPickerConfig",
            "featureGates": ["flowControl"],
            "plugins": setup.get("plugins").cloned().unwrap_or(json!([])),
            "flowControl": setup.get("flow_control").cloned().unwrap_or(json!({})),
        });
        let options = Options { allow_experimental: true, ..Options::default() };
        let assembly = load("case.yaml", &config.to_string(), &Registry::default(), &handle, &options)
            .unwrap_or_else(|problems| panic!("{problems}"));
        run_periodic(rt, &handle.instances());
        let scripted = Rc::new(Scripted::default());
        let detector: Rc<dyn SaturationDetector> =
            if setup["detector"] == "scripted" { scripted.clone() } else { assembly.detector.plugin.clone() };
        let mut settings = assembly.flow_control.expect("the gate is on");
        overrule(&mut settings, &setup["overrides"]);
        let pool = Rc::new(Pool(RefCell::new(given::endpoints(&setup["endpoints"], rt.now()))));
        let cache = Rc::new(CachedLocator::new(rt.clone(), pool.clone(), Duration::ZERO));
        let evictor = settings.controller.enable_eviction.then(|| Rc::new(RequestEvictor::new(rt.clone())));
        let parts = Parts {
            settings,
            detector,
            pool: Rc::clone(&cache),
            evictor: evictor.clone(),
            metrics: handle.metrics().clone(),
            pool_name: "pool-1".to_owned(),
            behavior: Behavior::Parity,
            elides_ticks: true,
        };
        Script {
            rt: rt.clone(),
            pool,
            cache,
            scripted,
            hooks: Rc::new(assembly.hooks),
            controller: FlowController::start(rt, parts),
            evictor,
            ends_at_once: setup["evicted_stream_ends_at_once"] == true,
            seen: Rc::default(),
            cancels: RefCell::default(),
            flows: RefCell::default(),
        }
    }

    async fn step(&self, op: &Value) -> Value {
        let mut inspects = false;
        match op["op"].as_str().expect("a step has a kind") {
            "enqueue" => self.enqueue(op),
            "advance" => {
                self.rt.sleep(duration_ms(&op["ms"])).await;
            }
            "set_saturation" => {
                self.scripted.0.set(tests::compare::read_float(&op["value"]).expect("a float"));
            }
            "cancel" => {
                let cancel = self.cancels.borrow_mut().remove(op["req"].as_str().unwrap_or_default());
                if let Some(cancel) = cancel {
                    let _ = cancel.send(());
                }
            }
            "set_endpoints" => *self.pool.0.borrow_mut() = given::endpoints(&op["endpoints"], self.rt.now()),
            "set_desired_priorities" => {
                let priorities = op["priorities"].as_array().into_iter().flatten().filter_map(Value::as_i64);
                self.controller.set_desired_priorities(priorities);
            }
            "respond" => self.respond(op),
            "end_stream" => {
                if let Some(evictor) = &self.evictor {
                    evictor.ended(op["req"].as_str().unwrap_or_default());
                }
            }
            "inspect" => inspects = true,
            "shutdown" => self.controller.shut_down(),
            other => panic!("unknown step {other}"),
        }
        self.settle().await;
        self.answer(inspects)
    }

    /// Lets everything run that is due now, and what that wakes.
    async fn settle(&self) {
        for _ in 0..8 {
            drop(self.rt.spawn_local("step", async {}).await);
        }
    }

    fn answer(&self, inspects: bool) -> Value {
        let listed = |list: &RefCell<Vec<(u64, String, Value)>>| {
            let mut list = list.take();
            list.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
            list.into_iter().map(|(_, _, value)| value).collect::<Vec<_>>()
        };
        let bands = self.controller.bands().into_iter().map(|band| {
            let counts = json!([band.priority, band.requests, band.bytes]);
            match counts {
                Value::Array(mut counts) if inspects => {
                    counts.push(band.flows.iter().map(|id| json!(**id)).collect());
                    Value::Array(counts)
                }
                counts => counts,
            }
        });
        let mut answer = json!({
            "at_ms": ms(micros(&self.rt)),
            "finished": listed(&self.seen.finished),
            "queued": self.controller.queued(),
            "bands": bands.collect::<Vec<_>>(),
        });
        if let Some(evictor) = &self.evictor {
            answer["evicted"] = json!(listed(&self.seen.evicted));
            let (in_flight, evictable) = evictor.counts();
            answer["in_flight"] = json!(in_flight);
            answer["evictable"] = json!(evictable);
        }
        answer
    }

    fn enqueue(&self, op: &Value) {
        let text = |name: &str| op[name].as_str().unwrap_or_default().to_owned();
        let name = text("req");
        let headers = op["headers"].as_object().map(given::headers).unwrap_or_default();
        let request = InferenceRequest {
            request_id: name.clone(),
            fairness_id: text("fairness_id"),
            priority: op["priority"].as_i64().unwrap_or_default(),
            size_bytes: op["size_bytes"].as_u64().unwrap_or_default() as usize,
            headers,
            ..InferenceRequest::default()
        };
        let received = self.rt.wall().unix_nanos() - duration_ms(&op["received_before_ms"]).as_nanos() as u64;
        let asking = Asking {
            now: self.rt.now(),
            candidates: &|| self.cache.whole_pool(),
            incoming_model: "m",
            received: WallTime::from_unix_nanos(received),
            deadline: op.get("caller_deadline_ms").map(|ms| self.rt.now() + duration_ms(ms)),
        };
        self.flows.borrow_mut().insert(name.clone(), request.fairness_id.clone());
        let (cancel, cancelled) = self.rt.oneshot();
        self.cancels.borrow_mut().insert(name, cancel);
        let asked = self.controller.enqueue(&queue_request(&request, &asking));
        let task = Task {
            rt: self.rt.clone(),
            cache: Rc::clone(&self.cache),
            controller: self.controller.clone(),
            hooks: Rc::clone(&self.hooks),
            evictor: self.evictor.clone(),
            ends_at_once: self.ends_at_once,
            seen: Rc::clone(&self.seen),
            since: self.rt.now(),
        };
        drop(self.rt.daemon("request", async move {
            let ended = match asked {
                Ok(ended) => ended,
                Err(mut wait) => {
                    let told = match select(&mut wait, cancelled).await {
                        Either::Left((ended, _)) => Some(ended),
                        Either::Right(_) => None,
                    };
                    told.unwrap_or_else(|| wait.cancel())
                }
            };
            task.finish(request, ended);
        }));
    }

    /// Ends the response of a request; of one that was not dispatched as well, for the hooks take that too.
    fn respond(&self, op: &Value) {
        let flows = self.flows.borrow();
        let Some(flow) = flows.get(op["req"].as_str().unwrap_or_default()) else { return };
        let request = InferenceRequest { fairness_id: flow.clone(), ..InferenceRequest::default() };
        let tokens = |name: &str| op[name].as_i64().unwrap_or_default();
        let usage = Usage {
            prompt_tokens: tokens("prompt_tokens"),
            completion_tokens: tokens("completion_tokens"),
            ..Usage::default()
        };
        for hook in &self.hooks.response_body {
            let mut record = ResponseRecord { usage, end_of_stream: true, ..ResponseRecord::default() };
            hook.plugin.response_body(Some(&request), &mut record, None);
        }
    }
}

/// What a request needs when its wait is over.
struct Task {
    rt: Rt,
    cache: Rc<CachedLocator>,
    controller: FlowController,
    hooks: Rc<Hooks>,
    evictor: Option<Rc<RequestEvictor>>,
    ends_at_once: bool,
    seen: Rc<Seen>,
    since: Instant,
}

impl Task {
    fn finish(self, mut request: InferenceRequest, ended: Ended) {
        let at = micros(&self.rt);
        let name = request.request_id.clone();
        let mut answer = json!({"req": name, "at_ms": ms(at), "outcome": ended.outcome.to_string()});
        let refused = refusal(&ended, Behavior::Parity, || self.cache.whole_pool().is_empty());
        if let Some(error) = refused {
            answer["error"] = super::admission::described(&error);
        } else {
            if self.controller.wants_enqueue_time(request.priority) {
                request.attributes.put(ENQUEUE_TIME, self.since);
            }
            for hook in &self.hooks.pre_request {
                let result = SchedulingResult::default();
                hook.plugin
                    .pre_request(&mut request, &result, &Candidates::default())
                    .expect("no hook fails");
            }
            if let Some(evictor) = &self.evictor
                && let Some(signal) = evictor.dispatched(&name, request.priority)
            {
                self.listen(&name, &signal, evictor);
            }
        }
        self.seen.finished.borrow_mut().push((at, name, answer));
    }

    fn listen(
        &self,
        name: &str,
        signal: &router::flow_control::eviction::Signal,
        evictor: &Rc<RequestEvictor>,
    ) {
        let (rt, seen, evictor) = (self.rt.clone(), Rc::clone(&self.seen), Rc::clone(evictor));
        let (name, ends_at_once) = (name.to_owned(), self.ends_at_once);
        signal.on_fire(move || {
            let at = micros(&rt);
            let reason = evictor.reason(&name).unwrap_or_default();
            let answer = json!({"req": name, "at_ms": ms(at), "reason": reason});
            seen.evicted.borrow_mut().push((at, name.clone(), answer));
            if ends_at_once {
                drop(rt.clone().daemon("stream", async move { evictor.ended(&name) }));
            }
        });
    }
}

fn duration_ms(ms: &Value) -> Duration {
    Duration::from_secs_f64(ms.as_f64().unwrap_or_default() / 1e3)
}

/// Sets what no configuration says.
fn overrule(settings: &mut Settings, overrides: &Value) {
    let ms = |name: &str, value: &mut Duration| {
        if let Some(ms) = overrides[name].as_f64() {
            *value = Duration::from_secs_f64(ms / 1e3);
        }
    };
    ms("expiry_cleanup_interval_ms", &mut settings.controller.expiry_cleanup_interval);
    ms("eviction_confirmation_grace_ms", &mut settings.controller.eviction_confirmation_grace);
    ms("eviction_confirmation_timeout_ms", &mut settings.controller.eviction_confirmation_timeout);
    ms("flow_gc_timeout_ms", &mut settings.registry.flow_gc_timeout);
    ms("band_gc_timeout_ms", &mut settings.registry.priority_band_gc_timeout);
    if let Some(most) = overrides["max_revocations_per_decision"].as_u64() {
        settings.controller.max_revocations_per_decision = most as usize;
    }
}
