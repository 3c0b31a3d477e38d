//! What an engine publishes: the values behind `/metrics`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::{EngineConfig, FinishReason, Gauges, Stats};

use super::generation::Tokens;

/// The values of an engine as of its last finished step (model-server spec 2.2): frozen while it rests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Published {
    /// Tokens a KV block.
    pub block_size: u32,
    /// KV blocks, the null block included.
    pub num_gpu_blocks: u32,
    /// Gauges at the end of the last step.
    pub gauges: Gauges,
    /// Most requests that waited at the end of a step.
    pub peak_waiting: u64,
    /// Requests that left the waiting queue by being preempted.
    pub preemptions: u64,
    /// Tokens looked up in the prefix cache.
    pub prefix_cache_queries: u64,
    /// Tokens found there.
    pub prefix_cache_hits: u64,
    /// Prompt tokens of requests that have their first token.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generation_tokens: u64,
    /// Requests ended by a stop token.
    pub stopped: u64,
    /// Requests ended by their length.
    pub length_limited: u64,
    /// Requests ended by their client.
    pub aborted: u64,
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
            gauges: Gauges { free_blocks: usable, ..Gauges::default() },
            ..Published::default()
        })))
    }

    /// Locks the values. The lock is held for a few loads and stores, never across an await.
    pub fn lock(&self) -> MutexGuard<'_, Published> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.preemptions += stats.preemptions;
        self.prefix_cache_queries += stats.lookups.queries;
        self.prefix_cache_hits += stats.lookups.hits;
    }

    /// Counts a request's first token, with which its prompt is complete.
    pub(super) fn first_token(&mut self, prompt_tokens: u32) {
        self.prompt_tokens += u64::from(prompt_tokens);
    }

    pub(super) fn finished(&mut self, reason: FinishReason, tokens: Tokens) {
        self.generation_tokens += u64::from(tokens.output);
        match reason {
            FinishReason::Stop => self.stopped += 1,
            FinishReason::Length => self.length_limited += 1,
        }
    }
}
