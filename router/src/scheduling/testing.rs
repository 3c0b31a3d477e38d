//! What the tests of scheduling plugins share.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use executor::{Instant, Real};
use serde_json::Value;

use super::{ProfileRunResult, SchedulingContext, SchedulingResult, Scored, Target, types};
use crate::attributes::InFlightLoad;
use crate::candidates::{Candidate, Candidates};
use crate::data_key::{DataKey, resolve, well_known};
use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata, Metrics};
use crate::plugin::{FactoryError, Handle, Instance, Parameters};
use crate::request::{InferenceRequest, MultiModalFeature, ParsedBody, TokenizedPrompt};

/// Builds the plugin `plugin_type`, named like its type.
pub(crate) fn build(plugin_type: &str, parameters: Value) -> Result<Instance, FactoryError> {
    build_in(&handle(), plugin_type, parameters)
}

/// Builds the plugin `plugin_type`, named like its type, beside the instances of `handle`.
pub(crate) fn build_in(
    handle: &Handle,
    plugin_type: &str,
    parameters: Value,
) -> Result<Instance, FactoryError> {
    let (_, factory) = types().find(|(t, _)| *t == plugin_type).expect("the type is built");
    factory(plugin_type, &Parameters::new(parameters), handle)
}

/// Returns a handle without instances, over a runtime with a fixed seed.
pub(crate) fn handle() -> Handle {
    let runtime = Real::builder().current_thread().seed(7).build().expect("the runtime starts");
    Handle::new(runtime.rt())
}

/// Returns an endpoint `/name` with metrics.
pub(crate) fn endpoint(name: &str, metrics: Metrics) -> Endpoint {
    let metadata = EndpointMetadata { id: EndpointId::new("", name), ..Default::default() };
    Endpoint { metadata: Rc::new(metadata), metrics, ..Default::default() }
}

/// Returns an endpoint with labels.
pub(crate) fn labelled(name: &str, labels: &[(&str, &str)]) -> Endpoint {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let metadata = EndpointMetadata { id: EndpointId::new("", name), labels, ..Default::default() };
    Endpoint { metadata: Rc::new(metadata), ..Default::default() }
}

/// Returns an endpoint with a waiting queue.
pub(crate) fn queue(name: &str, waiting: i64) -> Endpoint {
    endpoint(name, Metrics { waiting_queue_size: waiting, ..Default::default() })
}

/// Returns an endpoint `/name` at `address`:`port`.
pub(crate) fn at(name: &str, address: &str, port: &str) -> Endpoint {
    let (address, port) = (address.to_owned(), port.to_owned());
    let metadata = EndpointMetadata { id: EndpointId::new("", name), address, port, ..Default::default() };
    Endpoint { metadata: Rc::new(metadata), ..Default::default() }
}

/// Returns the endpoint with one attribute more, where there is a value.
pub(crate) fn with<T: Any>(mut endpoint: Endpoint, key: &DataKey, value: Option<T>) -> Endpoint {
    if let Some(value) = value {
        endpoint.attributes.put(key.clone(), Rc::new(value));
    }
    endpoint
}

/// Returns an endpoint with so many requests and tokens in flight; `None` = no counter.
pub(crate) fn load(name: &str, load: Option<(i64, i64)>) -> Endpoint {
    let load =
        load.map(|(requests, tokens)| InFlightLoad { requests: requests.into(), tokens: tokens.into() });
    with(endpoint(name, Metrics::default()), &resolve(well_known::IN_FLIGHT_LOAD, ""), load)
}

/// Returns a request with these headers.
pub(crate) fn request_with(headers: &[(&str, &str)]) -> InferenceRequest {
    InferenceRequest { headers: headers.iter().copied().collect(), ..Default::default() }
}

/// Returns a request whose prompt has so many tokens, and content of these modalities.
pub(crate) fn prompt(tokens: usize, modalities: &[&str]) -> InferenceRequest {
    let feature = |m: &&str| MultiModalFeature { modality: (*m).to_owned(), ..Default::default() };
    let features = modalities.iter().map(feature).collect();
    let prompts = vec![vec![7; tokens].into()];
    let prompt = TokenizedPrompt { prompts, features, ..Default::default() };
    let body = ParsedBody { tokenized_prompt: Some(Arc::new(prompt)), ..Default::default() };
    InferenceRequest { request_id: "r1".into(), body: Some(body), ..Default::default() }
}

/// Returns a target that is the candidate `at`.
pub(crate) fn target(candidates: &Candidates, at: u32) -> Target {
    let scored = Scored { candidate: Candidate(at), score: 1.0 };
    Target { endpoint: Rc::clone(candidates.endpoint(scored.candidate)), scored: Some(scored) }
}

