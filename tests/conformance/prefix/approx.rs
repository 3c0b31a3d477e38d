//! `approx_prefix.jsonl`.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use executor::{Rt, Sim};
use indexmap::IndexMap;
use router::attributes::PrefixCacheMatchInfo;
use router::candidates::Candidates;
use router::data_layer::EndpointEvent;
use router::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use router::plugin::{Handle, Instance, Parameters, run_periodic};
use router::request::InferenceRequest;
use router::request_control::Produced;
use router::scheduling::{ProfileRunResult, SchedulingResult, Target};
use serde_json::{Value, json};
use tests::compare::Rules;

use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let plugin_type = given["plugin_type"].as_str().unwrap_or_default();
    let row = router::producers::TYPES.iter().find(|(t, _)| *t == plugin_type);
    let Some((_, factory)) = row else { return Outcome::NotBuilt(plugin_type.to_owned()) };
    let got = Sim::new(1).run(move |rt| async move {
        let name = given["plugin_name"].as_str().unwrap_or_default();
        let parameters = match &given["parameters"] {
            Value::Null => Parameters::absent(),
            value => Parameters::new(value.clone()),
        };
        match factory(name, &parameters, &Handle::new(rt.clone())) {
            Err(_) => json!({"error": {"kind": "bad-parameter"}}),
            Ok(instance) => Script::new(rt, instance, &given).run(&given["steps"]).await,
        }
    });
    Rules::exact().outcome(&case["then"], &got.unwrap())
}

/// Reads endpoints in their order.
pub(super) fn endpoints(list: &Value) -> IndexMap<String, Rc<Endpoint>> {
    list.as_array().into_iter().flatten().map(endpoint).collect()
}

fn endpoint(given: &Value) -> (String, Rc<Endpoint>) {
    let name = given["name"].as_str().unwrap_or_default();
    let mut endpoint = Endpoint { metadata: metadata(name), ..Endpoint::default() };
    let metric = |metric: &str| given["metrics"][metric].as_i64().unwrap_or(0);
    endpoint.metrics.cache_block_size = metric("cache_block_size");
    endpoint.metrics.cache_num_blocks = metric("cache_num_blocks");
    (name.to_owned(), Rc::new(endpoint))
}

fn metadata(name: &str) -> Rc<EndpointMetadata> {
    let (namespace, short) = name.split_once('/').unwrap_or(("", name));
    Rc::new(EndpointMetadata { id: EndpointId::new(namespace, short), ..EndpointMetadata::default() })
}

struct Script {
    rt: Rt,
    instance: Instance,
    endpoints: IndexMap<String, Rc<Endpoint>>,
    pods: BTreeSet<String>,
    requests: BTreeMap<String, InferenceRequest>,
}

impl Script {
    fn new(rt: Rt, instance: Instance, given: &Value) -> Self {
        run_periodic(&rt, std::slice::from_ref(&instance));
        let endpoints = endpoints(&given["endpoints"]);
        let mut script = Script { rt, instance, endpoints, pods: BTreeSet::new(), requests: BTreeMap::new() };
        script.set_pods(&given["pods"]);
        script
    }

    async fn run(mut self, steps: &Value) -> Value {
        let mut answers = Vec::new();
        for step in steps.as_array().into_iter().flatten() {
            answers.push(match step["op"].as_str().unwrap_or_default() {
                "request" => self.request(step),
                "route" => {
                    self.route(step);
                    json!({"dump": self.dump()})
                }
                "set_metrics" => {
                    let (name, endpoint) = endpoint(&step["endpoint"]);
                    self.endpoints.insert(name, endpoint);
                    json!({})
                }
                "set_pods" => {
                    self.set_pods(&step["pods"]);
                    json!({})
                }
                "advance" => {
                    let ms = step["ms"].as_u64().unwrap_or(0);
                    self.rt.sleep(Duration::from_millis(ms)).await;
                    // What is due at the same instant as the end of the sleep counts as done.
                    self.rt.sleep(Duration::from_nanos(1)).await;
                    json!({"dump": self.dump()})
                }
                other => panic!("unknown step {other}"),
            });
        }
        let keys = &self.instance.data.produces;
        json!({
            "key": keys[0].key.as_str(),
            "reported_type": &*self.instance.id.plugin_type,
            "steps": answers,
        })
    }

    fn request(&mut self, step: &Value) -> Value {
        let given = &step["request"];
        let id = given["request_id"].as_str().unwrap_or_default().to_owned();
        let mut request = InferenceRequest {
            request_id: id.clone(),
            target_model: given["target_model"].as_str().unwrap_or_default().to_owned(),
            body: Some(super::body(given)),
            ..InferenceRequest::default()
        };
        let names: Vec<&str> =
            step["candidates"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let listed = names.iter().map(|name| Rc::clone(&self.endpoints[*name])).collect();
        let mut candidates = Candidates::new(Rc::new(listed));
        let producer = self.instance.roles.producer.as_ref().expect("a producer");
        match producer.produce(&mut request, &mut candidates) {
            Produced::Ready(Ok(())) => {}
            other => panic!("{other:?}"),
        }
        let key = self.instance.data.produces[0].key.clone();
        let reader = candidates.read::<PrefixCacheMatchInfo>(&key);
        let attributes: serde_json::Map<String, Value> = names
            .iter()
            .zip(candidates.all())
            .map(|(name, c)| ((*name).to_owned(), reader.get(c).map_or(Value::Null, attribute)))
            .collect();
        self.requests.insert(id, request);
        json!({"attributes": attributes})
    }

    fn route(&mut self, step: &Value) {
        let id = step["request_id"].as_str().unwrap_or_default();
        let mut unknown = InferenceRequest { request_id: id.to_owned(), ..InferenceRequest::default() };
        let mut result = SchedulingResult {
            primary: step["primary_profile"].as_str().unwrap_or_default().into(),
            ..SchedulingResult::default()
        };
        for (profile, names) in step["profiles"].as_object().into_iter().flatten() {
            let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            let target = |name: &str| Target { endpoint: Rc::clone(&self.endpoints[name]), scored: None };
            let targets = names.map(target).collect();
            let profile = profile.as_str().into();
            result.profiles.insert(profile, Some(ProfileRunResult { targets, scored: Vec::new() }));
        }
        let request = self.requests.get_mut(id).unwrap_or(&mut unknown);
        let hook = self.instance.roles.pre_request.as_ref().expect("a PreRequest plugin");
        hook.pre_request(request, &result, &Candidates::default()).expect("never fails");
    }

    /// Tells the plugin of the endpoints that came and went.
    fn set_pods(&mut self, list: &Value) {
        let now: BTreeSet<String> =
            list.as_array().into_iter().flatten().filter_map(|n| n.as_str().map(str::to_owned)).collect();
        let listener = self.instance.roles.endpoint_listener.as_ref().expect("a listener");
        for gone in self.pods.difference(&now) {
            listener.on_event(&EndpointEvent::Delete(metadata(gone)), None);
        }
        for new in now.difference(&self.pods) {
            listener.on_event(&EndpointEvent::AddOrUpdate(metadata(new)), None);
        }
        self.pods = now;
    }

    fn dump(&self) -> Value {
        self.instance.roles.state_dumper.as_ref().expect("a dumper").dump_state()
    }
}

fn attribute(info: &PrefixCacheMatchInfo) -> Value {
    json!({
        "match_blocks": info.match_blocks,
        "total_blocks": info.total_blocks,
        "block_size_tokens": info.block_size_tokens,
        "cached_block_count": info.cached_block_count,
        "by_tier": info.cached_blocks_by_tier.as_deref(),
    })
}
