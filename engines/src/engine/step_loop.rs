//! The loop around scheduler and model: turns, batches in flight, pause and reset.

use std::collections::VecDeque;
use std::ops::Range;

use super::batch::{Batch, Row};
use super::block_pool::BlockId;
use super::config::{ConfigError, EngineConfig};
use super::events::KvEvents;
use super::metrics::{Gauges, Stats};
use super::profile::GoOn;
use super::request::{AddError, BlockHash, NewRequest, Output, RequestId, Token};
use super::scheduler::{Admission, Scheduler};

/// Batches in flight with asynchronous scheduling.
const QUEUE: usize = 2;

/// What the simulated model says.
pub trait Model {
    /// Samples the token at output `position`, from 0, of `request`.
    ///
    /// Called once for each token that becomes part of the request, in order. Positions count up by one, except that
    /// one is left out where the engine throws an output away (model-server spec 5.6).
    fn sample(&mut self, request: RequestId, position: u32) -> Token;

    /// Hashes the full block number `block` of `request`, which the token sampled last completed.
    ///
    /// `parent` is the hash of the block before it.
    fn hash_block(&mut self, request: RequestId, block: u32, parent: Option<BlockHash>) -> BlockHash;

    /// Whether nobody looks at single tokens of `request`, from the next one on: its steps may be fused.
    ///
    /// A fused step does not list its tokens, [`Update::unlisted`] counts them: one of each running request.
    fn is_silent(&self, _request: RequestId) -> bool {
        false
    }

    /// Samples the tokens at `positions`, in order, of a silent request, which fused steps before this one brought.
    fn skip(&mut self, request: RequestId, positions: Range<u32>) {
        for position in positions {
            self.sample(request, position);
        }
    }
}

/// What the loop does after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Take in what has arrived, and turn again at once.
    Turn,
    /// Wait until the oldest batch has run, apply the aborts that have arrived, and complete it.
    Complete,
    /// Wait for something to arrive.
    Rest,
}

/// The outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The turn scheduled a batch, which may be empty: [`Engine::newest`].
    pub scheduled: bool,
    /// What is to be done now.
    pub next: Next,
}

/// The outcome of a batch.
#[derive(Debug)]
pub struct Update<'a> {
    /// The number of the batch.
    pub batch: u64,
    /// Its tokens, in the order of its rows.
    pub outputs: &'a [Output],
    /// Tokens that are not listed: none, or one of each running request.
    pub unlisted: usize,
    /// KV events since the last update.
    pub events: &'a KvEvents,
    /// Gauges now, and counts since the last update.
    pub stats: Stats,
}

/// What happens to the requests in an engine that is paused (model-server spec 6.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMode {
    /// All are aborted.
    Abort,
    /// Running ones go on to their end.
    Wait,
    /// All stay as they are.
    Keep,
}

/// The answer to a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paused {
    /// Requests that were aborted, in order of addition.
    pub aborted: Vec<RequestId>,
    /// The pause is complete; else a later [`Engine::settle`] completes it.
    pub done: bool,
    /// Requests that were preempted to clear the cache.
    pub preempted: Vec<RequestId>,
}

/// The answer to a reset of the prefix cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reset {
    /// The cache is empty now; false if a block was in use.
    pub done: bool,
    /// Requests that were preempted for it, in that order.
    pub preempted: Vec<RequestId>,
}

/// A vLLM engine core without a model.
///
/// Deterministic: equal calls give equal answers. A step takes no memory once its buffers have grown to the size of
/// the batch.
#[derive(Debug)]
pub struct Engine {
    scheduler: Scheduler,
    /// Batches that were scheduled and not completed, the oldest first.
    in_flight: VecDeque<Batch>,
    spare: Vec<Batch>,
    /// The last turn scheduled a batch that was not empty.
    executed: bool,
    /// Pauses that wait for the engine to come to rest, and whether they clear the cache.
    pauses: VecDeque<bool>,
    outputs: Vec<Output>,
    events: KvEvents,
    fuses: bool,
}

