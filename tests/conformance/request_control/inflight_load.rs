//! `inflight_load.jsonl`: the counters of the in-flight load producer.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use executor::{Rt, Sim};
use router::attributes::{InFlightLoad, PrefixCacheMatchInfo, UncachedRequestTokens};
use router::candidates::Candidates;
use router::data_key::{DataKey, resolve, well_known};
use router::data_layer::EndpointEvent;
use router::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use router::plugin::{FactoryError, Handle, Instance, Parameters, run_periodic};
use router::producers::inflight_load_producer;
use router::request::{InferenceRequest, ParsedBody, TokenizedPrompt};
use router::request_control::{Produced, ResponseRecord};
use router::scheduling::{ProfileRunResult, SchedulingResult, Scored, Target};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let got = Sim::new(1).run(move |rt| async move {
        let name = given["plugin_name"].as_str().unwrap_or_default();
        let parameters = super::parameters(&given["parameters"]);
        match inflight_load_producer::factory(name, &parameters, &Handle::new(rt.clone())) {
            Err(error) => json!({"error": {"kind": refusal(&parameters, &error)}}),
            Ok(instance) => Script::new(rt, instance).run(&given["steps"]).await,
        }
    });
    Rules::exact().outcome(&case["then"], &got.unwrap())
}

/// Tells parameters that decode and are refused from those that do not decode.
fn refusal(parameters: &Parameters, _error: &FactoryError) -> &'static str {
    match parameters.decode::<inflight_load_producer::InflightLoadParameters>() {
        Ok(_) => "bad-parameter",
        Err(_) => "undecodable-parameters",
    }
}

/// A request with what its hooks need.
struct Running {
    request: InferenceRequest,
    candidates: Candidates,
    /// The candidates by name.
    names: Vec<String>,
}

struct Script {
    rt: Rt,
    instance: Instance,
    load_key: DataKey,
    uncached_key: DataKey,
    objects: BTreeMap<String, (Rc<EndpointMetadata>, Endpoint)>,
    requests: BTreeMap<String, Running>,
}

impl Script {
    fn new(rt: Rt, instance: Instance) -> Self {
        run_periodic(&rt, std::slice::from_ref(&instance));
        let key = |i: usize| instance.data.produces[i].key.clone();
        let (load_key, uncached_key) = (key(0), key(1));
        Script { rt, instance, load_key, uncached_key, objects: BTreeMap::new(), requests: BTreeMap::new() }
    }

    async fn run(mut self, steps: &Value) -> Value {
        let mut answers = Vec::new();
        for step in steps.as_array().into_iter().flatten() {
            let name = step["request"].as_str().unwrap_or_default();
            let uncached = match step["op"].as_str().unwrap_or_default() {
                "endpoint_add" => self.add(step),
                "endpoint_delete" => self.delete(step),
                "request" => Some(self.request(name, step)),
                "pre_request" => self.pre_request(name, step),
                "response" => self.response(name, step),
                "stream_end" => self.stream_end(name),
                "advance" => {
                    // The janitor's tick at the end of the step is part of it.
                    let ms = step["ms"].as_f64().unwrap_or(0.0) as u64;
                    self.rt.sleep(Duration::from_millis(ms)).await;
                    tick_is_over(&self.rt).await;
                    None
                }
                other => panic!("unknown step {other}"),
            };
            let mut answer = json!({"tracked": self.tracked(), "attribute": self.attributes()});
            if let Some(uncached) = uncached {
                answer["uncached_request_tokens"] = uncached;
            }
            answers.push(answer);
        }
        json!({"steps": answers})
    }

    fn add(&mut self, step: &Value) -> Option<Value> {
        let object = step["object"].as_str().unwrap_or_default().to_owned();
        let known = self.objects.get(&object).map(|(metadata, _)| Rc::clone(metadata));
        let metadata = known.unwrap_or_else(|| metadata(step["endpoint"].as_str().unwrap_or_default()));
        let mut endpoint = Endpoint { metadata: Rc::clone(&metadata), ..Endpoint::default() };
        let event = EndpointEvent::AddOrUpdate(Rc::clone(&metadata));
        let listener = self.instance.roles.endpoint_listener.as_ref().expect("a listener");
        listener.on_event(&event, Some(&mut endpoint));
        self.objects.insert(object, (metadata, endpoint));
        None
    }

    fn delete(&mut self, step: &Value) -> Option<Value> {
        let object = step["object"].as_str().unwrap_or_default();
        let known = self.objects.get(object).map(|(metadata, _)| Rc::clone(metadata));
        let metadata = known.unwrap_or_else(|| metadata(step["endpoint"].as_str().unwrap_or_default()));
        let listener = self.instance.roles.endpoint_listener.as_ref().expect("a listener");
        listener.on_event(&EndpointEvent::Delete(metadata), None);
        None
    }

