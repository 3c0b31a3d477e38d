//! What the tests of scheduling plugins share.

use std::rc::Rc;

use executor::{Instant, Real};
use serde_json::Value;

use super::{SchedulingContext, Scored, types};
use crate::candidates::{Candidate, Candidates};
use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata, Metrics};
use crate::plugin::{FactoryError, Handle, Instance, Parameters};
use crate::request::InferenceRequest;

/// Builds the plugin `plugin_type`, named like its type.
pub(crate) fn build(plugin_type: &str, parameters: Value) -> Result<Instance, FactoryError> {
    let (_, factory) = types().find(|(t, _)| *t == plugin_type).expect("the type is built");
    factory(plugin_type, &Parameters::new(parameters), &handle())
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

/// Returns the candidates of these endpoints.
pub(crate) fn candidates(endpoints: impl IntoIterator<Item = Endpoint>) -> Candidates {
    Candidates::new(Rc::new(endpoints.into_iter().map(Rc::new).collect()))
}

/// Returns the raw scores of all candidates.
pub(crate) fn scores(instance: &Instance, candidates: &Candidates) -> Vec<Option<f64>> {
    scores_for(instance, &InferenceRequest::default(), candidates)
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
