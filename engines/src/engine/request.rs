//! Requests: what comes in, what goes out, and the state between.

use rustc_hash::FxHashMap;
use std::ops::{Index, IndexMut};
use thiserror::Error;

use super::block_pool::BlockId;

/// The driver's name of a request.
///
/// Under [`SchedulingPolicy::Priority`](super::SchedulingPolicy::Priority) the smaller id wins where priority and
/// arrival are equal, as the order of the text ids decides in vLLM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A token id of the model's vocabulary.
pub type Token = u32;

/// The integer id of a LoRA adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterId(pub u32);

/// The hash of a full block, of its tokens, extra keys and all blocks before it.
///
/// It is the integer that vLLM's KV events carry, the low 64 bits of the digest. The engine only compares it: any
/// function that gives equal hashes for equal (parent, tokens, extra keys), and no others, serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockHash(pub u64);

/// A request as it enters the engine.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRequest {
    /// Its name; no two requests in the engine have the same.
    pub id: RequestId,
    /// Tokens of the prompt.
    pub prompt_tokens: u32,
    /// Hashes of the prompt's full blocks, from the start; exactly `prompt_tokens / block_size` of them with prefix
    /// caching, else ignored.
    pub block_hashes: Vec<BlockHash>,
    /// Greatest number of output tokens; vLLM's front end keeps it to what `max_model_len` leaves.
    pub max_tokens: u32,
    /// Output tokens below which the request does not end; up to 0.27 it stalls if `max_model_len` comes first.
    pub min_tokens: u32,
    /// The token that ends the request; `None` is `ignore_eos`.
    pub eos: Option<Token>,
    /// Further tokens that end the request.
    pub stop_tokens: Vec<Token>,
    /// Smaller is served first.
    pub priority: i64,
    /// Any growing count, such as nanoseconds; decides between equal priorities.
    pub arrival: u64,
    /// The adapter it needs.
    pub adapter: Option<AdapterId>,
}

impl NewRequest {
    /// Returns a request for `max_tokens` output tokens, without hashes, stop tokens, priority or adapter.
    #[must_use]
    pub fn new(id: RequestId, prompt_tokens: u32, max_tokens: u32) -> Self {
        Self {
            id,
            prompt_tokens,
            block_hashes: Vec::new(),
            max_tokens,
            min_tokens: 0,
            eos: None,
            stop_tokens: Vec::new(),
            priority: 0,
            arrival: 0,
            adapter: None,
        }
    }
}

/// A request that vLLM's front end would not have let through.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddError {
    /// The id is in use.
    #[error("a request with id {} is in the engine already", .0.0)]
    Duplicate(RequestId),
    /// The prompt is empty.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt leaves no room for an output token.
    #[error("the prompt has {tokens} tokens; max_model_len {limit} allows at most {}", .limit - 1)]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: u32,
        /// `max_model_len`.
        limit: u32,
    },
    /// No output token is asked for.
    #[error("max_tokens is 0; at least 1 is needed")]
    NoOutput,
    /// The request could not end.
    #[error("min_tokens is {min_tokens}; max_tokens {max_tokens} is the most")]
    MinTokens {
        /// `min_tokens`.
        min_tokens: u32,
        /// `max_tokens`.
        max_tokens: u32,
    },
    /// The hashes do not cover the prompt's full blocks.
    #[error("{got} block hashes for a prompt of {expected} full blocks")]
    BlockHashes {
        /// `prompt_tokens / block_size`.
        expected: u32,
        /// Hashes given.
        got: usize,
    },
}

/// Why a request ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// EOS or a stop token.
    Stop,
    /// `max_tokens` or `max_model_len`.
    Length,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finish {
    /// Why it ended.
    pub reason: FinishReason,
    /// The stop token that ended it; `None` for EOS and length.
    pub stop_token: Option<Token>,
}

/// One output token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// The request.
    pub request: RequestId,
    /// Its token.
    pub token: Token,
    /// Set on the last token.
    pub finish: Option<Finish>,
}

/// The place of a request in [`Requests`].
pub(super) type Slot = u32;

/// No slot.
pub(super) const NO_SLOT: Slot = Slot::MAX;

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// The slot holds no request.
    Vacant,
    Waiting,
    Running,
    /// Waits after it ran.
    Preempted,
    /// Ended in the update at work.
    Ended,
}

