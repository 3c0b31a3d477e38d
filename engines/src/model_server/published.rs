//! What an engine publishes: the values behind `/metrics`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use executor::Instant;

use super::generation::Tokens;
use super::histogram::Histogram;
use crate::engine::{EngineConfig, FinishReason, Gauges, Stats};

const TIME_TO_FIRST_TOKEN: [f64; 22] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];

const TOKEN_LATENCY: [f64; 19] = [
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];

const REQUEST_LATENCY: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];

const ITERATION_TOKENS: [f64; 13] =
    [1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

/// The values of an engine as of its last finished step (model-server spec 2.2): frozen while it rests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// Tokens a KV block.
    pub block_size: u32,
    /// KV blocks, the null block included.
    pub num_gpu_blocks: u32,
    /// Whether blocks are found again by their hash.
    pub enable_prefix_caching: bool,
    /// Gauges at the end of the last step.
    pub gauges: Gauges,
    /// Most requests that waited at the end of a step.
    pub peak_waiting: u64,
    /// Preemptions of requests that have had an output, or their end, since.
    pub preemptions: u64,
    /// Tokens looked up in the prefix cache.
    pub prefix_cache_queries: u64,
    /// Tokens found there.
    pub prefix_cache_hits: u64,
    /// Prompt tokens of requests that have their first token.
    pub prompt_tokens: u64,
    /// Of these, tokens found in the prefix cache.
    pub prompt_tokens_cached: u64,
    /// Tokens generated.
    pub generation_tokens: u64,
    /// Requests ended by a stop token or a stop string.
    pub stopped: u64,
    /// Requests ended by their length.
    pub length_limited: u64,
    /// Requests ended by their client.
    pub aborted: u64,
    /// Requests ended by a pause of the engine.
    pub aborted_by_engine: u64,
    /// How deep it sleeps: 0 awake, 1 with its weights offloaded, 2 with them discarded.
    pub sleep_level: u8,
    /// Latencies and sizes.
    pub histograms: Histograms,
}

/// The histograms of an engine, named as vLLM's (model-server spec 2.3). Times are in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are those of the series, the meanings in the table of the spec")]
pub struct Histograms {
    pub request_prompt_tokens: Histogram,
    pub request_generation_tokens: Histogram,
    pub iteration_tokens_total: Histogram,
    pub request_max_num_generation_tokens: Histogram,
    pub request_params_n: Histogram,
    pub request_params_max_tokens: Histogram,
    pub time_to_first_token_seconds: Histogram,
    pub inter_token_latency_seconds: Histogram,
    pub request_time_per_output_token_seconds: Histogram,
    pub e2e_request_latency_seconds: Histogram,
    pub request_queue_time_seconds: Histogram,
    pub request_inference_time_seconds: Histogram,
    pub request_prefill_time_seconds: Histogram,
    pub request_decode_time_seconds: Histogram,
    pub request_prefill_kv_computed_tokens: Histogram,
}

/// The life of a request, as far as it has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    pub(super) tokens: Tokens,
    pub(super) max_tokens: u32,
    pub(super) choices: u32,
    pub(super) arrived: Instant,
    pub(super) scheduled: Option<Instant>,
    /// Preemptions since its last output.
    pub(super) preemptions: u64,
    pub(super) first_token: Option<Instant>,
    pub(super) last_token: Option<Instant>,
}

/// [`Published`] as the engine's task and its front ends share it.
#[derive(Clone, Debug)]
pub struct Shared(Arc<Mutex<Published>>);

impl Shared {
    pub(super) fn new(config: &EngineConfig) -> Self {
        let usable = config.num_gpu_blocks.saturating_sub(1);
        Shared(Arc::new(Mutex::new(Published {
            block_size: config.block_size,
            num_gpu_blocks: config.num_gpu_blocks,
            enable_prefix_caching: config.enable_prefix_caching,
            gauges: Gauges { free_blocks: usable, ..Gauges::default() },
            histograms: Histograms::new(config.max_model_len),
            ..Published::default()
        })))
    }

