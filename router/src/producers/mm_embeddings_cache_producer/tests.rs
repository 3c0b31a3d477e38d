use std::sync::Arc;

use executor::Sim;
use serde_json::json;

use super::*;
use crate::endpoint::EndpointMetadata;
use crate::plugin::run_periodic;
use crate::request::{MultiModalFeature, ParsedBody};
use crate::scheduling::{ProfileRunResult, Target};

fn endpoint(name: &str) -> Rc<Endpoint> {
    let metadata = EndpointMetadata { id: EndpointId::new("ns", name), ..EndpointMetadata::default() };
    Rc::new(Endpoint { metadata: Rc::new(metadata), ..Endpoint::default() })
}

fn request(hashes: &[&str]) -> InferenceRequest {
    let feature = |hash: &&str| MultiModalFeature {
        modality: "image".into(),
        hash: (*hash).to_owned(),
        ..MultiModalFeature::default()
    };
    let features = hashes.iter().map(feature).collect();
    let prompt = TokenizedPrompt { features, ..TokenizedPrompt::default() };
    let body = ParsedBody { tokenized_prompt: Some(Arc::new(prompt)), ..ParsedBody::default() };
    InferenceRequest { request_id: "r".into(), body: Some(body), ..InferenceRequest::default() }
}

/// Lets a request be seen, and returns how many of its items each candidate holds.
fn seen(
    instance: &Instance,
    request: &mut InferenceRequest,
    endpoints: &[Rc<Endpoint>],
) -> Vec<Option<usize>> {
    let mut candidates = Candidates::new(Rc::new(endpoints.to_vec()));
    let producer = instance.roles.producer.as_ref().expect("a producer");
    assert!(matches!(producer.produce(request, &mut candidates), Produced::Ready(Ok(()))));
    let key = &instance.data.produces[0].key;
    let found = candidates.read::<EncoderCacheMatchInfo>(key);
    candidates.all().map(|c| found.get(c).map(|info| info.matched_items.len())).collect()
}

fn sent(instance: &Instance, request: &mut InferenceRequest, targets: &[Rc<Endpoint>]) {
    let targets = targets.iter().map(|e| Target { endpoint: Rc::clone(e), scored: None }).collect();
    let mut result = SchedulingResult { primary: "decode".into(), ..SchedulingResult::default() };
    result.profiles.insert("decode".into(), Some(ProfileRunResult { targets, scored: Vec::new() }));
    let hook = instance.roles.pre_request.as_ref().expect("a PreRequest plugin");
    hook.pre_request(request, &result, &Candidates::default()).expect("never fails");
}

/// Request-control spec 8.4: 4 MiB are two items, and what was pushed first falls out.
#[test]
fn targets_hold_what_they_were_last_sent() {
    let run = Sim::new(1).run(|rt| async move {
        let parameters = Parameters::new(json!({ "cacheSizeInMBPerServer": 4 }));
        let handle = Handle::new(rt);
        let instance = factory(TYPE, &parameters, &handle).expect("builds");
        let (a, b) = (endpoint("a"), endpoint("b"));
        let both = [Rc::clone(&a), Rc::clone(&b)];
        let mut first = request(&["x", "y", "x", ""]);
        assert_eq!(seen(&instance, &mut first, &both), [Some(0), Some(0)]);
        sent(&instance, &mut first, std::slice::from_ref(&a));
        let mut second = request(&["y", "z"]);
        assert_eq!(seen(&instance, &mut second, &both), [Some(1), Some(0)]);
        sent(&instance, &mut second, &both);
        assert_eq!(seen(&instance, &mut request(&["x", "y", "z"]), &both), [Some(2), Some(2)]);
        assert_eq!(seen(&instance, &mut request(&[]), &both), [None, None], "no media, no attribute");
        let of = |metric: &str, labels: &[&str]| handle.metrics().metric(metric).value(labels);
        assert_eq!(of("llm_d_epp_encoder_cache_queries_total", &[TYPE, TYPE, "image"]), Some(4.0));
        assert_eq!(of("llm_d_epp_encoder_cache_hits_total", &[TYPE, TYPE, "ns/a", "image"]), Some(1.0));
    });
    run.unwrap();
}

#[test]
fn an_endpoint_that_is_gone_is_forgotten() {
    let run = Sim::new(1).run(|rt| async move {
        let instance = factory(TYPE, &Parameters::absent(), &Handle::new(rt.clone())).expect("builds");
        run_periodic(&rt, std::slice::from_ref(&instance));
        let (a, b) = (endpoint("a"), endpoint("b"));
        let both = [Rc::clone(&a), Rc::clone(&b)];
        let teach = || {
            let mut request = request(&["x"]);
            seen(&instance, &mut request, &both);
            sent(&instance, &mut request, &both);
        };
        let held = || seen(&instance, &mut request(&["x"]), &both);
        teach();
        rt.sleep(Duration::from_secs(121)).await;
        assert_eq!(held(), [Some(1), Some(1)], "an empty list says nothing");
        let roster = instance.roles.roster.as_ref().expect("a roster");
        roster.on_event(&EndpointEvent::AddOrUpdate(Rc::clone(&b.metadata)), None);
        rt.sleep(Duration::from_secs(120)).await;
        assert_eq!(held(), [Some(0), Some(1)]);
        let listener = instance.roles.endpoint_listener.as_ref().expect("a listener");
        listener.on_event(&EndpointEvent::Delete(Rc::clone(&b.metadata)), None);
        assert_eq!(held(), [Some(0), Some(0)]);
    });
    run.unwrap();
}
