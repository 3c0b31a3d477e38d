use std::cell::RefCell;

use serde_json::json;

use super::*;
use crate::plugin::{Instance, Roles};
use crate::request::InferenceRequest;
use crate::scheduling::ScorerCategory;
use crate::scheduling::testing::{build, candidates, context, queue};

/// Keeps candidates by index, and notes how many it saw.
struct Keep(&'static [u32], Rc<RefCell<Vec<usize>>>);

impl Filter for Keep {
    fn filter(&self, _: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        self.1.borrow_mut().push(survivors.len());
        survivors.retain(|c| self.0.contains(&c.0));
    }
}

/// Scores every candidate alike.
struct Constant(Option<f64>);

impl Scorer for Constant {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Distribution
    }

    fn score(&self, _: &SchedulingContext<'_>, _: &[Candidate], scores: &mut [Option<f64>]) {
        scores.fill(self.0);
    }
}

fn instance(roles: Roles) -> Instance {
    Instance::new("test", "test", roles)
}

fn picker() -> Rc<dyn Picker> {
    build("max-score-picker", json!({})).unwrap().roles.picker.unwrap()
}

fn total(scores: &[(Option<f64>, Option<f64>)]) -> f64 {
    let mut builder = Profile::builder("p");
    for (score, weight) in scores {
        builder.add(&instance(Roles::scorer(Constant(*score))), *weight).unwrap();
    }
    let candidates = candidates([queue("a", 0)]);
    let request = InferenceRequest::default();
    builder.build(picker).run(&context(&request, &candidates), None).unwrap().scored[0].score
}

/// Scheduling spec 3.3, the list under T.
#[test]
fn scores_are_clamped_weighted_and_summed() {
    let one = Some(1.0);
    assert_eq!(total(&[(Some(0.3), one), (Some(0.8), one)]), 1.1);
    assert_eq!(total(&[(Some(0.5), Some(60.0)), (Some(0.5), Some(40.0))]), 50.0);
    assert_eq!(total(&[(Some(-0.5), one), (Some(1.5), one)]), 1.0);
    assert_eq!(total(&[(None, Some(5.0)), (Some(1.0), Some(-2.0))]), -2.0);
    assert_eq!(total(&[(Some(0.25), None)]), 0.25, "a scorer without weight has weight 1");
    assert!(total(&[(Some(f64::NAN), one)]).is_nan());
}

#[test]
fn each_filter_sees_what_the_one_before_it_left() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let mut builder = Profile::builder("p");
    for keep in [&[0, 1][..], &[1], &[], &[0]] {
        builder.add(&instance(Roles::filter(Keep(keep, Rc::clone(&seen)))), None).unwrap();
    }
    let candidates = candidates([queue("a", 0), queue("b", 0), queue("c", 0)]);
    let request = InferenceRequest::default();
    let error = builder.build(picker).run(&context(&request, &candidates), None).unwrap_err();
    assert_eq!(error, internal("no endpoints available for the given request"));
    assert_eq!(*seen.borrow(), [3, 2, 1], "behind an emptying filter nothing is called");
}

#[test]
fn all_survivors_are_reported_with_their_scores() {
    let mut builder = Profile::builder("p");
    builder.add(&build("queue-scorer", json!(null)).unwrap(), Some(2.0)).unwrap();
    let candidates = candidates([queue("a", 10), queue("b", 0), queue("c", 5)]);
    let request = InferenceRequest::default();
    let result = builder.build(picker).run(&context(&request, &candidates), None).unwrap();
    let mut scored: Vec<(u32, f64)> = result.scored.iter().map(|s| (s.candidate.0, s.score)).collect();
    scored.sort_by_key(|(candidate, _)| *candidate);
    assert_eq!(scored, [(0, 0.0), (1, 2.0), (2, 1.0)]);
    assert_eq!(result.targets.len(), 1);
    assert_eq!(result.targets[0].endpoint.metadata.id.name, "b");
}

#[test]
fn a_trace_tells_what_each_plugin_did() {
    let mut builder = Profile::builder("p");
    builder.add(&instance(Roles::filter(Keep(&[0, 1], Rc::default()))), None).unwrap();
    builder.add(&build("queue-scorer", json!(null)).unwrap(), Some(2.0)).unwrap();
    let candidates = candidates([queue("a", 10), queue("b", 0), queue("c", 5)]);
    let request = InferenceRequest::default();
    let mut trace = ProfileTrace::default();
    let result = builder.build(picker).run(&context(&request, &candidates), Some(&mut trace)).unwrap();
    let id = |at: usize| candidates.endpoints()[at].metadata.id.to_string();
    assert_eq!(trace.filters, [FilterTrace { plugin: "test".into(), dropped: vec![id(2)] }]);
    let scores = vec![(id(0), Some(0.0)), (id(1), Some(1.0))];
    assert_eq!(trace.scorers, [ScorerTrace { plugin: "queue-scorer".into(), weight: 2.0, scores }]);
    assert_eq!((trace.ranking, trace.picked), (vec![(id(1), 2.0), (id(0), 0.0)], 1));
    assert_eq!(result.targets[0].endpoint.metadata.id.to_string(), id(1));
}

#[test]
fn a_second_picker_is_an_error() {
    let mut builder = Profile::builder("p");
    let picker = build("random-picker", json!({})).unwrap();
    builder.add(&picker, None).unwrap();
    assert!(builder.has_picker());
    assert_eq!(builder.add(&picker, None).unwrap_err().plugin, "random-picker/random-picker");
}
