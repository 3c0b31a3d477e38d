//! Every metric that the router can show: name, type, labels and buckets are those of the llm-d Router.

use super::Kind::{self, Counter, Gauge, Histogram};

/// One family of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// Name on the page.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Names of the labels, in order.
    pub labels: &'static [&'static str],
    /// One sentence for whoever reads the page.
    pub help: &'static str,
    /// Who brings it: a plugin type, or `core`.
    pub owner: &'static str,
    /// The same family under an older name.
    pub twin: Option<Twin>,
}

/// A family under an older name; each of its labels is one of the newer family's, or an older name of one.
#[derive(Clone, Copy, Debug)]
pub struct Twin {
    /// Name on the page.
    pub name: &'static str,
    /// Names of the labels, in order.
    pub labels: &'static [&'static str],
}

/// Older names of labels.
const RENAMED: [(&str, &str); 2] =
    [("pod_name", "endpoint_name"), ("model_server_pod", "model_server_endpoint")];

impl Definition {
    /// Returns the position of the label that a twin calls `label`.
    ///
    /// # Panics
    /// When there is none: the catalogue would be wrong.
    pub(super) fn position(&self, label: &str) -> usize {
        let name = RENAMED.iter().find(|(old, _)| *old == label).map_or(label, |(_, new)| new);
        let at = self.labels.iter().position(|own| *own == name);
        at.unwrap_or_else(|| panic!("{} has no label {name}", self.name))
    }

    const fn twin(mut self, name: &'static str, labels: &'static [&'static str]) -> Self {
        self.twin = Some(Twin { name, labels });
        self
    }

    const fn of(mut self, owner: &'static str) -> Self {
        self.owner = owner;
        self
    }
}

const fn metric(
    name: &'static str,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
) -> Definition {
    Definition { name, kind, labels, help, owner: CORE, twin: None }
}

/// Returns the metric of that name; a twin is not found under its own.
pub fn find(name: &str) -> Option<&'static Definition> {
    CATALOGUE.iter().find(|definition| definition.name == name)
}

/// Owner of the metrics that belong to no plugin.
pub const CORE: &str = "core";
/// Owner of the metrics of gRPC streams, which a flag switches on.
pub const STREAM_METRICS: &str = "core, only with --enable-grpc-stream-metrics";

/// Owner of the metrics of our own that tell of the reverse proxy.
pub const PROXY: &str = "lockstep's reverse proxy";

/// Labels of the per-request metrics.
const MODEL: &[&str] = &["model_name", "target_model_name"];
const REQUEST: &[&str] = &["model_name", "target_model_name", "fairness_id", "priority"];
const POOL: &[&str] = &["name"];
const PLUGIN: &[&str] = &["plugin_name", "plugin_type"];
const PREDICTION_OF: &[&str] = &["plugin_name", "plugin_type", "model_name", "target_model_name"];
const FLOW: &[&str] = &["fairness_id", "priority", "inference_pool", "model_name", "target_model_name"];

// Buckets. Unit: what the metric's name says.
const LATENCY: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0, 120.0, 180.0, 240.0, 300.0, 360.0, 480.0, 600.0, 900.0, 1200.0, 1800.0, 2700.0,
    3600.0,
];
const FIRST_TOKEN: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0, 120.0,
];
const REQUEST_BYTES: &[f64] = &[
    64.0,
    128.0,
    256.0,
    512.0,
    1024.0,
    2048.0,
    4096.0,
    8192.0,
    16384.0,
    32768.0,
    65536.0,
    131072.0,
    262144.0,
    524288.0,
    1048576.0,
    2097152.0,
    4194304.0,
    8388608.0,
    16777216.0,
    33554432.0,
    67108864.0,
    134217728.0,
    268435456.0,
    536870912.0,
    1073741824.0,
];
const RESPONSE_BYTES: &[f64] = &[
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32778.0,
    65536.0,
];
const INPUT_TOKENS: &[f64] = &[
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32778.0,
    65536.0, 131072.0, 262144.0, 524288.0, 1048576.0,
];
const OUTPUT_TOKENS: &[f64] =
    &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0];
const NORMALIZED_OUTPUT_TOKEN: &[f64] =
    &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0];
const OUTPUT_TOKEN: &[f64] = &[
    0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8,
    1.0, 2.0,
];
const INTER_TOKEN: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0];
const FAST: &[f64] = &[0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1];
const REQUEST_PHASE: &[f64] =
    &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const RESPONSE_PHASE: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
