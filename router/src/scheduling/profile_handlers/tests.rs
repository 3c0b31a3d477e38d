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

    let process = |entries: &[(&str, bool)]| {
        let result = handler.process_results(&mut InferenceRequest::default(), results(entries));
        result.map(|r| r.primary.to_string()).map_err(|e| e.to_string())
    };
    assert_eq!(process(&[("p", true)]), Ok("p".to_owned()));
    assert_eq!(process(&[("p", false)]), Err("failed to run scheduler profile 'p'".to_owned()));
    assert!(process(&[]).is_err());
    assert!(process(&[("p", true), ("q", true)]).is_err());
}
