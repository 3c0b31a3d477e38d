use std::rc::Rc;

use serde_json::{Value, json};

use super::{failed, names, process};
use crate::scheduling::testing::{build, candidates, chose, request_with};
use crate::scheduling::{ProfileHandler, ProfileResults};

fn handler(parameters: Value) -> Rc<dyn ProfileHandler> {
    build("header-profile-handler", parameters).unwrap().roles.profile_handler.unwrap()
}

/// Scheduling spec 7.3, the list under T.
#[test]
fn a_header_names_the_profile() {
    let none = || json!({});
    let prefill = || json!({ "defaultProfile": " prefill " });
    let renamed = || json!({ "headerName": " X-Stage " });
    let encode_decode = &["encode", "decode"][..];
    for (parameters, profiles, headers, want) in [
        (none(), encode_decode, &[("epp-profile", "encode")][..], &["encode"][..]),
        (none(), encode_decode, &[], &["decode"]),
        (none(), encode_decode, &[("epp-profile", "   ")], &["decode"]),
        (none(), encode_decode, &[("epp-profile", "  encode  ")], &["encode"]),
        (none(), encode_decode, &[("epp-profile", "Encode")], &[]),
        (none(), encode_decode, &[("epp-profile", "prefill")], &[]),
        (none(), &["decode"], &[], &["decode"]),
        (none(), &["decode"], &[("epp-profile", "prefill")], &["decode"]),
        (prefill(), &["encode", "prefill"], &[], &["prefill"]),
        (prefill(), &["encode", "prefill"], &[("epp-profile", "encode")], &["encode"]),
        (none(), &["encode", "prefill"], &[], &[]),
        (renamed(), encode_decode, &[("x-stage", "encode")], &["encode"]),
        (json!({ "headerName": "  ", "defaultProfile": " " }), encode_decode, &[], &["decode"]),
    ] {
        let pick = |mut results: ProfileResults| {
            let request = &mut request_with(headers);
            handler(parameters.clone()).pick(request, &candidates([]), &names(profiles), &mut results)
        };
        assert_eq!(pick(ProfileResults::default()), names(want), "{parameters} {profiles:?} {headers:?}");
        assert!(pick(failed(&["encode"])).is_empty(), "one profile a request");
    }
}

/// Scheduling spec 7.3, ProcessResults.
#[test]
fn the_one_profile_that_ran_is_primary() {
    let handler = handler(json!({}));
    let ran = ProfileResults::from_iter([("encode".into(), Some(chose(&candidates([]), &[])))]);
    assert_eq!(process(&*handler, ran), Ok("encode".to_owned()));
    let error = |results| process(&*handler, results).unwrap_err();
    assert_eq!(error(ProfileResults::default()), "missing \"epp-profile\" header");
    assert!(error(failed(&["a", "b"])).contains("is intended to run a single profile per request, got 2"));
    assert_eq!(error(failed(&["encode"])), "failed to run scheduler profile 'encode'");
    let named = handler
        .process_results(&mut request_with(&[("epp-profile", "x")]), ProfileResults::default())
        .unwrap_err();
    let text = "no scheduling profile configured for \"epp-profile\" header value \"x\"";
    assert_eq!(named.to_string(), text);
}
