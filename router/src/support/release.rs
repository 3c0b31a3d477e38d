//! The plugin types of the llm-d Router v0.10.0 (configuration spec 4.3; request-control spec 16).

use std::fmt;

/// What a type is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Area {
    /// Drops candidates.
    Filter,
    /// Scores candidates.
    Scorer,
    /// Chooses among scored candidates.
    Picker,
    /// Runs profiles, or helps one that does.
    ProfileHandler,
    /// Finds things out about a request.
    Producer,
    /// Admits, screens or observes requests.
    RequestControl,
    /// Queues, and what decides over them.
    FlowControl,
    /// Reads request bodies.
    Parser,
    /// Finds endpoints and learns about them.
    DataLayer,
}

/// What users may rely on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stability {
    /// Runs only where experimental plugins are allowed.
    Alpha,
    /// May change with notice.
    Beta,
    /// Does not change.
    Stable,
}

impl fmt::Display for Stability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// When a type went out of use; still works, with a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deprecation {
    /// Release that deprecated it.
    pub since: &'static str,
    /// Release that is to remove it.
    pub removal: &'static str,
    /// Type to use instead.
    pub replacement: &'static str,
}

/// A parameter that names another plugin, which must then be built first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Path of the parameter, keys joined by `.`.
    pub parameter: &'static str,
    /// Parameter that counts in its place where it is absent or empty.
    pub stand_in: Option<&'static str>,
    /// Name that is referred to where the parameter is absent.
    pub default: Option<&'static str>,
}

/// How a type comes to hear of endpoints, where it listens to them at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointEvents {
    /// It always does; a configuration has no say in it.
    Always,
    /// It does where a configuration lists it under a source of such events.
    Listed,
    /// It asks for them itself; of several instances the first is heard. It may be listed all the same.
    Subscribed,
    /// It asks for them itself, and for pods; it cannot be listed.
    SubscribedWithPods,
    /// It asks for pods only. It may be listed under a source of pods all the same.
    Pods,
}

/// One plugin type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PluginType {
    /// Name.
    pub name: &'static str,
    /// What it is for.
    pub area: Area,
    /// What users may rely on.
    pub stability: Stability,
    /// Since when not to use it.
    pub deprecation: Option<Deprecation>,
    /// Parameters that name other plugins.
    pub references: &'static [Reference],
    /// Data key for which it is created where nobody produces that key.
    pub default_producer_of: Option<&'static str>,
    /// Type that an instance of the default name reports, where it is another.
    pub reports: Option<&'static str>,
    /// How it comes to hear of endpoints.
    pub endpoint_events: EndpointEvents,
}

impl PluginType {
    /// Returns a type that is not deprecated, refers to nothing and is no default.
    pub const fn new(area: Area, name: &'static str, stability: Stability) -> Self {
        PluginType {
            name,
            area,
            stability,
            deprecation: None,
            references: &[],
            default_producer_of: None,
            reports: None,
            endpoint_events: EndpointEvents::Always,
        }
    }

    const fn deprecated(self, since: &'static str, removal: &'static str, replacement: &'static str) -> Self {
        PluginType { deprecation: Some(Deprecation { since, removal, replacement }), ..self }
    }

    const fn refers_by(self, references: &'static [Reference]) -> Self {
        PluginType { references, ..self }
    }

    const fn produces_by_default(self, key: &'static str) -> Self {
        PluginType { default_producer_of: Some(key), ..self }
    }

    const fn reports(self, plugin_type: &'static str) -> Self {
        PluginType { reports: Some(plugin_type), ..self }
    }

    const fn hears(self, endpoint_events: EndpointEvents) -> Self {
        PluginType { endpoint_events, ..self }
    }
}

const fn beta(area: Area, name: &'static str) -> PluginType {
    PluginType::new(area, name, Stability::Beta)
}

const fn alpha(area: Area, name: &'static str) -> PluginType {
    PluginType::new(area, name, Stability::Alpha)
}

const fn by(parameter: &'static str) -> Reference {
    Reference { parameter, stand_in: None, default: None }
}

