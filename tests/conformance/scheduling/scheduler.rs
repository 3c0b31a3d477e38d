//! `scheduler.jsonl`: a configuration file, loaded as at start-up, and the sequence of requests that it decides.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use executor::Rt;
use router::candidates::Candidates;
use router::config::assembly::Assembly;
use router::config::fault::{Fault, Phase};
use router::config::loader::{Options, load};
use router::config::problem::Problems;
use router::data_layer::EndpointEvent;
use router::endpoint::Endpoint;
use router::headers::Headers;
use router::plugin::{Handle, TypedName};
use router::request::{InferenceRequest, ParsedBody, ParserRegistry};
use router::request_control::{Produced, ResponseRecord};
use router::scheduling::{ProfileRunResult, SchedulingContext};
use router::support::Registry;
use serde_json::{Map, Value, json};
use tests::compare::{REWRITE_TOLERANCE, Rules, any_of};

use super::{given, hooks, profile_handlers, profiles};
use crate::outcome::Outcome;

/// Runs within which every one of several possible answers has to occur.
const MOST_RUNS: usize = 20_000;

/// Set by a handler between decision and commit; the answers list it apart from the other headers.
const DATA_PARALLEL_HEADER: &str = "x-data-parallel-host-port";

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    hooks::host(1, async |rt| {
        let assembly = match assemble(given, &rt) {
            Ok(assembly) => assembly,
            Err(problems) => return refused(&problems, then),
        };
        if then.get("error").is_some() {
            return Outcome::Failed(format!("accepted; want {}", then["error"]));
        }
        let list = |value: &Value| value["steps"].as_array().cloned().unwrap_or_default();
        let (steps, answers) = (list(given), list(then));
        if steps.len() != answers.len() {
            return Outcome::Failed(format!("{} steps and {} answers", steps.len(), answers.len()));
        }
        let mut script = Script::new(given, assembly);
        for (at, (step, want)) in steps.iter().zip(&answers).enumerate() {
            if let Err(difference) = script.step(step, want).await {
                return Outcome::Failed(format!("steps[{at}]: {difference}"));
            }
        }
        Outcome::Passed
    })
}

fn assemble(given: &Value, rt: &Rt) -> Result<Assembly, Problems<Fault>> {
    let text = given["config"].as_str().unwrap_or_default();
    let allow_experimental = given["allow_experimental_plugins"] == Value::Bool(true);
    let options = Options { allow_experimental, ..Options::default() };
    load("case.yaml", text, &Registry::default(), &Handle::new(rt.clone()), &options)
}

/// Compares the first problem, which is the one that stops the recorded loader.
fn refused(problems: &Problems<Fault>, then: &Value) -> Outcome {
    let first = &problems.list()[0];
    if first.kind == Fault::NotBuilt {
        return Outcome::NotBuilt(first.message.clone());
    }
    match then.pointer("/error/kind").and_then(Value::as_str) {
        Some(want) if want == kind(first.kind) => Outcome::Passed,
        want => Outcome::Failed(format!("refused as {}, want {want:?}: {problems}", kind(first.kind))),
    }
}

/// Returns the kind of a load error as this file of vectors groups them.
fn kind(fault: Fault) -> &'static str {
    match fault {
        Fault::BadParameters => "bad-parameter",
        Fault::UnknownPluginReference => "dangling-plugin-reference",
        Fault::PluginReferenceCycle | Fault::Cycle => "dependency-cycle",
        Fault::SecondPicker => "two-pickers",
        Fault::MultipleProfileHandlers => "multiple-profile-handlers",
        Fault::NoProfileHandler => "no-profile-handler",
        Fault::SingleHandlerWithManyProfiles => "single-handler-many-profiles",
        Fault::NoDefaultProducer => "missing-producer",
        Fault::Experimental => "alpha-not-allowed",
        fault if fault.phase() == Phase::Parse => "undecodable-config",
        fault if fault.phase() == Phase::Validate => "invalid-config",
        fault => fault.name(),
    }
}

/// A request with the candidates of its decision.
struct Running {
    request: InferenceRequest,
    candidates: Candidates,
}

/// A loaded configuration, its endpoints and the requests under way.
struct Script {
    assembly: Assembly,
    /// In the order of the case.
    endpoints: Vec<(String, Rc<Endpoint>)>,
    runs_producers: bool,
    requests: BTreeMap<String, Running>,
}

