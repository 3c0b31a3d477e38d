mod load;
mod near;

use serde_json::{Value, json};

use crate::candidates::Candidates;
use crate::request::InferenceRequest;
use crate::scheduling::testing::{assert_kept, build, candidates, labelled};

/// The endpoints of scheduling spec 4.1 and 4.2.
fn shop() -> Candidates {
    candidates([
        labelled("nginx-1", &[("app", "nginx"), ("version", "v1.0"), ("tier", "frontend")]),
        labelled("nginx-2", &[("app", "nginx"), ("version", "v1.1"), ("tier", "frontend")]),
        labelled("coredns-1", &[("app", "coredns"), ("tier", "system")]),
        labelled("redis-1", &[("app", "redis"), ("tier", "backend"), ("deprecated", "true")]),
        labelled("web-1", &[("app", "web"), ("tier", "frontend"), ("environment", "production")]),
        labelled("no-tier-pod", &[("app", "unknown")]),
    ])
}

fn assert_keeps(plugin_type: &str, parameters: Value, candidates: &Candidates, want: &[&str]) {
    assert_kept((plugin_type, parameters), &InferenceRequest::default(), candidates, want);
}

#[test]
fn label_selectors_match_as_in_kubernetes() {
    let expression = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
    let all = ["nginx-1", "nginx-2", "coredns-1", "redis-1", "web-1", "no-tier-pod"];
    for (selector, want) in [
        (json!({ "matchLabels": { "app": "nginx" } }), &all[..2]),
        (json!({ "matchLabels": { "app": "nginx", "version": "v1.0" } }), &all[..1]),
        (expression("tier", "In", &["frontend", "backend"]), &["nginx-1", "nginx-2", "redis-1", "web-1"]),
        (
            expression("tier", "NotIn", &["system"]),
            &["nginx-1", "nginx-2", "redis-1", "web-1", "no-tier-pod"],
        ),
        (expression("deprecated", "Exists", &[]), &["redis-1"]),
        (
            expression("deprecated", "DoesNotExist", &[]),
            &["nginx-1", "nginx-2", "coredns-1", "web-1", "no-tier-pod"],
        ),
        (json!({}), &all),
        (json!(null), &all),
        (json!({ "matchLabels": { "app": "nonexistent" } }), &[]),
    ] {
        assert_keeps("label-selector-filter", selector.clone(), &shop(), want);
        assert_keeps("by-label-selector", selector, &shop(), want);
    }
}

#[test]
fn selectors_that_kubernetes_refuses_are_refused() {
    let expression = |e: Value| json!({ "matchExpressions": [e] });
    for selector in [
        expression(json!({ "key": "a", "operator": "in", "values": ["x"] })),
        expression(json!({ "key": "a", "operator": "In" })),
        expression(json!({ "key": "a", "operator": "NotIn", "values": [] })),
        expression(json!({ "key": "a", "operator": "Exists", "values": ["x"] })),
        expression(json!({ "key": "", "operator": "Exists" })),
        json!({ "matchLabels": { "a": "-" } }),
        json!({ "matchLabel": {} }),
    ] {
        assert!(build("label-selector-filter", selector.clone()).is_err(), "{selector}");
    }
}

#[test]
fn by_label_lists_values() {
    for (parameters, want) in [
        (json!({ "label": "app", "validValues": ["nginx"] }), &["nginx-1", "nginx-2"][..]),
        (json!({ "label": "version", "validValues": ["v1.0"] }), &["nginx-1"]),
        (json!({ "label": "tier", "allowsNoLabel": true }), &["no-tier-pod"]),
        (json!({ "label": "tier", "validValues": ["", "system"] }), &["coredns-1", "no-tier-pod"]),
    ] {
        assert_keeps("by-label", parameters, &shop(), want);
    }
    for bad in [json!({}), json!({ "label": "a" }), json!({ "label": "a", "validValues": "b" })] {
        assert!(build("by-label", bad.clone()).is_err(), "{bad}");
    }
}

/// Scheduling spec 4.3: all roles, one endpoint with another label only, one without labels.
#[test]
fn role_filters_accept_their_roles() {
    let roles = [
        "decode",
        "prefill",
        "encode",
        "prefill-decode",
        "both",
        "encode-prefill",
        "encode-prefill-decode",
        "encode-decode",
        "",
    ];
    let mut endpoints: Vec<_> = roles.iter().map(|r| labelled(r, &[("llm-d.ai/role", r)])).collect();
    endpoints.extend([labelled("other", &[("app", "vllm")]), labelled("bare", &[])]);
    let all = candidates(endpoints);
    for (plugin_type, want) in [
        (
            "decode-filter",
            &["decode", "prefill-decode", "both", "encode-prefill-decode", "other", "bare"][..],
        ),
        ("prefill-filter", &["prefill", "prefill-decode", "both", "encode-prefill", "encode-prefill-decode"]),
        ("encode-filter", &["encode", "encode-prefill", "encode-prefill-decode"]),
    ] {
        assert_keeps(plugin_type, json!({ "any": "thing" }), &all, want);
        assert_keeps(plugin_type, json!(null), &candidates([]), &[]);
        assert_eq!(&*build(plugin_type, json!({})).unwrap().id.plugin_type, "by-label");
    }
}