/// A request in the engine.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: RequestId,
    /// Counts additions, so that a row of a batch knows the request it was scheduled for.
    pub(super) serial: u64,
    pub(super) status: Status,
    /// P.
    pub(super) prompt: u32,
    /// P + O: tokens whose value is known.
    pub(super) known: u32,
    /// Tokens whose KV is written by scheduled work.
    pub(super) computed: u32,
    /// Tokens scheduled to be sampled whose values are unknown; with asynchronous scheduling only.
    pub(super) placeholders: u32,
    /// Outputs that batches in flight will bring.
    pub(super) in_flight: u32,
    /// Outputs to throw away as they arrive.
    pub(super) discards: u32,
    pub(super) preemptions: u32,
    /// Output tokens known to be there that the model was not asked for yet.
    pub(super) unsampled: u32,
    /// P + `max_tokens`.
    pub(super) limit: u32,
    pub(super) min_tokens: u32,
    /// Blocks that carry their hash, from the start.
    pub(super) cached_blocks: u32,
    pub(super) blocks: Vec<BlockId>,
    /// Hashes of all full blocks of known tokens.
    pub(super) hashes: Vec<BlockHash>,
    pub(super) eos: Option<Token>,
    pub(super) stop_tokens: Vec<Token>,
    pub(super) priority: i64,
    pub(super) arrival: u64,
    pub(super) adapter: Option<AdapterId>,
    /// An admission passed it over and none has taken it since.
    pub(super) skipped: bool,
    /// Neighbours in a first-come queue.
    pub(super) previous: Slot,
    pub(super) next: Slot,
}

impl Request {
    fn vacant() -> Self {
        Self {
            id: RequestId(0),
            serial: 0,
            status: Status::Vacant,
            prompt: 0,
            known: 0,
            computed: 0,
            placeholders: 0,
            in_flight: 0,
            discards: 0,
            preemptions: 0,
            unsampled: 0,
            limit: 0,
            min_tokens: 0,
            cached_blocks: 0,
            blocks: Vec::new(),
            hashes: Vec::new(),
            eos: None,
            stop_tokens: Vec::new(),
            priority: 0,
            arrival: 0,
            adapter: None,
            skipped: false,
            previous: NO_SLOT,
            next: NO_SLOT,
        }
    }

    /// O.
    pub(super) fn outputs(&self) -> u32 {
        self.known - self.prompt
    }
}

/// All requests in the engine; a finished one's slot, with its block table's memory, serves the next.
#[derive(Debug, Default)]
pub(super) struct Requests {
    slots: Vec<Request>,
    vacant: Vec<Slot>,
    by_id: FxHashMap<RequestId, Slot>,
    added: u64,
}

impl Requests {
    /// Adds a waiting request whose fields were checked; its id must be free.
    pub(super) fn insert(&mut self, new: NewRequest) -> Slot {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Request::vacant());
            Slot::try_from(self.slots.len() - 1).expect("memory ends before 2^32 requests do")
        });
        self.added += 1;
        self.by_id.insert(new.id, slot);
        let blocks = std::mem::take(&mut self.slots[slot as usize].blocks);
        self.slots[slot as usize] = Request {
            id: new.id,
            serial: self.added,
            status: Status::Waiting,
            prompt: new.prompt_tokens,
            known: new.prompt_tokens,
            limit: new.prompt_tokens.saturating_add(new.max_tokens),
            min_tokens: new.min_tokens,
            blocks,
            hashes: new.block_hashes,
            eos: new.eos,
            stop_tokens: new.stop_tokens,
            priority: new.priority,
            arrival: new.arrival,
            adapter: new.adapter,
            ..Request::vacant()
        };
        slot
    }

    /// Forgets a request that holds no block and stands in no queue.
    pub(super) fn remove(&mut self, slot: Slot) {
        let request = &mut self.slots[slot as usize];
        debug_assert!(request.blocks.is_empty(), "a request keeps its blocks past its end");
        request.status = Status::Vacant;
        request.hashes = Vec::new();
        request.stop_tokens = Vec::new();
        self.by_id.remove(&request.id);
        self.vacant.push(slot);
    }

    /// The slot of the request called `id`.
    pub(super) fn find(&self, id: RequestId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    /// The request that had `serial` in `slot`, if it is still unfinished.
    pub(super) fn unfinished(&mut self, slot: Slot, serial: u64) -> Option<&mut Request> {
        let request = &mut self.slots[slot as usize];
        let live = request.serial == serial && !matches!(request.status, Status::Vacant | Status::Ended);
        live.then_some(request)
    }

    /// Slots of all requests in order of addition.
    pub(super) fn in_order_of_addition(&self) -> Vec<Slot> {
        let mut slots: Vec<(u64, Slot)> = (0..)
            .zip(&self.slots)
            .filter(|(_, request)| request.status != Status::Vacant)
            .map(|(slot, request)| (request.serial, slot))
            .collect();
        slots.sort_unstable();
        slots.into_iter().map(|(_, slot)| slot).collect()
    }
}

impl Index<Slot> for Requests {
    type Output = Request;

    fn index(&self, slot: Slot) -> &Request {
        &self.slots[slot as usize]
    }
}

impl IndexMut<Slot> for Requests {
    fn index_mut(&mut self, slot: Slot) -> &mut Request {
        &mut self.slots[slot as usize]
    }
}