impl Script {
    fn new(given: &Value, assembly: Assembly) -> Self {
        let runs_producers = given["run_data_producers"] == Value::Bool(true);
        let endpoint = |value: &Value| {
            let mut endpoint = given::endpoint(value);
            if runs_producers {
                let event = EndpointEvent::AddOrUpdate(Rc::clone(&endpoint.metadata));
                for listener in assembly.data_layer.all_endpoint_listeners() {
                    listener.plugin.on_event(&event, Some(&mut endpoint));
                }
            }
            (given::text(value, "name").to_owned(), Rc::new(endpoint))
        };
        let endpoints = given["endpoints"].as_array().into_iter().flatten().map(endpoint).collect();
        Script { assembly, endpoints, runs_producers, requests: BTreeMap::new() }
    }

    /// Makes a step and returns the first difference to `want`.
    async fn step(&mut self, step: &Value, want: &Value) -> Result<(), String> {
        let answer = match given::text(step, "op") {
            "schedule" => return self.schedule(step, want).await,
            "commit" => self.commit(step),
            "response-header" => self.response_header(step),
            "complete" => self.complete(step),
            "set-metrics" => {
                let name = given::text(step, "endpoint");
                let entry = self.endpoints.iter_mut().find(|(known, _)| known == name);
                let (_, endpoint) = entry.expect("the endpoint is one of the case");
                Rc::make_mut(endpoint).metrics = given::metrics(&step["metrics"]);
                json!({})
            }
            other => panic!("no adapter for the operation {other}"),
        };
        difference(want, &answer)
    }

    /// Decides once, or until every one of several possible answers has been seen.
    async fn schedule(&mut self, step: &Value, want: &Value) -> Result<(), String> {
        let Some(listed) = any_of(want) else {
            let answer = self.schedule_once(step).await;
            return difference(want, &answer);
        };
        let mut seen = vec![false; listed.len()];
        for _ in 0..MOST_RUNS {
            let answer = self.schedule_once(step).await;
            let Some(at) = listed.iter().position(|one| difference(one, &answer).is_ok()) else {
                return Err(format!("{answer} is none of the listed answers {}", want["any_of"]));
            };
            seen[at] = true;
            if seen.iter().all(|seen| *seen) {
                return Ok(());
            }
        }
        let missing = listed.iter().zip(seen).find(|(_, seen)| !seen).map(|(one, _)| one);
        Err(format!("never drawn in {MOST_RUNS} runs: {}", missing.unwrap_or(&Value::Null)))
    }

    async fn schedule_once(&mut self, step: &Value) -> Value {
        let mut request = request(&step["request"]);
        let mut candidates = self.candidates(step.get("candidates"));
        if self.runs_producers {
            for hook in &self.assembly.hooks.producers {
                let outcome = match hook.plugin.produce(&mut request, &mut candidates) {
                    Produced::Ready(outcome) => outcome,
                    Produced::Pending(future) => future.await,
                };
                // As the director does: a failure keeps those behind it from running.
                if outcome.is_err() {
                    break;
                }
            }
        }
        let decision = self.assembly.scheduler.schedule(&mut request, &candidates, given::now(), None);
        let answer = match decision {
            Err(error) => json!({ "error": profile_handlers::failure(&error) }),
            Ok(decision) => {
                let cx = SchedulingContext { request: &request, candidates: &candidates, now: given::now() };
                let run = |(name, run): (&Rc<str>, &Option<ProfileRunResult>)| {
                    let run = run.as_ref().map(|run| profiles::answer(run, &cx));
                    (name.to_string(), json!(run))
                };
                let profiles: Map<String, Value> = decision.profiles.iter().map(run).collect();
                let primary = decision.profiles.get(&decision.primary).and_then(Option::as_ref);
                let mut answer = json!({
                    "primary": &*decision.primary,
                    "profiles": profiles,
                    "destination": primary.map(profiles::addresses),
                });
                if let Some(header) = request.headers.get(DATA_PARALLEL_HEADER) {
                    answer["data_parallel_header"] = json!(header);
                }
                answer
            }
        };
        self.requests.insert(request.request_id.clone(), Running { request, candidates });
        answer
    }

