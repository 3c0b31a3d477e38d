//! Which requests run in the next step, and with how many tokens (model-server spec 5.4).

mod admission;
mod fused;
mod update;

use super::batch::{Batch, Row, RowKind};
use super::config::{EngineConfig, SchedulingPolicy};
use super::kv_cache::KvCache;
use super::metrics::{Gauges, Stats};
use super::profile::ResetDrops;
use super::request::{AddError, NewRequest, RequestId, Requests, Slot, Status};
use super::wait_queue::WaitQueue;

/// Which requests a schedule may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Running and waiting ones.
    #[default]
    All,
    /// Running ones.
    RunningOnly,
    /// None.
    Nothing,
}

/// The queues, the running list and the KV cache of an engine.
#[derive(Debug)]
pub(super) struct Scheduler {
    config: EngineConfig,
    requests: Requests,
    waiting: WaitQueue,
    /// Requests that an admission passed over, in releases that keep them apart.
    skipped: WaitQueue,
    /// Waiting requests that an admission passed over, wherever they stand.
    skipped_count: usize,
    /// In order of admission.
    running: Vec<Slot>,
    kv: KvCache,
    admission: Admission,
    fused: fused::Fused,
    /// A request ended since the last schedule: one more turn is due to tell.
    finish_to_announce: bool,
    schedules: u64,
    /// Counts since the last update.
    stats: Stats,
    /// Memory that one schedule or update uses and the next one reuses.
    scratch: Scratch,
}

#[derive(Debug, Default)]
struct Scratch {
    passed_over: Vec<Slot>,
    adapters: Vec<u32>,
    ended: Vec<Slot>,
}

impl Scheduler {
    pub(super) fn new(config: EngineConfig) -> Self {
        Self {
            waiting: WaitQueue::new(config.policy),
            skipped: WaitQueue::new(config.policy),
            skipped_count: 0,
            kv: KvCache::new(&config),
            config,
            requests: Requests::default(),
            running: Vec::new(),
            admission: Admission::All,
            fused: fused::Fused::default(),
            finish_to_announce: false,
            schedules: 0,
            stats: Stats::default(),
            scratch: Scratch::default(),
        }
    }

    pub(super) fn config(&self) -> &EngineConfig {
        &self.config
    }

    pub(super) fn kv(&self) -> &KvCache {
        &self.kv
    }

    pub(super) fn kv_mut(&mut self) -> &mut KvCache {
        &mut self.kv
    }

    pub(super) fn set_admission(&mut self, admission: Admission) {
        self.admission = admission;
    }

    /// Whether a request is left that the pause, if any, lets go on.
    pub(super) fn has_unfinished(&self) -> bool {
        match self.admission {
            Admission::All => !self.running.is_empty() || self.waiting.len() + self.skipped.len() > 0,
            Admission::RunningOnly => !self.running.is_empty(),
            Admission::Nothing => false,
        }
    }

    pub(super) fn has_finish_to_announce(&self) -> bool {
        self.finish_to_announce
    }

    pub(super) fn add(&mut self, request: NewRequest) -> Result<(), AddError> {
        self.check(&request)?;
        let slot = self.requests.insert(request);
        self.waiting.push(slot, &mut self.requests);
        Ok(())
    }

    fn check(&self, request: &NewRequest) -> Result<(), AddError> {
        let (tokens, limit) = (request.prompt_tokens, self.config.max_model_len);
        let expected = tokens / self.config.block_size;
        let got = request.block_hashes.len();
        if self.requests.find(request.id).is_some() {
            Err(AddError::Duplicate(request.id))
        } else if tokens == 0 {
            Err(AddError::EmptyPrompt)
        } else if tokens >= limit {
            Err(AddError::PromptTooLong { tokens, limit })
        } else if request.max_tokens == 0 {
            Err(AddError::NoOutput)
        } else if request.min_tokens > request.max_tokens {
            let NewRequest { min_tokens, max_tokens, .. } = *request;
            Err(AddError::MinTokens { min_tokens, max_tokens })
        } else if self.kv.caching() && got != expected as usize {
            Err(AddError::BlockHashes { expected, got })
        } else {
            Ok(())
        }
    }