/// Returns the result of a profile that chose these candidates.
pub(crate) fn chose(candidates: &Candidates, chosen: &[u32]) -> ProfileRunResult {
    let targets: Vec<Target> = chosen.iter().map(|&at| target(candidates, at)).collect();
    ProfileRunResult { scored: targets.iter().filter_map(|t| t.scored).collect(), targets }
}

/// Returns a decision: which candidates each profile chose, the first profile being the primary one.
pub(crate) fn decision(candidates: &Candidates, profiles: &[(&str, &[u32])]) -> SchedulingResult {
    let result = |(name, chosen): &(&str, &[u32])| ((*name).into(), Some(chose(candidates, chosen)));
    let primary = profiles.first().map_or("", |(name, _)| name).into();
    SchedulingResult { profiles: profiles.iter().map(result).collect(), primary }
}

/// Returns the candidates of these endpoints.
pub(crate) fn candidates(endpoints: impl IntoIterator<Item = Endpoint>) -> Candidates {
    Candidates::new(Rc::new(endpoints.into_iter().map(Rc::new).collect()))
}

/// Returns the raw scores of all candidates for a request.
pub(crate) fn scores_for(
    instance: &Instance,
    request: &InferenceRequest,
    candidates: &Candidates,
) -> Vec<Option<f64>> {
    let survivors: Vec<Candidate> = candidates.all().collect();
    let mut scores = vec![None; survivors.len()];
    let scorer = instance.roles.scorer.as_ref().expect("the plugin is a scorer");
    scorer.score(&context(request, candidates), &survivors, &mut scores);
    scores
}

/// Returns the names that a filter keeps.
pub(crate) fn kept(instance: &Instance, request: &InferenceRequest, candidates: &Candidates) -> Vec<String> {
    let mut survivors: Vec<Candidate> = candidates.all().collect();
    let filter = instance.roles.filter.as_ref().expect("the plugin is a filter");
    filter.filter(&context(request, candidates), &mut survivors);
    survivors.iter().map(|&c| candidates.endpoint(c).metadata.id.name.clone()).collect()
}

/// Asserts which of the candidates a filter keeps, by name, and that it keeps nothing of nothing.
pub(crate) fn assert_kept(
    (plugin_type, parameters): (&str, Value),
    request: &InferenceRequest,
    all: &Candidates,
    want: &[&str],
) {
    let instance = build(plugin_type, parameters.clone()).expect("the parameters are accepted");
    assert_eq!(kept(&instance, request, all), want, "{plugin_type} {parameters}");
    assert!(kept(&instance, request, &candidates([])).is_empty(), "{plugin_type} {parameters}");
}

/// Asserts the raw scores of the candidates to 1e-12; `None` = not scored.
pub(crate) fn assert_scored(
    (plugin_type, parameters): (&str, Value),
    request: &InferenceRequest,
    candidates: &Candidates,
    want: &[Option<f64>],
) {
    let instance = build(plugin_type, parameters.clone()).expect("the parameters are accepted");
    let got = scores_for(&instance, request, candidates);
    let close = |(got, want): (&Option<f64>, &Option<f64>)| match (got, want) {
        (Some(got), Some(want)) => (got - want).abs() < 1e-12,
        (got, want) => got.is_none() && want.is_none(),
    };
    let equal = got.len() == want.len() && got.iter().zip(want).all(close);
    assert!(equal, "{plugin_type} {parameters}: got {got:?}, expected {want:?}");
}

/// Asserts that the type refuses each of these parameters, with an error that says `reason`.
pub(crate) fn assert_refused(plugin_type: &str, refused: &[(Value, &str)]) {
    for (parameters, reason) in refused {
        let error = build(plugin_type, parameters.clone()).expect_err(&parameters.to_string()).to_string();
        assert!(error.contains(reason), "{plugin_type} {parameters}: {error:?} does not say {reason:?}");
    }
}

/// Returns the context of a decision at the epoch.
pub(crate) fn context<'a>(
    request: &'a InferenceRequest,
    candidates: &'a Candidates,
) -> SchedulingContext<'a> {
    SchedulingContext { request, candidates, now: Instant::default() }
}

/// Returns scored candidates with these totals.
pub(crate) fn scored(totals: &[f64]) -> Vec<Scored> {
    let scored = |(at, &score)| Scored { candidate: Candidate(at as u32), score };
    totals.iter().enumerate().map(scored).collect()
}
