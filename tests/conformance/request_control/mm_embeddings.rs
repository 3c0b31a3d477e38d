//! `producers.jsonl`, plugin `mm-embeddings-cache-producer`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use executor::{Rt, Sim};
use router::attributes::{EncoderCacheMatchInfo, EncoderItem};
use router::candidates::Candidates;
use router::data_layer::EndpointEvent;
use router::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use router::plugin::{Handle, Instance, run_periodic};
use router::producers::mm_embeddings_cache_producer::{MmEmbeddingsCacheParameters, TYPE, factory};
use router::request::{InferenceRequest, MultiModalFeature, ParsedBody, TokenizedPrompt};
use router::request_control::Produced;
use router::scheduling::{ProfileRunResult, SchedulingResult, Target};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::{parameters, refused};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let run = Sim::new(1).run(move |rt| async move {
        let parameters = parameters(&given["parameters"]);
        match factory(TYPE, &parameters, &Handle::new(rt.clone())) {
            Err(_) => refused::<MmEmbeddingsCacheParameters>(&parameters),
            Ok(instance) => Script::new(rt, instance).run(&given["steps"]).await,
        }
    });
    Rules::exact().set("matched_items").set("request_items").outcome(&case["then"], &run.unwrap())
}

struct Script {
    rt: Rt,
    instance: Instance,
    requests: BTreeMap<String, InferenceRequest>,
    pods: BTreeSet<String>,
}

fn metadata(name: &str) -> Rc<EndpointMetadata> {
    let (namespace, short) = name.split_once('/').unwrap_or(("", name));
    Rc::new(EndpointMetadata { id: EndpointId::new(namespace, short), ..EndpointMetadata::default() })
}

fn endpoint(name: &str) -> Rc<Endpoint> {
    Rc::new(Endpoint { metadata: metadata(name), ..Endpoint::default() })
}

fn names(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl Script {
    fn new(rt: Rt, instance: Instance) -> Self {
        run_periodic(&rt, std::slice::from_ref(&instance));
        Script { rt, instance, requests: BTreeMap::new(), pods: BTreeSet::new() }
    }

    async fn run(mut self, steps: &Value) -> Value {
        let mut answers = Vec::new();
        for step in steps.as_array().into_iter().flatten() {
            let mut answer = json!({});
            match step["op"].as_str().unwrap_or_default() {
                "request" => answer = self.request(step),
                "pre_request" => self.pre_request(step),
                "endpoint_delete" => {
                    let listener = self.instance.roles.endpoint_listener.as_ref().expect("a listener");
                    listener.on_event(&EndpointEvent::Delete(metadata(&text(&step["endpoint"]))), None);
                }
                "pod_list" => self.pod_list(step),
                "advance" => {
                    self.rt.sleep(Duration::from_millis(step["ms"].as_u64().unwrap_or(0))).await;
                    // What is due at the same instant as the end of the sleep counts as done.
                    self.rt.sleep(Duration::from_nanos(1)).await;
                }
                other => panic!("unknown step {other}"),
            }
            answers.push(answer);
        }
        json!({"steps": answers})
    }

    fn request(&mut self, step: &Value) -> Value {
        let feature = |feature: &Value| MultiModalFeature {
            modality: text(&feature["modality"]),
            hash: text(&feature["hash"]),
            ..MultiModalFeature::default()
        };
        let features = step["features"].as_array().into_iter().flatten().map(feature).collect();
        let prompt = TokenizedPrompt { features, ..TokenizedPrompt::default() };
        let body = ParsedBody { tokenized_prompt: Some(Arc::new(prompt)), ..ParsedBody::default() };
        let request_id = text(&step["request_id"]);
        let mut request = InferenceRequest {
            request_id: request_id.clone(),
            body: Some(body),
            ..InferenceRequest::default()
        };
        let mut candidates = Candidates::new(Rc::new(names(&step["candidates"]).map(endpoint).collect()));
        let producer = self.instance.roles.producer.as_ref().expect("a producer");
        assert!(matches!(producer.produce(&mut request, &mut candidates), Produced::Ready(Ok(()))));
        self.requests.insert(request_id, request);
        let key = &self.instance.data.produces[0].key;
        let found = candidates.read::<EncoderCacheMatchInfo>(key);
        let attribute: Map<String, Value> = names(&step["candidates"])
            .zip(candidates.all())
            .map(|(name, candidate)| (name.to_owned(), found.get(candidate).map_or(Value::Null, written)))
            .collect();
        json!({"attribute": attribute})
    }

    fn pre_request(&mut self, step: &Value) {
        let primary = text(&step["primary"]);
        let mut result = SchedulingResult { primary: primary.as_str().into(), ..SchedulingResult::default() };
        for (profile, targets) in step["profiles"].as_object().into_iter().flatten() {
            let target = |name| Target { endpoint: endpoint(name), scored: None };
            let targets = names(targets).map(target).collect();
            let run = ProfileRunResult { targets, scored: Vec::new() };
            result.profiles.insert(profile.as_str().into(), Some(run));
        }
        let id = text(&step["request_id"]);
        let mut unknown = InferenceRequest { request_id: id.clone(), ..InferenceRequest::default() };
        let request = self.requests.get_mut(&id).unwrap_or(&mut unknown);
        let hook = self.instance.roles.pre_request.as_ref().expect("a PreRequest plugin");
        hook.pre_request(request, &result, &Candidates::default()).expect("never fails");
    }

    /// Tells the plugin which endpoints there are.
    fn pod_list(&mut self, step: &Value) {
        let now: BTreeSet<String> = names(&step["pods"]).map(str::to_owned).collect();
        let roster = self.instance.roles.roster.as_ref().expect("a roster");
        for gone in self.pods.difference(&now) {
            roster.on_event(&EndpointEvent::Delete(metadata(gone)), None);
        }
        for new in now.difference(&self.pods) {
            roster.on_event(&EndpointEvent::AddOrUpdate(metadata(new)), None);
        }
        self.pods = now;
    }
}

fn written(info: &EncoderCacheMatchInfo) -> Value {
    let items = |items: &[EncoderItem]| {
        let item = |i: &EncoderItem| json!({"hash": i.hash, "modality": i.modality, "size": i.size});
        items.iter().map(item).collect::<Vec<_>>()
    };
    json!({"matched_items": items(&info.matched_items), "request_items": items(&info.request_items)})
}