const WAITING: &[f64] =
    &[0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
const DEFAULT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const STREAM: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
const RATIO: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0];
const HIT_BYTES: &[f64] =
    &[0.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0];
const PREDICTED_OUTPUT_TOKEN: &[f64] = &[
    0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8,
    1.0, 1.5, 2.0, 3.0, 4.5, 6.0, 12.0, 18.0, 24.0, 30.0, 36.0, 48.0, 60.0, 90.0, 120.0, 180.0, 270.0, 360.0,
];
const PREDICTION: &[f64] =
    &[0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0];

/// All metrics, by name.
pub const CATALOGUE: &[Definition] = &[
    metric(
        "inference_objective_request_tpot_seconds",
        Histogram(PREDICTED_OUTPUT_TOKEN),
        MODEL,
        "Measured time an output token.",
    )
    .of("predicted-latency-producer"),
    metric(
        "inference_objective_request_ttft_seconds",
        Histogram(LATENCY),
        MODEL,
        "Measured time to first token.",
    )
    .of("predicted-latency-producer"),
    metric(
        "llm_d_epp_average_kv_cache_utilization",
        Gauge,
        POOL,
        "Mean KV cache in use over the fresh endpoints of the pool.",
    )
    .twin("inference_pool_average_kv_cache_utilization", POOL),
    metric(
        "llm_d_epp_average_queue_size",
        Gauge,
        POOL,
        "Mean number of waiting requests over the fresh endpoints of the pool.",
    )
    .twin("inference_pool_average_queue_size", POOL),
    metric(
        "llm_d_epp_average_running_requests",
        Gauge,
        POOL,
        "Mean number of running requests over the fresh endpoints of the pool.",
    )
    .twin("inference_pool_average_running_requests", POOL),
    metric(
        "llm_d_epp_datalayer_extract_errors_total",
        Counter,
        &["source_type", "extractor_type"],
        "Extractors that failed on what a source fetched.",
    )
    .twin("llm_d_inference_scheduler_datalayer_extract_errors_total", &["source_type", "extractor_type"]),
    metric(
        "llm_d_epp_datalayer_poll_errors_total",
        Counter,
        &["source_type"],
        "Polls of an endpoint that failed.",
    )
    .twin("llm_d_inference_scheduler_datalayer_poll_errors_total", &["source_type"]),
    metric(
        "llm_d_epp_disagg_decision_total",
        Counter,
        &["plugin_name", "plugin_type", "model_name", "decision_type"],
        "Decisions on disaggregation by kind.",
    )
    .of("disagg-profile-handler")
    .twin("llm_d_inference_scheduler_disagg_decision_total", &["model_name", "decision_type"]),
    metric(
        "llm_d_epp_disaggregatedset_revision_gating_share",
        Gauge,
        &["plugin_type", "plugin_name", "mode", "revision"],
        "Share of a revision while a rollout is gated.",
    )
    .of("disaggregatedset-rollout-screener"),
    metric(
        "llm_d_epp_disaggregatedset_strict_header_no_match_total",
        Counter,
        &["plugin_type", "plugin_name", "selector"],
        "Requests whose strict revision header matched no endpoint.",
    )
    .of("disaggregatedset-rollout-screener"),
    metric(
        "llm_d_epp_encoder_cache_hit_ratio",
        Histogram(RATIO),
        &["plugin_type", "plugin_name"],
        "Share of a request's multimodal items that the encoder caches hold.",
    )
    .of("mm-embeddings-cache-producer"),
    metric(
        "llm_d_epp_encoder_cache_hits_total",
        Counter,
        &["plugin_type", "plugin_name", "pod", "modality"],
        "Multimodal items found in an encoder cache.",
    )
    .of("mm-embeddings-cache-producer"),
    metric(
        "llm_d_epp_encoder_cache_queries_total",
        Counter,
        &["plugin_type", "plugin_name", "modality"],
        "Multimodal items looked up in the encoder caches.",
    )
    .of("mm-embeddings-cache-producer"),
    metric(
        "llm_d_epp_extproc_stream_duration_seconds",
        Histogram(STREAM),
        &[],
        "Life of an ext_proc stream.",
    )
    .of(STREAM_METRICS),
    metric("llm_d_epp_extproc_streams_inflight", Gauge, &[], "Open ext_proc streams.").of(STREAM_METRICS),
    metric("llm_d_epp_extproc_streams_total", Counter, &["code"], "Ended ext_proc streams by gRPC code.")
        .of(STREAM_METRICS),
    metric(
        "llm_d_epp_flow_control_dispatch_cycle_duration_seconds",
        Histogram(FAST),
        &[],
        "Time of one dispatch cycle.",
    )
    .twin("inference_extension_flow_control_dispatch_cycle_duration_seconds", &[]),
    metric(
        "llm_d_epp_flow_control_pending_reclaim",
        Gauge,
        &["inference_pool"],
        "Capacity that revocations in progress will give back.",
    ),
    metric(
        "llm_d_epp_flow_control_pool_saturation",
        Gauge,
        &["inference_pool"],
        "Saturation of the pool as its detector sees it.",
    )
    .twin("inference_extension_flow_control_pool_saturation", &["inference_pool"]),
    metric("llm_d_epp_flow_control_queue_bytes", Gauge, FLOW, "Bytes of the waiting requests of a flow.")
        .twin("inference_extension_flow_control_queue_bytes", FLOW),
    metric("llm_d_epp_flow_control_queue_size", Gauge, FLOW, "Waiting requests of a flow.")
        .twin("inference_extension_flow_control_queue_size", FLOW),
    metric(
        "llm_d_epp_flow_control_reclaim_target",
        Gauge,
        &["inference_pool"],
        "Capacity that shall be reclaimed.",
    ),
    metric(
        "llm_d_epp_flow_control_request_enqueue_duration_seconds",
        Histogram(FAST),
        &["fairness_id", "priority", "outcome"],
        "Time until a request was queued or refused.",
    )
    .twin(
        "inference_extension_flow_control_request_enqueue_duration_seconds",
        &["fairness_id", "priority", "outcome"],
    ),
    metric(
        "llm_d_epp_flow_control_request_queue_duration_seconds",
        Histogram(WAITING),
        &["fairness_id", "priority", "outcome", "inference_pool", "model_name", "target_model_name"],
        "Time that a request waited.",
    )
    .twin(
        "inference_extension_flow_control_request_queue_duration_seconds",
        &["fairness_id", "priority", "outcome", "inference_pool", "model_name", "target_model_name"],
    ),
    metric(
        "llm_d_epp_flow_control_requests_total",
        Counter,
        &["outcome", "priority", "inference_pool"],
        "Requests that flow control is done with, by outcome.",
    ),
    metric(
        "llm_d_epp_flow_control_revocation_confirmation_seconds",
        Histogram(DEFAULT),
        &["inference_pool"],
        "Time until a revocation was confirmed.",
    ),
    metric(
        "llm_d_epp_flow_control_revocations_issued_total",
        Counter,
        &["priority", "inference_pool"],
        "Revocations sent.",
    ),
    metric(
        "llm_d_epp_flow_control_revocations_total",
        Counter,
        &["outcome", "inference_pool"],
        "Revocations by outcome.",
    ),
    metric(
        "llm_d_epp_flow_control_stale_endpoints",
        Gauge,
        &["detector"],
        "Endpoints that a saturation detector counts as stale.",
    ),
    metric(
        "llm_d_epp_inference_request_metric",
        Gauge,
        &["plugin_name", "plugin_type", "model_name", "target_model_name", "type"],
        "Last measured or predicted latency of a request.",
    )
    .of("predicted-latency-producer")
    .twin("inference_objective_inference_request_metric", &["model_name", "target_model_name", "type"]),
    metric(
        "llm_d_epp_inflight_requests",
        Gauge,
        &["endpoint_name", "namespace", "producer_name", "fairness_id", "priority"],
        "Requests in flight by endpoint and flow.",
    )
    .of("inflight-load-producer"),
    metric(
        "llm_d_epp_inflight_tokens",
        Gauge,
        &["endpoint_name", "namespace", "producer_name", "fairness_id", "priority"],
        "Tokens in flight by endpoint and flow.",
    )
    .of("inflight-load-producer"),
    metric("llm_d_epp_info", Gauge, &["commit", "build_ref"], "Commit and reference of the build.")
        .twin("inference_extension_info", &["commit", "build_ref"]),
    metric(
        "llm_d_epp_model_rewrite_decisions_total",
        Counter,
        &["model_rewrite_name", "model_name", "target_model"],
        "Model names rewritten.",
    )
    .twin(
        "inference_extension_model_rewrite_decisions_total",
        &["model_rewrite_name", "model_name", "target_model"],
    ),
    metric(
        "llm_d_epp_pd_decision_total",
        Counter,
        &["plugin_name", "plugin_type", "model_name", "decision_type"],
        "Decisions on prefill/decode disaggregation by kind.",
    )
    .of("disagg-profile-handler")
    .twin("llm_d_inference_scheduler_pd_decision_total", &["model_name", "decision_type"]),
    metric(
        "llm_d_epp_per_endpoint_queue_size",
        Gauge,
        &["name", "model_server_endpoint"],
        "Waiting requests by endpoint.",
    )
    .twin("inference_pool_per_pod_queue_size", &["name", "model_server_pod"]),
    metric(
        "llm_d_epp_plugin_duration_seconds",
        Histogram(FAST),
        &["extension_point", "plugin_type", "plugin_name"],
        "Time of one call of a plugin.",
    )
    .twin("inference_extension_plugin_duration_seconds", &["extension_point", "plugin_type", "plugin_name"]),
    metric(
        "llm_d_epp_prefix_indexer_hit_bytes",
        Histogram(HIT_BYTES),
        PLUGIN,
        "Bytes of a prompt that a prefix cache holds.",
    )
    .of("approx-prefix-cache-producer")
    .twin("inference_extension_prefix_indexer_hit_bytes", &[]),
    metric(
        "llm_d_epp_prefix_indexer_hit_ratio",
        Histogram(RATIO),
        PLUGIN,
        "Share of a prompt that a prefix cache holds.",
    )
    .of("approx-prefix-cache-producer")
    .twin("inference_extension_prefix_indexer_hit_ratio", &[]),
    metric("llm_d_epp_prefix_indexer_size", Gauge, PLUGIN, "Entries of the prefix index.")
        .of("approx-prefix-cache-producer")
        .twin("inference_extension_prefix_indexer_size", &[]),
    metric(
        "llm_d_epp_program_aware_attained_service_tokens",
        Gauge,
        &["program_id"],
        "Tokens that a program has been served.",
    )
    .of("program-aware-fairness"),
    metric(
        "llm_d_epp_program_aware_avg_wait_time_milliseconds",
        Gauge,
        &["program_id"],
        "Mean wait of a program's requests.",
    )
    .of("program-aware-fairness"),
    metric(
        "llm_d_epp_program_aware_jains_fairness_index",
        Gauge,
        &[],
        "Jain's fairness index over the programs.",
    )
    .of("program-aware-fairness"),
    metric("llm_d_epp_ready_endpoints", Gauge, POOL, "Endpoints of the pool with fresh metrics.")
        .twin("inference_pool_ready_pods", POOL),
    metric(
        "llm_d_epp_request_cached_tokens",
        Histogram(INPUT_TOKENS),
        REQUEST,
        "Prompt tokens of a request that came from a cache.",
    )
    .twin("inference_objective_prompt_cached_tokens", MODEL),
    metric(
        "llm_d_epp_request_duration_seconds",
        Histogram(LATENCY),
        REQUEST,
        "Time from a request's arrival to the end of its response.",
    )
    .twin("inference_objective_request_duration_seconds", MODEL),
    metric(
        "llm_d_epp_request_error_total",
        Counter,
        &["model_name", "target_model_name", "fairness_id", "priority", "error_code"],
        "Requests that failed, by code.",
    )
    .twin("inference_objective_request_error_total", &["model_name", "target_model_name", "error_code"]),
    metric("llm_d_epp_request_input_tokens", Histogram(INPUT_TOKENS), REQUEST, "Prompt tokens of a request.")
        .twin("inference_objective_input_tokens", MODEL),
    metric(
        "llm_d_epp_request_ntpot_seconds",
        Histogram(NORMALIZED_OUTPUT_TOKEN),
        REQUEST,
        "Duration of a request by output token.",
    )
    .twin("inference_objective_normalized_time_per_output_token_seconds", MODEL),
    metric(
        "llm_d_epp_request_output_tokens",
        Histogram(OUTPUT_TOKENS),
        REQUEST,
        "Output tokens of a request.",
    )
    .twin("inference_objective_output_tokens", MODEL),
    metric(
        "llm_d_epp_request_predicted_tpot_seconds",
        Histogram(PREDICTED_OUTPUT_TOKEN),
        PREDICTION_OF,
        "Predicted time an output token.",
    )
    .of("predicted-latency-producer")
    .twin("inference_objective_request_predicted_tpot_seconds", MODEL),
    metric(
        "llm_d_epp_request_predicted_ttft_seconds",
        Histogram(LATENCY),
        PREDICTION_OF,
        "Predicted time to first token.",
    )
    .of("predicted-latency-producer")
    .twin("inference_objective_request_predicted_ttft_seconds", MODEL),
    metric(
        "llm_d_epp_request_processing_duration_seconds",
        Histogram(REQUEST_PHASE),
        &[],
        "Time that the request phase took, waiting included.",
    ),
    metric("llm_d_epp_request_running", Gauge, REQUEST, "Requests whose response has not ended.")
        .twin("inference_objective_running_requests", &["model_name"]),
    metric("llm_d_epp_request_size_bytes", Histogram(REQUEST_BYTES), REQUEST, "Size of a request's body.")
        .twin("inference_objective_request_sizes", MODEL),
    metric(
        "llm_d_epp_request_slo_violation_total",
        Counter,
        &["plugin_name", "plugin_type", "model_name", "target_model_name", "type"],
        "Requests that missed their latency objective.",
    )
    .of("predicted-latency-producer")
    .twin("inference_objective_request_slo_violation_total", &["model_name", "target_model_name", "type"]),
    metric(
        "llm_d_epp_request_streaming_itl_seconds",
        Histogram(INTER_TOKEN),
        REQUEST,
        "Gap between two chunks of a streamed response.",
    ),
    metric(
        "llm_d_epp_request_streaming_tpot_seconds",
        Histogram(OUTPUT_TOKEN),
        REQUEST,
        "Time an output token after the first of a streamed response.",
    ),
    metric("llm_d_epp_request_total", Counter, REQUEST, "Requests that were scheduled.")
        .twin("inference_objective_request_total", &["model_name", "target_model_name", "priority"]),
    metric(
        "llm_d_epp_request_tpot_prediction_duration_seconds",
        Histogram(PREDICTION),
        PREDICTION_OF,
        "Time of predicting the time an output token.",
    )
    .of("predicted-latency-producer")
    .twin("inference_objective_request_tpot_prediction_duration_seconds", MODEL),
    metric(
        "llm_d_epp_request_ttft_prediction_duration_seconds",
        Histogram(PREDICTION),
        PREDICTION_OF,
        "Time of predicting the time to first token.",
    )
    .of("predicted-latency-producer")
    .twin("inference_objective_request_ttft_prediction_duration_seconds", MODEL),
    metric(
        "llm_d_epp_request_ttft_seconds",
        Histogram(FIRST_TOKEN),
        &["model_name", "target_model_name", "fairness_id", "priority", "streaming"],
        "Time from a request's arrival to the first chunk of its response.",
    ),
    metric(
        "llm_d_epp_response_processing_duration_seconds",
        Histogram(RESPONSE_PHASE),
        &[],
        "Time that the response phase took.",
    ),
    metric("llm_d_epp_response_size_bytes", Histogram(RESPONSE_BYTES), REQUEST, "Size of a response's body.")
        .twin("inference_objective_response_sizes", MODEL),
    metric(
        "llm_d_epp_scheduler_attempts_total",
        Counter,
        &["status", "target_model_name", "endpoint_name", "namespace", "port"],
        "Scheduling attempts by result and endpoint.",
    )
    .twin(
        "inference_extension_scheduler_attempts_total",
        &["status", "target_model_name", "pod_name", "namespace", "port"],
    ),
    metric("llm_d_epp_scheduler_e2e_duration_seconds", Histogram(FAST), &[], "Time of one scheduling.")
        .twin("inference_extension_scheduler_e2e_duration_seconds", &[]),
    metric(
        "llm_d_epp_std_dev_kv_cache_utilization",
        Gauge,
        POOL,
        "Standard deviation of the KV cache in use over the fresh endpoints of the pool.",
    ),
    metric(
        "llm_d_epp_std_dev_queue_size",
        Gauge,
        POOL,
        "Standard deviation of the waiting requests over the fresh endpoints of the pool.",
    ),
    metric(
        "llm_d_epp_std_dev_running_requests",
        Gauge,
        POOL,
        "Standard deviation of the running requests over the fresh endpoints of the pool.",
    ),
    metric(
        "llm_d_router_epp_kv_cache_events_active_subscribers",
        Gauge,
        &[],
        "Servers whose KV events are subscribed to.",
    )
    .of("precise-prefix-cache-producer"),
    metric(
        "llm_d_router_epp_kv_cache_events_dedup_removed_hashes_forwarded_total",
        Counter,
        &[],
        "Removed blocks that were passed on to the index.",
    )
    .of("precise-prefix-cache-producer")
    .twin("kvcache_kvevents_dedup_removed_hashes_forwarded_total", &[]),
    metric(
        "llm_d_router_epp_kv_cache_events_dedup_removed_hashes_suppressed_total",
        Counter,
        &[],
        "Removed blocks that were held back because a copy remains.",
    )
    .of("precise-prefix-cache-producer")
    .twin("kvcache_kvevents_dedup_removed_hashes_suppressed_total", &[]),
    metric(
        "llm_d_router_epp_kv_cache_events_messages_received_total",
        Counter,
        &["pod_identifier"],
        "Messages received from a server.",
    )
    .of("precise-prefix-cache-producer"),
    metric(
        "llm_d_router_epp_kv_cache_events_pool_capacity",
        Gauge,
        &[],
        "Messages that the event queues can hold.",
    )
    .of("precise-prefix-cache-producer"),
    metric("llm_d_router_epp_kv_cache_events_pool_queue_depth", Gauge, &[], "Messages in the event queues.")
        .of("precise-prefix-cache-producer"),
    metric(
        "llm_d_router_epp_kv_cache_events_removals_skipped_total",
        Counter,
        &["cache_kind", "reason"],
        "Removals of blocks that were not applied.",
    )
    .of("precise-prefix-cache-producer"),
    metric(
        "llm_d_router_epp_kv_cache_events_stores_skipped_total",
        Counter,
        &["cache_kind", "reason"],
        "Stores of blocks that were not applied.",
    )
    .of("precise-prefix-cache-producer"),
    metric(
        "llm_d_router_epp_kv_cache_events_subscriber_reconnections_total",
        Counter,
        &["pod_identifier"],
        "Times that a subscription was made anew.",
    )
    .of("precise-prefix-cache-producer"),
    metric(
        "llm_d_router_epp_kv_cache_events_zmq_errors_total",
        Counter,
        &["pod_identifier", "operation"],
        "Errors of a subscription's socket.",
    )
    .of("precise-prefix-cache-producer"),
    metric(
        "llm_d_router_epp_kv_cache_index_admissions_total",
        Counter,
        &[],
        "Blocks that entered the index.",
    )
    .of("precise-prefix-cache-producer")
    .twin("kvcache_index_admissions_total", &[]),
    metric("llm_d_router_epp_kv_cache_index_evictions_total", Counter, &[], "Blocks that left the index.")
        .of("precise-prefix-cache-producer")
        .twin("kvcache_index_evictions_total", &[]),
    metric("llm_d_router_epp_kv_cache_index_lookup_hits_total", Counter, &[], "Blocks found in the index.")
        .of("precise-prefix-cache-producer")
        .twin("kvcache_index_lookup_hits_total", &[]),
    metric(
        "llm_d_router_epp_kv_cache_index_lookup_latency_seconds",
        Histogram(DEFAULT),
        &[],
        "Time of one look-up in the index.",
    )
    .of("precise-prefix-cache-producer")
    .twin("kvcache_index_lookup_latency_seconds", &[]),
    metric("llm_d_router_epp_kv_cache_index_lookup_requests_total", Counter, &[], "Look-ups in the index.")
        .of("precise-prefix-cache-producer")
        .twin("kvcache_index_lookup_requests_total", &[]),
    metric(
        "llm_d_router_epp_kv_cache_index_max_pod_hit_count_total",
        Counter,
        &[],
        "Blocks of a look-up that the best server holds.",
    )
    .of("precise-prefix-cache-producer")
    .twin("kvcache_index_max_pod_hit_count_total", &[]),
    metric(
        "lockstep_endpoint_left_out",
        Gauge,
        &["endpoint", "reason"],
        "1 while an endpoint gets no requests: refused connections, or left polls unanswered.",
    )
    .of(PROXY),
    metric(
        "lockstep_kv_cache_events_dropped_total",
        Counter,
        &["plugin_name", "reason"],
        "KV events, or batches of them, that could not be taken.",
    )
    .of("precise-prefix-cache-producer"),
    metric("lockstep_kv_cache_index_blocks", Gauge, &["plugin_name"], "Blocks that any server holds.")
        .of("precise-prefix-cache-producer"),
    metric("lockstep_kv_cache_index_bytes", Gauge, &["plugin_name"], "Memory of the index of KV blocks.")
        .of("precise-prefix-cache-producer"),
    metric(
        "lockstep_requests_rerouted_total",
        Counter,
        &["reason"],
        "Requests that were routed anew because their endpoint refused them or fell silent.",
    )
    .of(PROXY),
];