    /// Locks the values. The lock is held for a few loads and stores, never across an await.
    pub fn lock(&self) -> MutexGuard<'_, Published> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Histograms {
    fn new(max_model_len: u32) -> Self {
        let tokens = || Histogram::of_tokens(max_model_len);
        let latency = || Histogram::new(REQUEST_LATENCY);
        Self {
            request_prompt_tokens: tokens(),
            request_generation_tokens: tokens(),
            iteration_tokens_total: Histogram::new(ITERATION_TOKENS),
            request_max_num_generation_tokens: tokens(),
            request_params_n: Histogram::new([1.0, 2.0, 5.0, 10.0, 20.0]),
            request_params_max_tokens: tokens(),
            time_to_first_token_seconds: Histogram::new(TIME_TO_FIRST_TOKEN),
            inter_token_latency_seconds: Histogram::new(TOKEN_LATENCY),
            request_time_per_output_token_seconds: Histogram::new(TOKEN_LATENCY),
            e2e_request_latency_seconds: latency(),
            request_queue_time_seconds: latency(),
            request_inference_time_seconds: latency(),
            request_prefill_time_seconds: latency(),
            request_decode_time_seconds: latency(),
            request_prefill_kv_computed_tokens: tokens(),
        }
    }
}

impl Published {
    /// Returns `vllm:num_requests_waiting`.
    pub fn waiting(&self) -> u64 {
        (self.gauges.waiting + self.gauges.skipped) as u64
    }

    pub(super) fn update(&mut self, stats: &Stats) {
        self.gauges = stats.gauges;
        self.peak_waiting = self.peak_waiting.max(self.waiting());
        self.prefix_cache_queries += stats.lookups.queries;
        self.prefix_cache_hits += stats.lookups.hits;
    }

    /// Counts a request's first token, with which its prompt is complete.
    pub(super) fn first_token(&mut self, request: &Lifetime, now: Instant) {
        self.prompt_tokens += u64::from(request.tokens.prompt);
        self.prompt_tokens_cached += u64::from(request.tokens.cached);
        self.histograms.time_to_first_token_seconds.observe_time(now.since(request.arrived));
    }

    /// Counts `tokens` tokens that came `gap` after the one before them.
    pub(super) fn next_tokens(&mut self, gap: Duration, tokens: u64) {
        self.histograms.inter_token_latency_seconds.observe_many(gap.as_secs_f64(), tokens);
    }

    /// Counts the tokens of a step that delivered any: prompts that it completed, and tokens generated.
    pub(super) fn step(&mut self, prompt_tokens: u64, generated: u64) {
        self.generation_tokens += generated;
        if generated > 0 {
            self.histograms.iteration_tokens_total.observe_many((prompt_tokens + generated) as f64, 1);
        }
    }

    /// Counts the end of a request that ended by itself.
    pub(super) fn finished(&mut self, reason: FinishReason, request: &Lifetime) {
        match reason {
            FinishReason::Stop => self.stopped += 1,
            FinishReason::Length => self.length_limited += 1,
        }
        let Tokens { prompt, cached, output } = request.tokens;
        let histograms = &mut self.histograms;
        histograms.request_prompt_tokens.observe(prompt);
        histograms.request_generation_tokens.observe(output);
        histograms.request_max_num_generation_tokens.observe(output);
        histograms.request_params_n.observe(request.choices);
        histograms.request_params_max_tokens.observe(request.max_tokens);
        histograms.request_prefill_kv_computed_tokens.observe(prompt.saturating_sub(cached));
        let (Some(scheduled), Some(first), Some(last)) =
            (request.scheduled, request.first_token, request.last_token)
        else {
            return;
        };
        let decode = last.since(first);
        histograms.e2e_request_latency_seconds.observe_time(last.since(request.arrived));
        histograms.request_queue_time_seconds.observe_time(scheduled.since(request.arrived));
        histograms.request_inference_time_seconds.observe_time(last.since(scheduled));
        histograms.request_prefill_time_seconds.observe_time(first.since(scheduled));
        histograms.request_decode_time_seconds.observe_time(decode);
        let per_token = decode.checked_div(output.saturating_sub(1)).unwrap_or_default();
        histograms.request_time_per_output_token_seconds.observe_time(per_token);
    }
}
