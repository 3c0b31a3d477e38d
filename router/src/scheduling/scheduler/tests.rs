mod end_to_end;

use serde_json::json;

use super::*;
use crate::scheduling::testing::{build, candidates, queue};

/// Returns the names that it was made with, whatever has run.
struct Always(&'static [&'static str]);

impl ProfileHandler for Always {
    fn pick(
        &self,
        _: &mut InferenceRequest,
        _: &Candidates,
        _: &[Rc<str>],
        _: &mut ProfileResults,
    ) -> Vec<Rc<str>> {
        self.0.iter().map(|&name| name.into()).collect()
    }

    fn process_results(
        &self,
        _: &mut InferenceRequest,
        profiles: ProfileResults,
    ) -> Result<SchedulingResult, PluginError> {
        Ok(SchedulingResult { profiles, primary: "one".into() })
    }
}

fn scheduler(handler: impl ProfileHandler + 'static, names: &[&str]) -> Scheduler {
    let profile = |name: &&str| {
        let mut builder = Profile::builder(name);
        builder.add(&build("queue-scorer", json!({})).unwrap(), None).unwrap();
        builder.build(|| build("max-score-picker", json!({})).unwrap().roles.picker.unwrap())
    };
    Scheduler::new(Rc::new(handler), names.iter().map(profile).collect())
}

fn schedule(scheduler: &Scheduler, queues: &[i64]) -> Result<SchedulingResult, PluginError> {
    let candidates = candidates(queues.iter().map(|&q| queue(&format!("q{q}"), q)));
    let mut request = InferenceRequest { request_id: "r1".into(), ..Default::default() };
    scheduler.schedule(&mut request, &candidates, Instant::default(), None)
}

#[test]
fn all_profiles_that_a_handler_names_run_over_all_candidates() {
    let result = schedule(&scheduler(Always(&["one", "two"]), &["one", "two"]), &[3, 1, 2]).unwrap();
    for name in ["one", "two"] {
        assert_eq!(result.profile_targets(name)[0].endpoint.metadata.id.name, "q1", "{name}");
    }
    assert_eq!(result.primary_targets().len(), 1);
}

#[test]
fn a_failed_or_unknown_profile_is_an_empty_result_and_not_an_error() {
    let result = schedule(&scheduler(Always(&["one", "other"]), &["one"]), &[]).unwrap();
    assert!(result.profiles.values().all(Option::is_none));
    assert_eq!(result.profiles.len(), 2);
}

#[test]
fn no_profile_at_all_is_an_error_without_a_code() {
    let error = schedule(&scheduler(Always(&[]), &["one"]), &[1]).unwrap_err();
    assert!(matches!(error, PluginError::Other(_)));
    assert_eq!(error.to_string(), "failed to run any scheduler profile for request r1");
}