    /// Ends a request; returns whether there was one called `id`.
    pub(super) fn abort(&mut self, id: RequestId) -> bool {
        let Some(slot) = self.requests.find(id) else { return false };
        if self.requests[slot].status == Status::Running {
            self.running.retain(|&running| running != slot);
        } else {
            self.leave_queue(slot);
        }
        self.kv.release(&mut self.requests[slot]);
        self.requests.remove(slot);
        self.finish_to_announce = true;
        true
    }

    /// Ends all requests in order of addition; returns their ids.
    pub(super) fn abort_all(&mut self) -> Vec<RequestId> {
        let slots = self.requests.in_order_of_addition();
        let ids: Vec<RequestId> = slots.into_iter().map(|slot| self.requests[slot].id).collect();
        // Releasing in this order is what decides the free order; leaving the queues first would not change it.
        for &id in &ids {
            self.abort(id);
        }
        ids
    }

    /// Fills `batch` with the next step.
    pub(super) fn schedule(&mut self, batch: &mut Batch) {
        self.schedules += 1;
        batch.clear(self.schedules);
        if self.fused.is_active() {
            return self.schedule_fused(batch);
        }
        let mut budget = match self.admission {
            Admission::Nothing => 0,
            _ => self.config.max_num_batched_tokens,
        };
        let threshold = self.threshold();
        self.schedule_running(batch, &mut budget, threshold);
        if batch.preempted.is_empty() && self.admission == Admission::All {
            self.admit(batch, &mut budget, threshold);
        }
        self.advance(batch);
        self.finish_to_announce = false;
    }

    /// The cap of tokens of one request in this step.
    fn threshold(&self) -> u32 {
        let lone = self.running.len() + self.waiting.len() + self.skipped.len() <= 1;
        match self.config.long_prefill_token_threshold {
            0 => u32::MAX,
            _ if lone && !self.config.profile.caps_lone_request => u32::MAX,
            threshold => threshold,
        }
    }

    fn schedule_running(&mut self, batch: &mut Batch, budget: &mut u32, threshold: u32) {
        let last_token = self.config.max_model_len - 1;
        let mut index = 0;
        while *budget > 0
            && let Some(&slot) = self.running.get(index)
        {
            let request = &self.requests[slot];
            // All its outputs are on their way already: the last one is predicted by length.
            let covered = request.placeholders > 0
                && request.computed + 2 >= request.limit.saturating_add(request.placeholders);
            let left = (request.known + request.placeholders).saturating_sub(request.computed);
            let room = last_token.saturating_sub(request.computed);
            let tokens = left.min(threshold).min(*budget).min(room);
            if covered || tokens == 0 {
                index += 1;
                continue;
            }
            let before = (request.computed, request.blocks.len() as u32);
            if !self.grow(slot, tokens, &mut index, batch, budget) {
                break;
            }
            batch.rows.push(self.row(slot, RowKind::Continued, tokens, before));
            *budget -= tokens;
            index += 1;
        }
    }

    /// Gives the running request at `index` room for `tokens` more, preempting others, or at last itself.
    ///
    /// Returns whether it still runs. `index` and `budget` follow the victims that leave the step.
    fn grow(
        &mut self,
        slot: Slot,
        tokens: u32,
        index: &mut usize,
        batch: &mut Batch,
        budget: &mut u32,
    ) -> bool {
        while !self.kv.grow(&mut self.requests[slot], tokens) {
            let place = self.victim();
            let victim = self.running.remove(place);
            if let Some(row) = batch.rows.iter().position(|row| row.slot == victim) {
                *budget += batch.rows.remove(row).tokens;
                *index -= 1;
            } else if place < *index && self.config.profile.idle_victim_moves_scan {
                *index -= 1;
            }
            self.preempt(victim);
            batch.preempted.push(self.requests[victim].id);
            if victim == slot {
                return false;
            }
        }
        true
    }

