mod data_parallel;
mod disagg;
mod header;
mod headers;

use std::rc::Rc;

use serde_json::json;

use crate::request::InferenceRequest;
use crate::scheduling::testing::{build, candidates};
use crate::scheduling::{ProfileHandler, ProfileResults, ProfileRunResult};

fn handler(plugin_type: &str) -> Rc<dyn ProfileHandler> {
    build(plugin_type, json!(null)).unwrap().roles.profile_handler.unwrap()
}

fn results(entries: &[(&str, bool)]) -> ProfileResults {
    let result = |(name, ran): &(&str, bool)| ((*name).into(), ran.then(ProfileRunResult::default));
    entries.iter().map(result).collect()
}

fn names(names: &[&str]) -> Vec<Rc<str>> {
    names.iter().map(|&name| name.into()).collect()
}

/// Results of profiles that all failed.
fn failed(profiles: &[&str]) -> ProfileResults {
    profiles.iter().map(|&name| (name.into(), None)).collect()
}

/// Returns the primary profile, or the error's text.
fn process(handler: &dyn ProfileHandler, results: ProfileResults) -> Result<String, String> {
    let decided = handler.process_results(&mut InferenceRequest::default(), results);
    decided.map(|decided| decided.primary.to_string()).map_err(|error| error.to_string())
}

/// Scheduling spec 7.1.
#[test]
fn the_single_profile_handler_runs_its_profile_once() {
    let handler = handler("single-profile-handler");
    let request = &mut InferenceRequest::default();
    let mut pick = |profiles: &[Rc<str>], entries: &[(&str, bool)]| {
        handler.pick(request, &candidates([]), profiles, &mut results(entries)).len()
    };
    assert_eq!(pick(&["p".into()], &[]), 1);
    assert_eq!(pick(&["p".into()], &[("p", true)]), 0);
    assert_eq!(pick(&[], &[]), 0);

    let process = |entries: &[(&str, bool)]| process(&*handler, results(entries));
    assert_eq!(process(&[("p", true)]), Ok("p".to_owned()));
    assert_eq!(process(&[("p", false)]), Err("failed to run scheduler profile 'p'".to_owned()));
    assert!(process(&[]).is_err());
    assert!(process(&[("p", true), ("q", true)]).is_err());
}
