//! What differs between releases of vLLM, for a text request without connectors or speculation.

/// Where a block that carries no hash goes when its last reference is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnhashedBlocks {
    /// Behind all others, as cached blocks do.
    Tail,
    /// In front of all others, to be used next.
    Head,
    /// In front with prefix caching, behind without.
    HeadWithCaching,
}

/// When an asynchronous turn goes on to the next one without waiting for its oldest batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoOn {
    /// The queue has room and the turn's batch is not empty.
    Executed,
    /// The queue has room, and the turn's batch is not empty or a request is unfinished or just finished.
    HasRequests,
}

/// Which outputs a running request loses when it is preempted to reset the prefix cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetDrops {
    /// The next one that arrives, in flight or not (model-server spec 5.6, a defect of the release).
    Next,
    /// Those in flight.
    InFlight,
}

/// The behaviour of one release of vLLM (model-server spec 5.9, 10).
///
/// A profile names how the engine behaves where releases differ, and which options they have switched on by default.
/// `VLLM_0_21` is the release that the llm-d Router v0.10.0 is deployed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    name: &'static str,
    pub(super) async_scheduling: bool,
    pub(super) reserve_full_isl: bool,
    pub(super) unhashed_blocks: UnhashedBlocks,
    pub(super) go_on: GoOn,
    pub(super) reset_drops: ResetDrops,
    /// A turn that executed nothing is followed by a pause of 1 ms also while a finish waits to be announced.
    pub(super) polls_after_finish: bool,
    /// The prefix look-up of a request that is then refused counts in the statistics.
    pub(super) counts_refused_lookups: bool,
    /// A preempted request is passed over until its outputs in flight have arrived.
    pub(super) defers_resumption: bool,
    /// `watermark` is read.
    pub(super) has_watermark: bool,
    /// Requests that were passed over wait in a queue of their own, which is looked at first.
    pub(super) has_skipped_queue: bool,
    /// `long_prefill_token_threshold` holds also for a request that is alone.
    pub(super) caps_lone_request: bool,
    /// Below `min_tokens` nothing ends a request, not even its length.
    pub(super) min_tokens_first: bool,
    /// A victim that stands before the request being scheduled moves the scan back although it holds no tokens of
    /// the step.
    pub(super) idle_victim_moves_scan: bool,
}

impl Profile {
    /// vLLM 0.10: one waiting queue, synchronous, admits a prompt whose first chunk fits.
    ///
    /// Only what model-server spec 10 lists is known of it; in everything else it is 0.21.
    pub const VLLM_0_10: Self =
        Self { name: "vllm-0.10", async_scheduling: false, reserve_full_isl: false, ..Self::VLLM_0_21 };

    /// vLLM 0.21, the default.
    pub const VLLM_0_21: Self = Self {
        name: "vllm-0.21",
        async_scheduling: true,
        reserve_full_isl: true,
        unhashed_blocks: UnhashedBlocks::Tail,
        go_on: GoOn::Executed,
        reset_drops: ResetDrops::Next,
        polls_after_finish: false,
        counts_refused_lookups: true,
        defers_resumption: false,
        has_watermark: false,
        has_skipped_queue: true,
        caps_lone_request: true,
        min_tokens_first: true,
        idle_victim_moves_scan: false,
    };

    /// vLLM 0.25.
    pub const VLLM_0_25: Self = Self {
        name: "vllm-0.25",
        unhashed_blocks: UnhashedBlocks::Head,
        go_on: GoOn::HasRequests,
        reset_drops: ResetDrops::InFlight,
        polls_after_finish: true,
        has_watermark: true,
        ..Self::VLLM_0_21
    };

    /// vLLM 0.27.
    pub const VLLM_0_27: Self = Self {
        name: "vllm-0.27",
        unhashed_blocks: UnhashedBlocks::HeadWithCaching,
        counts_refused_lookups: false,
        defers_resumption: true,
        ..Self::VLLM_0_25
    };

    /// vLLM 0.32.
    pub const VLLM_0_32: Self = Self {
        name: "vllm-0.32",
        unhashed_blocks: UnhashedBlocks::Head,
        has_skipped_queue: false,
        caps_lone_request: false,
        min_tokens_first: false,
        idle_victim_moves_scan: true,
        ..Self::VLLM_0_27
    };

    /// vLLM 0.33, which schedules as 0.32 does.
    pub const VLLM_0_33: Self = Self { name: "vllm-0.33", ..Self::VLLM_0_32 };

    /// All profiles, oldest first.
    pub const ALL: [Self; 6] = [
        Self::VLLM_0_10,
        Self::VLLM_0_21,
        Self::VLLM_0_25,
        Self::VLLM_0_27,
        Self::VLLM_0_32,
        Self::VLLM_0_33,
    ];

    /// The profile called `name`, such as `vllm-0.21`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }

    /// The name of the profile.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::VLLM_0_21
    }
}
