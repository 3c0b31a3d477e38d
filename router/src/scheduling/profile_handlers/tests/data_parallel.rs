use serde_json::json;

use super::{failed, names, process};
use crate::request::InferenceRequest;
use crate::scheduling::testing::{assert_refused, at, build, candidates, chose};
use crate::scheduling::{ProfileResults, SchedulingResult};

/// Scheduling spec 7.2, the list under T, also with `primaryPort` of 7.5.
#[test]
fn targets_move_to_the_primary_port_and_a_header_names_the_rank() {
    let all =
        candidates([at("r0", "10.0.0.1", "8080"), at("r1", "10.0.0.1", "8081"), at("v6", "fd00::1", "8082")]);
    for (parameters, chosen, port, header) in [
        (json!(null), &[0][..], "8000", "10.0.0.1:8080"),
        (json!({ "primaryPort": 9000 }), &[1], "9000", "10.0.0.1:8081"),
        (json!({ "primaryPort": 0 }), &[0], "0", "10.0.0.1:8080"),
        (json!({ "primaryPort": 65535 }), &[1, 0], "65535", "10.0.0.1:8081"),
        (json!({}), &[2], "8000", "[fd00::1]:8082"),
    ] {
        let handler =
            build("data-parallel-profile-handler", parameters).unwrap().roles.profile_handler.unwrap();
        let mut request = InferenceRequest::default();
        let results = ProfileResults::from_iter([("p".into(), Some(chose(&all, chosen)))]);
        let SchedulingResult { profiles, primary } = handler.process_results(&mut request, results).unwrap();
        let result = profiles[&primary].as_ref().expect("the profile ran");
        let ports: Vec<&str> = result.targets.iter().map(|t| t.endpoint.metadata.port.as_str()).collect();
        assert_eq!(ports, vec![port; chosen.len()]);
        assert_eq!(request.headers.get("x-data-parallel-host-port"), Some(header));
        assert!(result.scored.is_empty() && result.targets.iter().all(|t| t.scored.is_none()));
    }
    assert_refused(
        "data-parallel-profile-handler",
        &[
            (json!({ "primaryPort": -1 }), "primaryPort"),
            (json!({ "primaryPort": 65536 }), "primaryPort"),
            (json!({ "primaryPort": "8000" }), "primaryPort"),
            (json!({ "primaryPort": true }), "primaryPort"),
        ],
    );
}

/// Scheduling spec 7.2.
#[test]
fn data_parallel_runs_exactly_one_profile() {
    let handler = build("data-parallel-profile-handler", json!({})).unwrap().roles.profile_handler.unwrap();
    let request = &mut InferenceRequest::default();
    let mut pick = |profiles: &[&str], results: ProfileResults| {
        handler.pick(request, &candidates([]), &names(profiles), &mut { results })
    };
    assert_eq!(pick(&["p"], ProfileResults::default()), names(&["p"]));
    assert!(pick(&["p"], failed(&["p"])).is_empty());
    assert!(pick(&[], ProfileResults::default()).is_empty());
    assert!(pick(&["p", "q"], ProfileResults::default()).is_empty());
    assert_eq!(process(&*handler, failed(&["p"])), Err("failed to run scheduler profile 'p'".to_owned()));
    assert!(process(&*handler, ProfileResults::default()).is_err());
    assert!(process(&*handler, failed(&["p", "q"])).is_err());
}
