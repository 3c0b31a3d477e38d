//! The table of scheduling spec 9: what each type is, as its instances show.

use serde_json::json;

use super::ScorerCategory::{self, Affinity, Balance, Distribution};
use super::properties::parameters;
use super::testing::{build_in, handle};
use super::types;
use crate::plugin::Roles;

/// Writes roles as the table does: F filter, S scorer, P picker, H profile handler, D decider, +PR pre-request,
/// +RH response header.
fn kind(roles: &Roles) -> String {
    let letters = [
        (roles.filter.is_some(), "F"),
        (roles.scorer.is_some(), "S"),
        (roles.picker.is_some(), "P"),
        (roles.profile_handler.is_some(), "H"),
        (roles.decider.is_some(), "D"),
        (roles.pre_request.is_some(), "+PR"),
        (roles.response_header.is_some(), "+RH"),
    ];
    letters.into_iter().filter(|(is, _)| *is).map(|(_, letter)| letter).collect()
}

#[test]
fn each_type_is_what_the_table_says() {
    let handle = handle();
    handle.add("prefix-based-pd-decider", build_in(&handle, "prefix-based-pd-decider", json!({})).unwrap());
    let mut listed = Vec::new();
    for (plugin_type, reported, kinds, category) in TABLE {
        let parameters = parameters(plugin_type).swap_remove(0);
        let instance = build_in(&handle, plugin_type, parameters).unwrap();
        let scores = instance.roles.scorer.as_ref().map(|scorer| scorer.category());
        let got = (&*instance.id.plugin_type, kind(&instance.roles), scores);
        assert_eq!(got, (*reported, (*kinds).to_owned(), *category), "{plugin_type}");
        listed.push(*plugin_type);
    }
    let mut built: Vec<&str> = types().map(|(name, _)| name).collect();
    built.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, built, "every type is built, and no other");
}

/// Type, reported type, kind, category. The two saturation detectors of the table are flow control's.
const TABLE: &[(&str, &str, &str, Option<ScorerCategory>)] = &[
    ("label-selector-filter", "label-selector-filter", "F", None),
    ("by-label-selector", "by-label-selector", "F", None),
    ("by-label", "by-label", "F", None),
    ("decode-filter", "by-label", "F", None),
    ("prefill-filter", "by-label", "F", None),
    ("encode-filter", "by-label", "F", None),
    ("session-affinity-filter", "session-affinity-filter", "F+PR+RH", None),
    ("multicluster-session-affinity-filter", "multicluster-session-affinity-filter", "F+PR+RH", None),
    ("topology-affinity-filter", "topology-affinity-filter", "F", None),
    ("utilization-filter", "utilization-filter", "F", None),
    ("slo-headroom-tier-filter", "slo-headroom-tier-filter", "F", None),
    ("endpoint-attribute-filter", "endpoint-attribute-filter", "F", None),
    ("prefix-cache-affinity-filter", "prefix-cache-affinity-filter", "F", None),
    ("header-based-testing-filter", "header-based-testing-filter", "F", None),
    ("context-length-aware", "context-length-aware", "FS", Some(Affinity)),
    ("kv-cache-utilization-scorer", "kv-cache-utilization-scorer", "S", Some(Distribution)),
    (
        "multicluster-kv-cache-utilization-scorer",
        "multicluster-kv-cache-utilization-scorer",
        "S",
        Some(Distribution),
    ),
    ("queue-scorer", "queue-scorer", "S", Some(Distribution)),
    ("multicluster-queue-scorer", "multicluster-queue-scorer", "S", Some(Distribution)),
    ("running-requests-size-scorer", "running-requests-size-scorer", "S", Some(Distribution)),
    ("lora-affinity-scorer", "lora-affinity-scorer", "S", Some(Affinity)),
    ("load-aware-scorer", "load-aware-scorer", "S", Some(Distribution)),
    ("session-affinity-scorer", "session-affinity-scorer", "S+PR+RH", Some(Affinity)),
    ("header-label-affinity-scorer", "header-label-affinity-scorer", "S", Some(Affinity)),
    ("endpoint-attribute-scorer", "endpoint-attribute-scorer", "S", Some(Distribution)),
    ("prefix-cache-scorer", "prefix-cache-scorer", "S", Some(Affinity)),
    ("multicluster-prefix-cache-scorer", "multicluster-prefix-cache-scorer", "S", Some(Affinity)),
    ("precise-prefix-cache-scorer", "precise-prefix-cache-scorer", "S+PR", Some(Affinity)),
    ("no-hit-lru-scorer", "no-hit-lru-scorer", "S+PR", Some(Distribution)),
    ("active-request-scorer", "active-request-scorer", "S", Some(Distribution)),
    ("token-load-scorer", "token-load-scorer", "S", Some(Distribution)),
    ("latency-scorer", "latency-scorer", "S", Some(Balance)),
    ("mm-embeddings-cache-scorer", "mm-embeddings-cache-scorer", "S", Some(Affinity)),
    ("topology-affinity-scorer", "topology-affinity-scorer", "S", Some(Affinity)),
    ("max-score-picker", "max-score-picker", "P", None),
    ("random-picker", "random-picker", "P", None),
    ("weighted-random-picker", "weighted-random-picker", "P", None),
    ("single-profile-handler", "single-profile-handler", "H", None),
    ("data-parallel-profile-handler", "data-parallel-profile-handler", "H", None),
    ("header-profile-handler", "header-profile-handler", "H", None),
    ("disagg-profile-handler", "disagg-profile-handler", "H+PR", None),
    ("pd-profile-handler", "pd-profile-handler", "H", None),
    ("disagg-headers-handler", "disagg-headers-handler", "+PR", None),
    ("prefill-header-handler", "disagg-headers-handler", "+PR", None),
    ("always-disagg-pd-decider", "always-disagg-pd-decider", "D", None),
    ("prefix-based-pd-decider", "prefix-based-pd-decider", "D", None),
    ("always-disagg-multimodal-decider", "always-disagg-multimodal-decider", "D", None),
];
