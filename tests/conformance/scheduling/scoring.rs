//! `scorers.jsonl` and `filters.jsonl`: raw scores and survivors, at once or through a script.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt, Sim};
use router::attributes::InFlightLoad;
use router::candidates::{Candidate, Candidates};
use router::data_key::DataKey;
use router::endpoint::Endpoint;
use router::plugin::{Instance, run_periodic};
use router::request::InferenceRequest;
use router::request_control::ResponseRecord;
use router::scheduling::SchedulingContext;
use serde_json::{Map, Value, json};
use tests::compare::{any_of, float};

use super::{compare, given, hooks, plugins, refused, samples};
use crate::outcome::Outcome;

/// Which of its capabilities a plugin is asked for; some have both.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Filter,
    Score,
}

pub(super) fn run(ask: Ask, given: &Value, then: &Value) -> Outcome {
    if let Some([explored, kept]) = any_of(then) {
        let result = samples::fits(|seed| two_outcomes(ask, given, explored, kept, seed));
        return result.map_or_else(Outcome::Failed, |()| Outcome::Passed);
    }
    let (given, want) = (given.clone(), then.clone());
    let answer = Sim::new(1).run(move |rt| async move { answer(ask, &given, &rt).await });
    compare(&want, &answer.unwrap())
}

/// Builds the plugin, lets its periodic work run, and asks it once or through a script.
async fn answer(ask: Ask, given: &Value, rt: &Rt) -> Value {
    let handle = plugins::handle(rt);
    let built = plugins::build_all(given.get("existing_plugins"), &handle)
        .and_then(|()| plugins::build(&given["plugin"], &handle));
    let Ok(instance) = built else { return refused() };
    run_periodic(rt, std::slice::from_ref(&instance));
    let answer = match given.get("script") {
        Some(script) => Script::new(ask, given, &instance).run(rt, script).await,
        None => {
            let request = given::request(&given["request"]);
            step(ask, &instance, &request, &given::candidates(given.get("candidates")), given::now())
        }
    };
    with_identity(ask, answer, &instance)
}

/// A filter that draws: the first answer with its probability, the second otherwise.
fn two_outcomes(ask: Ask, given: &Value, first: &Value, second: &Value, seed: u64) -> Result<(), String> {
    hooks::host(seed, async |rt| {
        let instance = plugins::build(&given["plugin"], &plugins::handle(&rt)).map_err(|e| e.to_string())?;
        let (request, candidates) =
            (given::request(&given["request"]), given::candidates(given.get("candidates")));
        let (mut counts, mut others) = ([0, 0], 0);
        // Answers are compared as JSON, which costs more than the draw.
        for _ in 0..samples::DRAWS / 5 {
            let answer =
                with_identity(ask, step(ask, &instance, &request, &candidates, given::now()), &instance);
            match [first, second].iter().position(|listed| listed["value"] == answer) {
                Some(at) => counts[at] += 1,
                None => others += 1,
            }
        }
        let chance = |entry: &Value| entry["p"].as_f64().unwrap_or_default();
        samples::fit(&counts, &[chance(first), chance(second)], others)
    })
}

/// Adds the type, and a scorer's category.
fn with_identity(ask: Ask, mut answer: Value, instance: &Instance) -> Value {
    answer["reported_type"] = json!(&*instance.id.plugin_type);
    if let (Ask::Score, Some(scorer)) = (ask, &instance.roles.scorer) {
        answer["category"] = json!(format!("{:?}", scorer.category()));
    }
    answer
}

/// Filters or scores all candidates.
fn step(
    ask: Ask,
    instance: &Instance,
    request: &InferenceRequest,
    candidates: &Candidates,
    now: Instant,
) -> Value {
    let cx = SchedulingContext { request, candidates, now };
    let mut survivors: Vec<Candidate> = candidates.all().collect();
    let id = |c: Candidate| candidates.endpoint(c).metadata.id.to_string();
    if ask == Ask::Score {
        let scorer = instance.roles.scorer.as_ref().expect("the plugin is a scorer");
        let mut scores = vec![None; survivors.len()];
        scorer.score(&cx, &survivors, &mut scores);
        let scored = survivors.iter().zip(scores).filter_map(|(&c, s)| Some((id(c), float(s?))));
        return json!({ "scores": scored.collect::<Map<String, Value>>() });
    }
    let filter = instance.roles.filter.as_ref().expect("the plugin is a filter");
    filter.filter(&cx, &mut survivors);
    let ids: Vec<String> = survivors.iter().map(|&c| id(c)).collect();
    let places: Vec<u32> = survivors.iter().map(|c| c.0).collect();
    json!({ "kept": ids, "kept_index": places })
}

