use serde_json::json;

use crate::request::InferenceRequest;
use crate::scheduling::testing::{at, build, candidates, decision, request_with};

const PREFILL: &str = "x-prefiller-host-port";
const ENCODE: &str = "x-encoder-hosts-ports";

/// Scheduling spec 7.6, the list under T; the hook of 7.4 is the same.
#[test]
fn headers_name_where_the_other_stages_run() {
    let all = candidates([
        at("d", "10.0.0.1", "8000"),
        at("p", "10.0.0.5", "8000"),
        at("e", "10.0.0.6", "8000"),
        at("v6", "fd00::1", "8000"),
    ]);
    for (profiles, prefill, encode) in [
        (&[][..], None, None),
        (&[("decode", &[0][..])], None, None),
        (&[("decode", &[0]), ("prefill", &[1])], Some("10.0.0.5:8000"), None),
        (&[("decode", &[0]), ("prefill", &[2, 1])], Some("10.0.0.6:8000"), None),
        (&[("decode", &[0]), ("prefill", &[])], None, None),
        (&[("decode", &[0]), ("prefill", &[3])], Some("[fd00::1]:8000"), None),
        (&[("decode", &[0]), ("encode", &[1, 2])], None, Some("10.0.0.5:8000,10.0.0.6:8000")),
    ] {
        for handler in ["disagg-headers-handler", "prefill-header-handler", "disagg-profile-handler"] {
            let hook = build(handler, json!({})).unwrap().roles.pre_request.expect("it writes headers");
            let mut request: InferenceRequest = request_with(&[(PREFILL, "stale:1"), (ENCODE, "stale:2")]);
            hook.pre_request(&mut request, &decision(&all, profiles), &all).expect("nothing fails");
            let headers = (request.headers.get(PREFILL), request.headers.get(ENCODE));
            assert_eq!(headers, (prefill, encode), "{handler} {profiles:?}");
        }
    }
    let renamed = json!({ "prefillProfile": "p", "encodeProfile": "e" });
    let hook = build("prefill-header-handler", renamed).unwrap();
    assert_eq!(&*hook.id.plugin_type, "disagg-headers-handler");
    let mut request = InferenceRequest::default();
    let decided = decision(&all, &[("decode", &[0]), ("p", &[1]), ("e", &[2])]);
    hook.roles.pre_request.unwrap().pre_request(&mut request, &decided, &all).expect("nothing fails");
    let headers = (request.headers.get(PREFILL), request.headers.get(ENCODE));
    assert_eq!(headers, (Some("10.0.0.5:8000"), Some("10.0.0.6:8000")));
}
