//! The options of an engine.

use thiserror::Error;

use super::Profile;

/// The order in which requests wait, and which one is preempted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulingPolicy {
    /// First come, first served; the last admitted is preempted.
    #[default]
    Fcfs,
    /// The smallest (priority, arrival, id) first; the greatest (priority, arrival) is preempted.
    Priority,
}

/// The options of an engine, under vLLM's names (model-server spec 5.1).
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig {
    /// The release whose behaviour the engine has.
    pub profile: Profile,
    /// Greatest number of running requests.
    pub max_num_seqs: u32,
    /// Token budget of a step.
    pub max_num_batched_tokens: u32,
    /// Tokens a KV block holds.
    pub block_size: u32,
    /// KV blocks, the null block included: one fewer can be used.
    pub num_gpu_blocks: u32,
    /// Greatest number of prompt and output tokens of a request.
    pub max_model_len: u32,
    /// A prompt may be computed over several steps.
    pub enable_chunked_prefill: bool,
    /// Blocks that were computed are found again by their hash.
    pub enable_prefix_caching: bool,
    /// Greatest number of tokens of one request in a step; 0 is no cap.
    pub long_prefill_token_threshold: u32,
    /// Order of waiting and of preemption.
    pub policy: SchedulingPolicy,
    /// Two batches are in flight, the second scheduled before the first one's tokens are known.
    pub async_scheduling: bool,
    /// A request is admitted only when its whole prompt has room, not just its first chunk.
    pub scheduler_reserve_full_isl: bool,
    /// Distinct adapters in one step; `None` when LoRA is off, and then no limit is checked.
    pub max_loras: Option<u32>,
    /// Share of the blocks that admission leaves free while anything runs; read by releases since 0.25.
    pub watermark: f64,
    /// KV events are recorded.
    pub enable_kv_cache_events: bool,
}

/// An option that no vLLM would start with.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ConfigError {
    /// An option is outside its range.
    #[error("{option} is {value}; {least} to {most} are accepted")]
    OutOfRange {
        /// Its name.
        option: &'static str,
        /// Its value.
        value: u32,
        /// Its least value.
        least: u32,
        /// Its greatest value.
        most: u32,
    },
    /// The budget leaves running requests without a token.
    #[error("max_num_batched_tokens ({budget}) must be at least max_num_seqs ({seqs})")]
    BudgetBelowSeqs {
        /// `max_num_batched_tokens`.
        budget: u32,
        /// `max_num_seqs`.
        seqs: u32,
    },
    /// Without chunked prefill the longest prompt would wait for ever.
    #[error(
        "max_num_batched_tokens ({budget}) must be at least max_model_len ({len}) when chunked prefill is off"
    )]
    BudgetBelowModelLen {
        /// `max_num_batched_tokens`.
        budget: u32,
        /// `max_model_len`.
        len: u32,
    },
    /// The watermark is no share.
    #[error("watermark is {0}; it must be at least 0 and below 1")]
    Watermark(f64),
    /// The longest request does not fit into the KV blocks.
    #[error(
        "max_model_len is {len}, but {blocks} KV blocks of {block_size} tokens (one of them unused) hold only {} \
         tokens",
        (u64::from(*.blocks) - 1) * u64::from(*.block_size)
    )]
    KvCacheTooSmall {
        /// `max_model_len`.
        len: u32,
        /// `num_gpu_blocks`.
        blocks: u32,
        /// `block_size`.
        block_size: u32,
    },
}

impl EngineConfig {
    /// Returns vLLM's defaults for a server on a small GPU, with the given release, KV blocks and longest request.
    #[must_use]
    pub fn new(profile: Profile, num_gpu_blocks: u32, max_model_len: u32) -> Self {
        Self {
            profile,
            max_num_seqs: 256,
            max_num_batched_tokens: 2048,
            block_size: 16,
            num_gpu_blocks,
            max_model_len,
            enable_chunked_prefill: true,
            enable_prefix_caching: true,
            long_prefill_token_threshold: 0,
            policy: SchedulingPolicy::Fcfs,
            async_scheduling: profile.async_scheduling,
            scheduler_reserve_full_isl: profile.reserve_full_isl,
            max_loras: None,
            watermark: 0.0,
            enable_kv_cache_events: false,
        }
    }

    /// Returns these options on another release, with its defaults where it has other ones.
    #[must_use]
    pub fn of_release(self, profile: Profile) -> Self {
        Self {
            profile,
            async_scheduling: profile.async_scheduling,
            scheduler_reserve_full_isl: profile.reserve_full_isl,
            ..self
        }
    }

    /// Checks each option and those that depend on one another, as vLLM does before it starts.
    ///
    /// # Errors
    /// The first option that cannot be.
    pub fn check(&self) -> Result<(), ConfigError> {
        let ranges = [
            ("max_num_seqs", self.max_num_seqs, 1, 1 << 20),
            ("max_num_batched_tokens", self.max_num_batched_tokens, 1, 1 << 30),
            ("block_size", self.block_size, 1, 1 << 20),
            ("num_gpu_blocks", self.num_gpu_blocks, 2, 1 << 26),
            ("max_model_len", self.max_model_len, 2, 1 << 30),
            ("max_loras", self.max_loras.unwrap_or(1), 1, 1 << 20),
        ];
        for (option, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(ConfigError::OutOfRange { option, value, least, most });
            }
        }
        let budget = self.max_num_batched_tokens;
        if budget < self.max_num_seqs {
            return Err(ConfigError::BudgetBelowSeqs { budget, seqs: self.max_num_seqs });
        }
        if !self.enable_chunked_prefill && budget < self.max_model_len {
            return Err(ConfigError::BudgetBelowModelLen { budget, len: self.max_model_len });
        }
        if !(0.0..1.0).contains(&self.watermark) {
            return Err(ConfigError::Watermark(self.watermark));
        }
        Ok(())
    }

    /// Checks that the longest request fits into the KV blocks, as vLLM does before it starts.
    ///
    /// An engine does not insist on it; but a request that never fits waits for ever, and all behind it.
    ///
    /// # Errors
    /// The KV blocks are too few.
    pub fn check_capacity(&self) -> Result<(), ConfigError> {
        let Self { max_model_len: len, num_gpu_blocks: blocks, block_size, .. } = *self;
        if len.div_ceil(block_size.max(1)) < blocks {
            return Ok(());
        }
        Err(ConfigError::KvCacheTooSmall { len, blocks, block_size })
    }

    /// Blocks that admission leaves free while anything runs.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the floor of a share in [0, 1) of a u32 is a u32"
    )]
    pub(super) fn spare_blocks(&self) -> u32 {
        if self.profile.has_watermark {
            (self.watermark * f64::from(self.num_gpu_blocks)).floor() as u32
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests;