/// A plugin, the endpoints of its script and what they carry.
struct Script<'a> {
    ask: Ask,
    instance: &'a Instance,
    endpoints: BTreeMap<&'a str, Endpoint>,
    live_load_key: Option<DataKey>,
    /// How far the script has moved the clock.
    clock: Instant,
}

impl<'a> Script<'a> {
    fn new(ask: Ask, given: &'a Value, instance: &'a Instance) -> Self {
        let endpoints = given["endpoints"].as_array().into_iter().flatten();
        Script {
            ask,
            instance,
            endpoints: endpoints.map(|e| (given::text(e, "name"), given::endpoint(e))).collect(),
            live_load_key: given["live_load_key"].as_str().map(DataKey::plain),
            clock: Instant::ZERO,
        }
    }

    async fn run(&mut self, rt: &Rt, script: &Value) -> Value {
        let mut answers = Vec::new();
        for operation in script.as_array().into_iter().flatten() {
            answers.push(self.step(rt, operation).await);
        }
        json!({ "steps": answers })
    }

    async fn step(&mut self, rt: &Rt, operation: &Value) -> Value {
        let mut request = given::request(&operation["request"]);
        let roles = &self.instance.roles;
        match given::text(operation, "op") {
            "score" | "filter" => {
                return step(self.ask, self.instance, &request, &self.snapshot(operation), rt.now());
            }
            "pre-request" => {
                let all = self.all();
                let hook = roles.pre_request.as_ref().expect("the plugin has a pre-request hook");
                // Without a result there is nothing to forward, so no hook runs.
                if operation["result"]["nil"] != Value::Bool(true) {
                    let result = hooks::scheduling_result(&operation["result"], &all);
                    hook.pre_request(&mut request, &result, &all).expect("these hooks never fail");
                }
            }
            "response-header" => return self.response_header(operation, request),
            "advance-time" => {
                let ms = operation["ms"].as_f64().unwrap_or_default();
                self.clock += Duration::from_secs_f64(ms / 1000.0);
                // A nanosecond more, so that what is due at that very instant has run.
                rt.sleep_until(self.clock + Duration::from_nanos(1)).await;
            }
            "set-load" => {
                let (requests, tokens) = (&operation["requests"], &operation["tokens"]);
                let load = InFlightLoad {
                    requests: requests.as_i64().unwrap_or_default().into(),
                    tokens: tokens.as_i64().unwrap_or_default().into(),
                };
                let key = self.load_key();
                self.endpoint(operation).attributes.put(key, Rc::new(load));
            }
            "clear-load" => {
                let key = self.load_key();
                self.endpoint(operation).attributes.remove(&key);
            }
            "dump" => {
                let dumper = roles.state_dumper.as_ref().expect("the plugin dumps its state");
                return json!({ "state": dumper.dump_state() });
            }
            other => panic!("no adapter for the operation {other}"),
        }
        json!({})
    }

    fn response_header(&self, operation: &Value, mut request: InferenceRequest) -> Value {
        let all = self.all();
        if let Some(result) = operation.get("result") {
            request.scheduling_result = Some(Rc::new(hooks::scheduling_result(result, &all)));
        }
        let hook = self.instance.roles.response_header.as_ref().expect("the plugin has a response hook");
        let target = operation["target"].as_str().and_then(|name| self.endpoints.get(name));
        // A response without headers is one with an empty list.
        let mut response = ResponseRecord::default();
        hook.response_header(Some(&request), &mut response, target.map(|t| &t.metadata));
        let headers: Map<String, Value> =
            response.headers.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        json!({ "response_headers_added": headers })
    }

    fn snapshot(&self, operation: &Value) -> Candidates {
        let names = operation["candidates"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let endpoint = |name: &str| {
            let mut endpoint = self.endpoints[name].clone();
            given::put_attributes(&mut endpoint, &operation["attributes"][name]);
            Rc::new(endpoint)
        };
        Candidates::new(Rc::new(names.map(endpoint).collect()))
    }

    fn all(&self) -> Candidates {
        Candidates::new(Rc::new(self.endpoints.values().cloned().map(Rc::new).collect()))
    }

    fn load_key(&self) -> DataKey {
        self.live_load_key.clone().expect("a script that sets loads names their key")
    }

    fn endpoint(&mut self, operation: &Value) -> &mut Endpoint {
        self.endpoints.get_mut(given::text(operation, "endpoint")).expect("the endpoint is defined")
    }
}