    fn commit(&mut self, step: &Value) -> Value {
        let skipped = |id: &TypedName| !self.runs_producers && is_producer(&self.assembly, id);
        let Running { request, candidates } = running(&mut self.requests, step);
        let result = Rc::new(hooks::scheduling_result(&step["result"], candidates));
        request.scheduling_result = Some(Rc::clone(&result));
        for hook in self.assembly.hooks.pre_request.iter().filter(|hook| !skipped(&hook.id)) {
            hook.plugin.pre_request(request, &result, candidates).expect("no hook of these cases fails");
        }
        let headers = request.headers.iter().filter(|(name, _)| *name != DATA_PARALLEL_HEADER);
        json!({ "request_headers": object(headers) })
    }

    fn response_header(&mut self, step: &Value) -> Value {
        let target = self.target(step);
        let mut response = ResponseRecord::default();
        let skipped = |id: &TypedName| !self.runs_producers && is_producer(&self.assembly, id);
        let Running { request, .. } = running(&mut self.requests, step);
        for hook in self.assembly.hooks.response_header.iter().filter(|hook| !skipped(&hook.id)) {
            hook.plugin.response_header(Some(request), &mut response, target.as_ref().map(|t| &t.metadata));
        }
        json!({ "response_headers_added": object(response.headers.iter()) })
    }

    fn complete(&mut self, step: &Value) -> Value {
        let target = self.target(step);
        let skipped = |id: &TypedName| !self.runs_producers && is_producer(&self.assembly, id);
        let Running { request, .. } = running(&mut self.requests, step);
        let mut response = ResponseRecord::default();
        for (start_of_stream, end_of_stream) in [(true, false), (false, true)] {
            (response.start_of_stream, response.end_of_stream) = (start_of_stream, end_of_stream);
            for hook in self.assembly.hooks.response_body.iter().filter(|hook| !skipped(&hook.id)) {
                let target = target.as_ref().map(|target| &target.metadata);
                hook.plugin.response_body(Some(request), &mut response, target);
            }
        }
        json!({})
    }

    fn candidates(&self, names: Option<&Value>) -> Candidates {
        let endpoint = |name: &str| self.endpoint(name).expect("the candidate is an endpoint of the case");
        let chosen = match names.and_then(Value::as_array) {
            Some(names) => names.iter().filter_map(Value::as_str).map(endpoint).collect(),
            None => self.endpoints.iter().map(|(_, endpoint)| Rc::clone(endpoint)).collect(),
        };
        Candidates::new(Rc::new(chosen))
    }

    fn endpoint(&self, name: &str) -> Option<Rc<Endpoint>> {
        let entry = self.endpoints.iter().find(|(known, _)| known == name);
        entry.map(|(_, endpoint)| Rc::clone(endpoint))
    }

    fn target(&self, step: &Value) -> Option<Rc<Endpoint>> {
        self.endpoint(step["target"].as_str()?)
    }
}

/// Returns whether an instance is a data producer, whose other hooks rest with it.
fn is_producer(assembly: &Assembly, id: &TypedName) -> bool {
    assembly.hooks.producers.iter().any(|producer| producer.id == *id)
}

fn running<'a>(requests: &'a mut BTreeMap<String, Running>, step: &Value) -> &'a mut Running {
    requests.get_mut(given::text(step, "request_id")).expect("the request was scheduled before")
}

/// Returns a request; a body is read by the parser of its path.
fn request(value: &Value) -> InferenceRequest {
    let mut request = given::request(value);
    if let Some(body) = value.get("body") {
        request.body = Some(parse(body));
    }
    request
}

fn parse(body: &Value) -> ParsedBody {
    let path = if body.get("messages").is_some() { "/v1/chat/completions" } else { "/v1/completions" };
    let headers: Headers = [(":path", path)].into_iter().collect();
    let parsers = ParserRegistry::default();
    let parsed = parsers.parse(&headers, Bytes::from(body.to_string()));
    parsed.expect("the body is one of OpenAI's").0
}

fn object<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> Value {
    headers.map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>().into()
}

fn difference(want: &Value, got: &Value) -> Result<(), String> {
    Rules::within(REWRITE_TOLERANCE).difference(want, got).map_or(Ok(()), Err)
}
