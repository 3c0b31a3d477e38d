//! The specifications' tables of plugin types, held against the release file and the plugins themselves.

use std::collections::BTreeSet;

use executor::Real;
use serde_json::{Value, json};

use super::*;
use crate::plugin::{Handle, Parameters};

/// Configuration spec 4.3, the column of experimental types.
const ALPHA: [&str; 28] = [
    "agent-identity",
    "burst-prefix-cache-producer",
    "dcgm-data-source",
    "dcgm-extractor",
    "disaggregatedset-rollout-screener",
    "endpoint-attribute-filter",
    "endpoint-attribute-scorer",
    "header-label-affinity-scorer",
    "header-profile-handler",
    "multicluster-approx-prefix-cache-producer",
    "multicluster-file-discovery",
    "multicluster-kv-cache-utilization-scorer",
    "multicluster-metrics-data-source",
    "multicluster-metrics-extractor",
    "multicluster-prefix-cache-scorer",
    "multicluster-queue-scorer",
    "multicluster-session-affinity-filter",
    "p2p-source-producer",
    "priority-holdback-policy",
    "priority-then-time-eviction-order-policy",
    "session-affinity-filter",
    "session-affinity-scorer",
    "sheddable-eviction-filter",
    "soft-reflective-ceiling-policy",
    "topology-affinity-filter",
    "topology-affinity-scorer",
    "topology-extractor",
    "utilization-filter",
];

/// Configuration spec 4.3: no type is stable.
#[test]
fn types_are_as_stable_as_the_table_says() {
    let of = |stability| RELEASE.iter().filter(move |t| t.stability == stability).map(|t| t.name);
    assert_eq!(of(Stability::Alpha).collect::<BTreeSet<_>>(), BTreeSet::from(ALPHA));
    assert_eq!(of(Stability::Stable).count(), 0);
}

/// Configuration spec 4.3, the types that went out of use.
#[test]
fn types_out_of_use_say_since_when_and_what_replaces_them() {
    let all =
        RELEASE.iter().filter_map(|t| t.deprecation.map(|d| (t.name, d.since, d.removal, d.replacement)));
    let mut all: Vec<_> = all.collect();
    all.sort_unstable();
    let plain =
        |(name, since, removal, replacement): (&'static str, &'static str, &'static str, &'static str)| {
            (name, since.trim_start_matches('v'), removal.trim_start_matches('v'), replacement)
        };
    assert_eq!(
        all.into_iter().map(plain).collect::<Vec<_>>(),
        [
            ("by-label", "0.9.0", "0.11.0", "label-selector-filter"),
            ("by-label-selector", "0.9.0", "0.11.0", "label-selector-filter"),
            ("disagg-headers-handler", "0.9.0", "0.11.0", "disagg-profile-handler"),
            ("pd-profile-handler", "0.7.0", "0.9.0", "disagg-profile-handler"),
            ("prefill-header-handler", "0.9.0", "0.11.0", "disagg-profile-handler"),
            ("tokenizer", "0.9.0", "0.11.0", "token-producer"),
        ]
    );
}

/// Scheduling spec 2.6 and configuration spec 2.6: who is created for which key.
#[test]
fn a_missing_key_has_the_default_producer_of_the_table() {
    let registry = Registry::default();
    for (key, producer) in [
        ("PrefixCacheMatchInfoDataKey/approx-prefix-cache-producer", Some("approx-prefix-cache-producer")),
        ("InFlightLoadDataKey/inflight-load-producer", Some("inflight-load-producer")),
        ("LatencyPredictionInfoDataKey/predicted-latency-producer", Some("predicted-latency-producer")),
        (
            "MultiModalEncoderCacheMatchInfoKey/mm-embeddings-cache-producer",
            Some("mm-embeddings-cache-producer"),
        ),
        ("TokenizedPrompt/token-producer", Some("token-producer")),
        ("SessionIDDataKey/session-id-producer", Some("session-id-producer")),
        ("UncachedRequestTokensDataKey/inflight-load-producer", None),
        ("PrefixCacheMatchInfoDataKey/mine", None),
        ("Topology/topology-extractor", None),
    ] {
        assert_eq!(registry.default_producer(key).map(|r| r.info.name), producer, "{key}");
    }
}

/// Configuration spec 6.8, the catalogue: what each writer that is built produces under the name `mine`.
#[test]
fn writers_produce_the_keys_of_the_catalogue() {
    let runtime = Real::builder().current_thread().build().expect("the runtime starts");
    let prefix = &["PrefixCacheMatchInfoDataKey/mine"][..];
    let in_flight = &["InFlightLoadDataKey/mine", "UncachedRequestTokensDataKey/mine"];
    for (plugin_type, parameters, keys) in [
        ("approx-prefix-cache-producer", Value::Null, prefix),
        ("precise-prefix-cache-producer", Value::Null, prefix),
        ("inflight-load-producer", Value::Null, in_flight),
        ("session-id-producer", json!({ "headerName": "x-session" }), &["SessionIDDataKey/mine"]),
        ("dcgm-extractor", Value::Null, &["GPUUtilization/dcgm-extractor"]),
        // It declares none: in the vectors, no configuration finds it as a producer.
        ("topology-extractor", Value::Null, &[]),
        ("models-data-extractor", Value::Null, &["/v1/models/models-data-extractor"]),
        (
            "multicluster-metrics-extractor",
            Value::Null,
            &["llm-d.ai/multicluster-kv-cache-utilization/", "llm-d.ai/multicluster-queue-size/"],
        ),
        ("core-metrics-extractor", Value::Null, &[]),
    ] {
        let Some(Support::Supported(factory)) = Registry::default().get(plugin_type).map(|r| r.support)
        else {
            panic!("{plugin_type} is built");
        };
        let handle = Handle::new(runtime.rt());
        let built = factory("mine", &Parameters::new(parameters), &handle);
        let instance = built.unwrap_or_else(|error| panic!("{plugin_type}: {error}"));
        let produced: Vec<&str> = instance.data.produces.iter().map(|p| p.key.as_str()).collect();
        assert_eq!(produced, keys, "{plugin_type}");
    }
}