    fn request(&mut self, name: &str, step: &Value) -> Value {
        let tokenized = step["prompt_tokens"].as_array().map(|lengths| {
            let prompt = |n: &Value| -> Arc<[u32]> { vec![0; n.as_u64().unwrap_or(0) as usize].into() };
            Arc::new(TokenizedPrompt {
                prompts: lengths.iter().map(prompt).collect(),
                ..TokenizedPrompt::default()
            })
        });
        let body = ParsedBody {
            tokenized_prompt: tokenized,
            max_output_tokens: step["max_output_tokens"].as_u64(),
            ..ParsedBody::default()
        };
        let mut request = InferenceRequest {
            request_id: step["request_id"].as_str().unwrap_or_default().to_owned(),
            body: (step["no_body"] != true).then_some(body),
            ..InferenceRequest::default()
        };
        let listed: Vec<&Value> = step["candidates"].as_array().into_iter().flatten().collect();
        let names: Vec<String> =
            listed.iter().map(|c| c["endpoint"].as_str().unwrap_or_default().to_owned()).collect();
        let endpoints = listed.iter().zip(&names).map(|(given, name)| candidate(given, name)).collect();
        let mut candidates = Candidates::new(Rc::new(endpoints));
        let producer = self.instance.roles.producer.as_ref().expect("a producer");
        match producer.produce(&mut request, &mut candidates) {
            Produced::Ready(Ok(())) => {}
            other => panic!("{other:?}"),
        }
        let reader = candidates.read::<UncachedRequestTokens>(&self.uncached_key);
        let uncached: Map<String, Value> = names
            .iter()
            .zip(candidates.all())
            .map(|(name, c)| (name.clone(), json!(reader.get(c).map(|tokens| tokens.0))))
            .collect();
        self.requests.insert(name.to_owned(), Running { request, candidates, names });
        Value::Object(uncached)
    }

    fn pre_request(&mut self, name: &str, step: &Value) -> Option<Value> {
        let running = self.requests.get_mut(name).expect("the request was made");
        let mut result = SchedulingResult {
            primary: step["primary"].as_str().unwrap_or_default().into(),
            ..SchedulingResult::default()
        };
        for (profile, targets) in step["profiles"].as_object().into_iter().flatten() {
            let targets = targets.as_array().map(|names| {
                let names = names.iter().filter_map(Value::as_str);
                let targets = names.map(|name| running.target(name)).collect();
                ProfileRunResult { targets, scored: Vec::new() }
            });
            result.profiles.insert(profile.as_str().into(), targets);
        }
        let hook = self.instance.roles.pre_request.as_ref().expect("a PreRequest plugin");
        hook.pre_request(&mut running.request, &result, &running.candidates).expect("never fails");
        running.request.scheduling_result = Some(Rc::new(result));
        None
    }

    fn response(&mut self, name: &str, step: &Value) -> Option<Value> {
        let running = &self.requests[name];
        let mut record = ResponseRecord {
            request_id: running.request.request_id.clone(),
            start_of_stream: step["start_of_stream"] == true,
            end_of_stream: step["end_of_stream"] == true,
            ..ResponseRecord::default()
        };
        let hook = self.instance.roles.response_body.as_ref().expect("a response plugin");
        hook.response_body(Some(&running.request), &mut record, None);
        None
    }

    /// Ends the request's stream while the request itself can still be asked about.
    fn stream_end(&mut self, name: &str) -> Option<Value> {
        if let Some(running) = self.requests.get_mut(name) {
            running.request.stream = Rc::default();
        }
        None
    }

    fn tracked(&self) -> Value {
        let dump = self.instance.roles.state_dumper.as_ref().expect("a dumper").dump_state();
        let listed = dump["endpoints"].as_array().into_iter().flatten();
        let load = |e: &Value| json!({"requests": e["requests"], "tokens": e["tokens"]});
        let tracked: Map<String, Value> =
            listed.map(|e| (e["endpoint"].as_str().unwrap_or_default().to_owned(), load(e))).collect();
        Value::Object(tracked)
    }

    fn attributes(&self) -> Value {
        let read = |endpoint: &Endpoint| match endpoint.attributes.get::<InFlightLoad>(&self.load_key) {
            Some(load) => json!({"requests": load.requests.get(), "tokens": load.tokens.get()}),
            None => Value::Null,
        };
        let all: Map<String, Value> =
            self.objects.iter().map(|(object, (_, endpoint))| (object.clone(), read(endpoint))).collect();
        Value::Object(all)
    }
}

impl Running {
    fn target(&self, name: &str) -> Target {
        let at = self.names.iter().position(|n| n == name).expect("targets are candidates");
        let candidate = self.candidates.all().nth(at).expect("one candidate a name");
        Target {
            endpoint: Rc::clone(self.candidates.endpoint(candidate)),
            scored: Some(Scored { candidate, score: 0.0 }),
        }
    }
}

/// Lets the daemons that are due at this instant run before the script goes on.
async fn tick_is_over(rt: &Rt) {
    rt.sleep(Duration::from_nanos(1)).await;
}

fn candidate(given: &Value, name: &str) -> Rc<Endpoint> {
    let mut endpoint = Endpoint { metadata: metadata(name), ..Endpoint::default() };
    if let Some(found) = given.get("prefix_match") {
        let count = |name: &str| found[name].as_i64().unwrap_or(0);
        let info = PrefixCacheMatchInfo::new(
            count("match_blocks"),
            count("total_blocks"),
            count("block_size_tokens"),
        );
        let producer = found["producer"].as_str().unwrap_or_default();
        endpoint.attributes.put(resolve(well_known::PREFIX_CACHE_MATCH_INFO, producer), Rc::new(info));
    }
    if given["wrong_type_attribute"] == true {
        endpoint.attributes.put(resolve(well_known::PREFIX_CACHE_MATCH_INFO, ""), Rc::new("wrong"));
    }
    Rc::new(endpoint)
}

fn metadata(name: &str) -> Rc<EndpointMetadata> {
    let (namespace, short) = name.split_once('/').unwrap_or(("", name));
    Rc::new(EndpointMetadata { id: EndpointId::new(namespace, short), ..EndpointMetadata::default() })
}