/// Every plugin type of the release.
pub const RELEASE: &[PluginType] = &[
    beta(Area::Filter, "label-selector-filter"),
    beta(Area::Filter, "by-label-selector").deprecated("0.9.0", "0.11.0", "label-selector-filter"),
    beta(Area::Filter, "by-label").deprecated("0.9.0", "0.11.0", "label-selector-filter"),
    beta(Area::Filter, "encode-filter").reports("by-label"),
    beta(Area::Filter, "decode-filter").reports("by-label"),
    beta(Area::Filter, "prefill-filter").reports("by-label"),
    beta(Area::Filter, "prefix-cache-affinity-filter"),
    beta(Area::Filter, "slo-headroom-tier-filter"),
    beta(Area::Filter, "header-based-testing-filter"),
    alpha(Area::Filter, "session-affinity-filter"),
    alpha(Area::Filter, "endpoint-attribute-filter"),
    alpha(Area::Filter, "topology-affinity-filter"),
    alpha(Area::Filter, "utilization-filter"),
    alpha(Area::Filter, "multicluster-session-affinity-filter"),
    beta(Area::Scorer, "load-aware-scorer"),
    beta(Area::Scorer, "context-length-aware"),
    beta(Area::Scorer, "prefix-cache-scorer"),
    beta(Area::Scorer, "kv-cache-utilization-scorer"),
    beta(Area::Scorer, "queue-scorer"),
    beta(Area::Scorer, "running-requests-size-scorer"),
    beta(Area::Scorer, "lora-affinity-scorer"),
    beta(Area::Scorer, "token-load-scorer"),
    beta(Area::Scorer, "no-hit-lru-scorer"),
    beta(Area::Scorer, "active-request-scorer"),
    beta(Area::Scorer, "precise-prefix-cache-scorer").hears(EndpointEvents::Listed),
    beta(Area::Scorer, "mm-embeddings-cache-scorer"),
    beta(Area::Scorer, "latency-scorer"),
    alpha(Area::Scorer, "session-affinity-scorer"),
    alpha(Area::Scorer, "header-label-affinity-scorer"),
    alpha(Area::Scorer, "endpoint-attribute-scorer"),
    alpha(Area::Scorer, "topology-affinity-scorer"),
    alpha(Area::Scorer, "multicluster-queue-scorer"),
    alpha(Area::Scorer, "multicluster-kv-cache-utilization-scorer"),
    alpha(Area::Scorer, "multicluster-prefix-cache-scorer"),
    beta(Area::Picker, "max-score-picker"),
    beta(Area::Picker, "random-picker"),
    beta(Area::Picker, "weighted-random-picker"),
    beta(Area::ProfileHandler, "single-profile-handler"),
    beta(Area::ProfileHandler, "data-parallel-profile-handler"),
    beta(Area::ProfileHandler, "disagg-profile-handler").refers_by(&[
        by("deciders.prefill"),
        by("deciders.encode"),
        by("prefillDeciderPluginName"),
        by("encodeDeciderPluginName"),
        by("deciderPluginName"),
    ]),
    beta(Area::ProfileHandler, "pd-profile-handler")
        .deprecated("0.7.0", "0.9.0", "disagg-profile-handler")
        .refers_by(&[
            Reference { stand_in: Some("prefixPluginType"), ..by("prefixPluginName") },
            Reference { default: Some("prefix-based-pd-decider"), ..by("deciderPluginName") },
        ]),
    beta(Area::ProfileHandler, "disagg-headers-handler").deprecated(
        "0.9.0",
        "0.11.0",
        "disagg-profile-handler",
    ),
    beta(Area::ProfileHandler, "prefill-header-handler").reports("disagg-headers-handler").deprecated(
        "0.9.0",
        "0.11.0",
        "disagg-profile-handler",
    ),
    beta(Area::ProfileHandler, "always-disagg-pd-decider"),
    beta(Area::ProfileHandler, "prefix-based-pd-decider"),
    beta(Area::ProfileHandler, "always-disagg-multimodal-decider"),
    alpha(Area::ProfileHandler, "header-profile-handler"),
    beta(Area::Producer, "approx-prefix-cache-producer")
        .produces_by_default("PrefixCacheMatchInfoDataKey/approx-prefix-cache-producer"),
    beta(Area::Producer, "inflight-load-producer")
        .hears(EndpointEvents::Subscribed)
        .produces_by_default("InFlightLoadDataKey/inflight-load-producer"),
    beta(Area::Producer, "predicted-latency-producer")
        .produces_by_default("LatencyPredictionInfoDataKey/predicted-latency-producer"),
    beta(Area::Producer, "mm-embeddings-cache-producer")
        .hears(EndpointEvents::Listed)
        .produces_by_default("MultiModalEncoderCacheMatchInfoKey/mm-embeddings-cache-producer"),
    beta(Area::Producer, "token-producer").produces_by_default("TokenizedPrompt/token-producer"),
    beta(Area::Producer, "tokenizer").reports("token-producer").deprecated(
        "0.9.0",
        "0.11.0",
        "token-producer",
    ),
    beta(Area::Producer, "session-id-producer").produces_by_default("SessionIDDataKey/session-id-producer"),
    beta(Area::Producer, "precise-prefix-cache-producer").hears(EndpointEvents::Listed),
    alpha(Area::Producer, "burst-prefix-cache-producer"),
    alpha(Area::Producer, "p2p-source-producer"),
    alpha(Area::Producer, "multicluster-approx-prefix-cache-producer"),
    beta(Area::RequestControl, "latency-slo-admitter"),
    beta(Area::RequestControl, "probabilistic-admitter"),
    beta(Area::RequestControl, "request-attribute-reporter"),
    beta(Area::RequestControl, "destination-endpoint-served-verifier").reports(""),
    alpha(Area::RequestControl, "disaggregatedset-rollout-screener").hears(EndpointEvents::Pods),
    alpha(Area::RequestControl, "agent-identity"),
    beta(Area::FlowControl, "global-strict-fairness-policy"),
    beta(Area::FlowControl, "round-robin-fairness-policy"),
    beta(Area::FlowControl, "program-aware-fairness"),
    beta(Area::FlowControl, "fcfs-ordering-policy"),
    beta(Area::FlowControl, "edf-ordering-policy"),
    beta(Area::FlowControl, "slo-deadline-ordering-policy"),
    beta(Area::FlowControl, "static-usage-limit-policy").reports("static-usage-limit-policy-type"),
    beta(Area::FlowControl, "concurrency-detector"),
    beta(Area::FlowControl, "utilization-detector"),
    alpha(Area::FlowControl, "sheddable-eviction-filter"),
    alpha(Area::FlowControl, "priority-then-time-eviction-order-policy"),
    alpha(Area::FlowControl, "priority-holdback-policy"),
    alpha(Area::FlowControl, "soft-reflective-ceiling-policy"),
    beta(Area::Parser, "openai-parser"),
    beta(Area::Parser, "vllmgrpc-parser"),
    beta(Area::Parser, "passthrough-parser"),
    beta(Area::Parser, "anthropic-parser"),
    beta(Area::Parser, "vllmhttp-parser"),
    beta(Area::Parser, "vertexai-parser"),
    beta(Area::DataLayer, "metrics-data-source"),
    beta(Area::DataLayer, "core-metrics-extractor"),
    beta(Area::DataLayer, "models-data-source"),
    beta(Area::DataLayer, "models-data-extractor"),
    beta(Area::DataLayer, "k8s-notification-source"),
    beta(Area::DataLayer, "endpoint-notification-source"),
    beta(Area::DataLayer, "file-discovery"),
    alpha(Area::DataLayer, "multicluster-metrics-data-source"),
    alpha(Area::DataLayer, "multicluster-metrics-extractor"),
    alpha(Area::DataLayer, "topology-extractor").hears(EndpointEvents::SubscribedWithPods),
    alpha(Area::DataLayer, "dcgm-data-source"),
    alpha(Area::DataLayer, "dcgm-extractor"),
    alpha(Area::DataLayer, "multicluster-file-discovery"),
];