impl Engine {
    /// Returns an engine without requests.
    ///
    /// # Errors
    /// The configuration fails [`EngineConfig::check`].
    pub fn new(config: EngineConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            scheduler: Scheduler::new(config),
            in_flight: VecDeque::with_capacity(QUEUE),
            spare: Vec::with_capacity(QUEUE),
            executed: false,
            pauses: VecDeque::new(),
            outputs: Vec::new(),
            events: KvEvents::default(),
            fuses: true,
        })
    }

    /// Says whether steps of silent requests are fused, as they are at first; the outcome is the same.
    pub fn set_fusion(&mut self, fuses: bool) {
        self.unfuse();
        self.fuses = fuses;
    }

    /// Asks `model` for all tokens that fused steps brought, see [`Model::skip`].
    ///
    /// To be called where a model's view of a request is read between steps.
    pub fn catch_up(&mut self, model: &mut impl Model) {
        self.unfuse();
        self.scheduler.sample_skipped(model);
    }

    fn unfuse(&mut self) {
        if self.scheduler.is_fused() {
            self.scheduler.unfuse(self.in_flight.iter_mut());
        }
    }

    /// The options of the engine.
    #[must_use]
    pub fn config(&self) -> &EngineConfig {
        self.scheduler.config()
    }

    /// Lets a request in, to be scheduled from the next turn on.
    ///
    /// # Errors
    /// vLLM's front end would have refused the request.
    pub fn add(&mut self, request: NewRequest) -> Result<(), AddError> {
        self.unfuse();
        self.scheduler.add(request)
    }

    /// Ends a request without further output and frees its blocks; a batch in flight that holds it goes on.
    ///
    /// Returns whether a request called `id` was in the engine.
    pub fn abort(&mut self, id: RequestId) -> bool {
        self.unfuse();
        self.scheduler.abort(id)
    }

    /// Ends all requests in order of addition; returns their ids.
    pub fn abort_all(&mut self) -> Vec<RequestId> {
        self.unfuse();
        self.scheduler.abort_all()
    }

    /// Whether a turn would do anything: schedule, or wait for a batch in flight.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.has_requests() || !self.in_flight.is_empty()
    }

    /// Whether a turn would schedule: a request is left that may go on, or the end of one is to be announced.
    #[must_use]
    pub fn has_requests(&self) -> bool {
        self.scheduler.has_unfinished() || self.scheduler.has_finish_to_announce()
    }

    /// Takes one turn of the loop: schedules if there is anything to schedule or a finish to announce.
    ///
    /// An empty batch needs no time: it is done once the batches before it are.
    /// After [`Next::Complete`] the caller must call [`Engine::complete`] before the next turn.
    pub fn turn(&mut self) -> Turn {
        self.executed = false;
        let scheduled = self.has_requests();
        if scheduled {
            let mut batch = self.spare.pop().unwrap_or_default();
            self.scheduler.schedule(&mut batch);
            self.executed = !batch.is_empty();
            self.in_flight.push_back(batch);
            if self.goes_on() {
                return Turn { scheduled, next: Next::Turn };
            }
        }
        let next = if self.in_flight.is_empty() { Next::Rest } else { Next::Complete };
        Turn { scheduled, next }
    }

    fn goes_on(&self) -> bool {
        if !self.config().async_scheduling || self.in_flight.len() >= QUEUE {
            return false;
        }
        match self.config().profile.go_on {
            GoOn::Executed => self.executed,
            GoOn::HasRequests => self.executed || self.has_requests(),
        }
    }

    /// The batch scheduled last.
    #[must_use]
    pub fn newest(&self) -> Option<&Batch> {
        self.in_flight.back()
    }

    /// The batch that [`Engine::complete`] will complete.
    #[must_use]
    pub fn next_to_complete(&self) -> Option<&Batch> {
        self.in_flight.front()
    }

    /// Completes the oldest batch with the tokens of `model`.
    ///
    /// # Panics
    /// If no batch is in flight.
    pub fn complete(&mut self, model: &mut impl Model) -> Update<'_> {
        let batch = self.in_flight.pop_front().expect("complete follows a turn that said so");
        let unlisted = self.scheduler.update(&batch, model, &mut self.outputs);
        self.events.clear();
        self.scheduler.kv_mut().swap_events(&mut self.events);
        let number = batch.number();
        self.spare.push(batch);
        let stats = self.scheduler.take_stats();
        if self.scheduler.is_fused() {
            if !self.scheduler.fusion_may_go_on() {
                self.catch_up(model);
            }
        } else if self.fuses {
            self.scheduler.fuse(self.in_flight.front(), &self.outputs, model);
        }
        Update { batch: number, outputs: &self.outputs, unlisted, events: &self.events, stats }
    }

    /// Whether the loop sleeps for 1 ms after this turn, because it executed nothing and requests are left.
    ///
    /// To be asked after every turn: after its completion where it asked for one, and also where the next turn
    /// follows at once.
    #[must_use]
    pub fn polls(&self) -> bool {
        let announces = self.config().profile.polls_after_finish && self.scheduler.has_finish_to_announce();
        !self.executed && (self.scheduler.has_unfinished() || announces)
    }

    /// Whether the last turn scheduled any token.
    #[must_use]
    pub fn executed(&self) -> bool {
        self.executed
    }

    /// Restricts what is scheduled from the next turn on.
    pub fn set_admission(&mut self, admission: Admission) {
        self.unfuse();
        self.scheduler.set_admission(admission);
    }

    /// Pauses the engine; with `clear_cache` it drops the prefix cache once it has come to rest.
    pub fn pause(&mut self, mode: PauseMode, clear_cache: bool) -> Paused {
        let aborted = if mode == PauseMode::Abort { self.abort_all() } else { Vec::new() };
        self.set_admission(if mode == PauseMode::Keep { Admission::Nothing } else { Admission::RunningOnly });
        if self.has_work() {
            self.pauses.push_back(clear_cache);
            return Paused { aborted, done: false, preempted: Vec::new() };
        }
        let preempted = if clear_cache { self.reset_prefix_cache(true).preempted } else { Vec::new() };
        Paused { aborted, done: true, preempted }
    }

    /// Lets a paused engine go on.
    pub fn resume(&mut self) {
        self.set_admission(Admission::All);
    }

    /// Completes the oldest pause that waits for the engine to come to rest, if it has; returns who was preempted.
    ///
    /// The loop calls it until it returns `None` whenever it finds no work, before it waits for input.
    pub fn settle(&mut self) -> Option<Vec<RequestId>> {
        if self.has_work() {
            return None;
        }
        let clear_cache = self.pauses.pop_front()?;
        Some(if clear_cache { self.reset_prefix_cache(true).preempted } else { Vec::new() })
    }

    /// Drops the prefix cache if no block is in use; with `preempt_running` all running requests are preempted first.
    pub fn reset_prefix_cache(&mut self, preempt_running: bool) -> Reset {
        self.unfuse();
        let preempted = if preempt_running { self.scheduler.preempt_all() } else { Vec::new() };
        Reset { done: self.scheduler.reset_prefix_cache(), preempted }
    }

    /// The gauges at this moment; vLLM publishes those of the last [`Update`].
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.scheduler.gauges()
    }

    /// The running requests in order of admission.
    pub fn running(&self) -> impl Iterator<Item = RequestId> {
        self.scheduler.running()
    }

    /// The waiting requests in their order, without those in the queue of [`Engine::skipped`].
    pub fn waiting(&self) -> impl Iterator<Item = RequestId> {
        self.scheduler.waiting()
    }

    /// The requests that were passed over, in releases that keep them in a queue of their own.
    pub fn skipped(&self) -> impl Iterator<Item = RequestId> {
        self.scheduler.skipped()
    }

    /// The blocks that a row of the newest batch got: all of an admitted request, further ones of another.
    ///
    /// Valid until the batch's requests are scheduled again, preempted or ended.
    #[must_use]
    pub fn new_blocks(&self, row: &Row) -> &[BlockId] {
        self.scheduler.new_blocks(row)
    }

    /// Records changes of the prefix cache from now on, as with `enable_kv_cache_events`.
    pub fn record_kv_events(&mut self) {
        self.scheduler.kv_mut().record_events();
    }

    /// The hashes of all blocks that the prefix cache finds, sorted.
    #[must_use]
    pub fn cached_blocks(&self) -> Vec<BlockHash> {
        self.scheduler.kv().pool().hashes()
    }

    /// The free blocks, the next to be handed out first.
    pub fn free_queue(&self) -> impl Iterator<Item = BlockId> {
        self.scheduler.kv().pool().free_queue()
    }
}