    /// The place in the running list of the request to preempt; something runs.
    fn victim(&self) -> usize {
        if self.config.policy == SchedulingPolicy::Fcfs {
            return self.running.len() - 1;
        }
        let key = |place: usize| {
            let request = &self.requests[self.running[place]];
            (request.priority, request.arrival)
        };
        // Of equal ones the first.
        (1..self.running.len()).fold(0, |worst, place| if key(place) > key(worst) { place } else { worst })
    }

    /// Sends a request that has left the running list back to wait, without anything it computed.
    fn preempt(&mut self, slot: Slot) {
        let request = &mut self.requests[slot];
        self.kv.release(request);
        request.status = Status::Preempted;
        request.computed = 0;
        request.preemptions += 1;
        if self.config.profile.defers_resumption {
            request.placeholders = 0;
        }
        self.stats.preemptions += 1;
        self.waiting.push_front(slot, &mut self.requests);
    }

    fn row(&self, slot: Slot, kind: RowKind, tokens: u32, (computed, blocks_before): (u32, u32)) -> Row {
        let request = &self.requests[slot];
        Row {
            request: request.id,
            kind,
            tokens,
            computed,
            samples: false,
            slot,
            serial: request.serial,
            blocks_before,
        }
    }

    /// Counts the tokens of `batch` as computed and the outputs it will bring as on their way.
    fn advance(&mut self, batch: &mut Batch) {
        for row in &mut batch.rows {
            let request = &mut self.requests[row.slot];
            request.computed += row.tokens;
            row.samples = request.computed >= request.known + request.placeholders;
            if row.samples {
                request.in_flight += 1;
                request.placeholders += u32::from(self.config.async_scheduling);
            }
            row.add_to(&mut batch.work, request);
        }
    }

    /// Preempts all running requests, the last first; returns their ids in that order.
    pub(super) fn preempt_all(&mut self) -> Vec<RequestId> {
        let mut preempted = Vec::with_capacity(self.running.len());
        while let Some(slot) = self.running.pop() {
            self.preempt(slot);
            let request = &mut self.requests[slot];
            request.placeholders = 0;
            if self.config.async_scheduling {
                request.discards = match self.config.profile.reset_drops {
                    ResetDrops::Next => 1,
                    ResetDrops::InFlight => request.in_flight,
                };
            }
            preempted.push(request.id);
        }
        preempted
    }

    /// Drops the prefix cache if no block is in use; returns whether it did.
    pub(super) fn reset_prefix_cache(&mut self) -> bool {
        let done = self.kv.reset();
        self.stats.reset |= done;
        done
    }

    pub(super) fn gauges(&self) -> Gauges {
        let pool = self.kv.pool();
        Gauges {
            running: self.running.len(),
            waiting: self.waiting.len() + self.skipped.len() - self.skipped_count,
            skipped: self.skipped_count,
            free_blocks: pool.free(),
            usage: 1.0 - f64::from(pool.free()) / f64::from(pool.usable()),
        }
    }

    pub(super) fn running(&self) -> impl Iterator<Item = RequestId> {
        self.running.iter().map(|&slot| self.requests[slot].id)
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = RequestId> {
        self.waiting.iter(&self.requests)
    }

    pub(super) fn skipped(&self) -> impl Iterator<Item = RequestId> {
        self.skipped.iter(&self.requests)
    }

    /// The blocks that `row`'s request got for its step; nothing if it has ended since.
    pub(super) fn new_blocks(&self, row: &Row) -> &[super::BlockId] {
        let request = &self.requests[row.slot];
        let blocks = if request.serial == row.serial { request.blocks.as_slice() } else { &[] };
        blocks.get(row.blocks_before as usize..).unwrap_or_default()
    }
}
