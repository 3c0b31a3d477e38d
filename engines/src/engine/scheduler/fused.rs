//! Steps whose batch cannot change, taken without a look at each row (architecture 5).
//!
//! While nothing waits and every running request decodes one token a step, a step changes a request only where it
//! needs a block, fills one, or ends. The step of that change is known beforehand: until then the request is a base
//! and two counts of steps. A change that alters the batch ends the fusion before it.

use super::Scheduler;
use crate::engine::batch::{Batch, Row, RowKind};
use crate::engine::config::EngineConfig;
use crate::engine::latency::StepBatch;
use crate::engine::request::{Output, Request, Status};
use crate::engine::step_loop::Model;

/// Steps below which a fusion costs more than it saves.
const WORTH_IT: u32 = 3;

/// The running requests as of the first fused step, and the steps since.
#[derive(Debug, Default)]
pub(super) struct Fused {
    active: bool,
    bases: Vec<Base>,
    /// The fused schedule in which each request next needs a block, or stores a full one.
    store_at: Vec<u32>,
    /// The fused update in which each request next fills a block.
    fill_at: Vec<u32>,
    /// The last step before the first request ends.
    last: u32,
    schedules: u32,
    updates: u32,
    work: StepBatch,
}

#[derive(Clone, Copy, Debug)]
struct Base {
    known: u32,
    computed: u32,
    /// Output tokens that the model was asked for.
    sampled: u32,
}

impl Fused {
    pub(super) fn is_active(&self) -> bool {
        self.active
    }
}

impl Scheduler {
    /// Begins a fusion after an update, if the next steps allow it.
    ///
    /// `next` is the batch in flight, `outputs` are those of the update: both must consist of all running requests,
    /// in their order, each with one token that the model says nobody looks at.
    pub(in crate::engine) fn fuse(&mut self, next: Option<&Batch>, outputs: &[Output], model: &impl Model) {
        let running = self.running.len();
        if running == 0
            || self.admission != super::Admission::All
            || self.waiting.len() + self.skipped.len() > 0
            || outputs.len() != running
            || self.finish_to_announce
            || running > self.config.max_num_batched_tokens as usize
            || next.is_some() != self.config.async_scheduling
            || next.is_some_and(|batch| batch.rows.len() != running || batch.work.decodes != running as u64)
            || !self.has_spare_blocks()
        {
            return;
        }
        let mut last = u32::MAX;
        for (place, (&slot, output)) in self.running.iter().zip(outputs).enumerate() {
            let request = &self.requests[slot];
            let row = next.map(|batch| &batch.rows[place]);
            if output.request != request.id
                || row.is_some_and(|row| row.serial != request.serial || !row.samples)
                || !is_steady(request, &self.config)
                || !model.is_silent(request.id)
            {
                return;
            }
            let end = request.limit.min(self.config.max_model_len);
            last = last.min(end.saturating_sub(request.known.max(request.computed) + 2));
        }
        if last < WORTH_IT {
            return;
        }
        let fused = &mut self.fused;
        (fused.active, fused.last, fused.schedules, fused.updates) = (true, last, 0, 0);
        fused.work = StepBatch::default();
        fused.bases.clear();
        fused.store_at.clear();
        fused.fill_at.clear();
        for &slot in &self.running {
            let request = &self.requests[slot];
            let base = Base { known: request.known, computed: request.computed, sampled: request.outputs() };
            fused.store_at.push(store_at(base, request, &self.config).max(1));
            fused.fill_at.push(fill_at(base, request, &self.config));
            fused.work.add_decode(base.computed);
            fused.bases.push(base);
        }
    }

    /// No step can want for a block: each takes at most one a request.
    fn has_spare_blocks(&self) -> bool {
        self.kv.pool().free() as usize >= self.running.len()
    }

    pub(super) fn schedule_fused(&mut self, batch: &mut Batch) {
        self.fused.schedules += 1;
        let step = self.fused.schedules;
        if step > 1 {
            self.fused.work.advance_decodes();
        }
        for place in 0..self.fused.store_at.len() {
            if self.fused.store_at[place] > step {
                continue;
            }
            let base = self.fused.bases[place];
            let request = &mut self.requests[self.running[place]];
            request.known = base.known + self.fused.updates;
            request.computed = base.computed + step - 1;
            let grown = self.kv.grow(request, 1);
            debug_assert!(grown, "a fused step lacks a block");
            self.fused.store_at[place] = store_at(base, request, &self.config).max(step + 1);
        }
        batch.fused = true;
        batch.work = self.fused.work;
    }

    /// Completes a fused step; returns its tokens, none of which is listed.
    pub(super) fn update_fused(&mut self, model: &mut impl Model) -> usize {
        self.fused.updates += 1;
        let step = self.fused.updates;
        for place in 0..self.fused.fill_at.len() {
            if self.fused.fill_at[place] > step {
                continue;
            }
            let base = &mut self.fused.bases[place];
            let request = &mut self.requests[self.running[place]];
            request.known = base.known + step;
            model.skip(request.id, base.sampled..request.outputs());
            base.sampled = request.outputs();
            let block = request.hashes.len() as u32;
            let hash = model.hash_block(request.id, block, request.hashes.last().copied());
            request.hashes.push(hash);
            self.fused.fill_at[place] = fill_at(*base, request, &self.config);
            self.fused.store_at[place] =
                self.fused.store_at[place].min(store_at(*base, request, &self.config));
        }
        self.running.len()
    }

    /// Whether the next step may be fused too.
    pub(in crate::engine) fn fusion_may_go_on(&self) -> bool {
        self.fused.schedules < self.fused.last && self.has_spare_blocks()
    }

    pub(in crate::engine) fn is_fused(&self) -> bool {
        self.fused.is_active()
    }

    /// Ends the fusion: requests and the batches in flight, the oldest first, are as if it had not been.
    ///
    /// The model has yet to be asked for tokens of requests: [`Scheduler::sample_skipped`], or their next update.
    pub(in crate::engine) fn unfuse<'a>(
        &mut self,
        in_flight: impl DoubleEndedIterator<Item = &'a mut Batch>,
    ) {
        let fused = &mut self.fused;
        fused.active = false;
        let ahead = fused.schedules - fused.updates.min(fused.schedules);
        for (&slot, base) in self.running.iter().zip(&fused.bases) {
            let request = &mut self.requests[slot];
            request.known = base.known + fused.updates;
            request.computed = base.computed + fused.schedules;
            request.unsampled = request.outputs() - base.sampled;
            request.in_flight += ahead;
            request.placeholders += if self.config.async_scheduling { ahead } else { 0 };
        }
        for (batch, since) in in_flight.rev().zip(1..).filter(|(batch, _)| batch.fused) {
            batch.fused = false;
            batch.rows.extend(self.running.iter().map(|&slot| {
                let request = &self.requests[slot];
                let computed = request.computed - since;
                Row {
                    request: request.id,
                    kind: RowKind::Continued,
                    tokens: 1,
                    computed,
                    samples: true,
                    slot,
                    serial: request.serial,
                    blocks_before: computed.div_ceil(self.config.block_size),
                }
            }));
        }
    }

    /// Asks the model for the tokens that a fusion which has ended left out.
    pub(in crate::engine) fn sample_skipped(&mut self, model: &mut impl Model) {
        for &slot in &self.running {
            self.requests[slot].sample_skipped(model);
        }
    }
}

impl Request {
    /// Asks the model for the tokens that it was not asked for as they became known.
    pub(in crate::engine) fn sample_skipped(&mut self, model: &mut impl Model) {
        let skipped = std::mem::take(&mut self.unsampled);
        if skipped > 0 {
            model.skip(self.id, self.outputs() - skipped..self.outputs());
        }
    }
}

/// Whether `request` decodes a token each step, and only its length can end it.
fn is_steady(request: &Request, config: &EngineConfig) -> bool {
    let in_flight = u32::from(config.async_scheduling);
    request.status == Status::Running
        && request.computed >= request.prompt
        && request.in_flight == in_flight
        && request.placeholders == in_flight
        && request.known + in_flight == request.computed + 1
        && request.discards == 0
        && request.unsampled == 0
        && request.eos.is_none()
        && request.stop_tokens.is_empty()
}

/// The fused schedule in which the request outgrows its blocks, or finds that one more is full of known tokens.
fn store_at(base: Base, request: &Request, config: &EngineConfig) -> u32 {
    let size = config.block_size;
    let outgrows = (request.blocks.len() as u32 * size + 1).saturating_sub(base.computed);
    if !config.enable_prefix_caching {
        return outgrows;
    }
    // By then one update fewer has been than schedules.
    outgrows.min(((request.cached_blocks + 1) * size + 1).saturating_sub(base.known))
}

/// The fused update in which the request fills its next block.
fn fill_at(base: Base, request: &Request, config: &EngineConfig) -> u32 {
    if !config.enable_prefix_caching {
        return u32::MAX;
    }
    (request.hashes.len() as u32 + 1) * config.block_size - base.known
}

#[cfg(test)]
mod tests;
