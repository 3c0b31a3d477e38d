//! What a finished batch changes (model-server spec 5.7).

use super::Scheduler;
use crate::engine::batch::Batch;
use crate::engine::metrics::Stats;
use crate::engine::request::{Finish, FinishReason, Output, Request, Slot, Status, Token};
use crate::engine::step_loop::Model;

impl Scheduler {
    /// Appends the tokens that `batch` sampled, ends the requests that they end, and lists both in `outputs`.
    ///
    /// Returns how many tokens it did not list. Rows of requests that have ended since are ignored. A request preempted since keeps its token, but no block
    /// of it is cached.
    pub(in crate::engine) fn update(
        &mut self,
        batch: &Batch,
        model: &mut impl Model,
        outputs: &mut Vec<Output>,
    ) -> usize {
        outputs.clear();
        if self.is_fused() {
            return self.update_fused(model);
        }
        for row in batch.rows.iter().filter(|row| row.samples) {
            let Some(request) = self.requests.unfinished(row.slot, row.serial) else { continue };
            request.in_flight -= 1;
            if request.discards > 0 {
                request.discards -= 1;
                continue;
            }
            request.sample_skipped(model);
            let position = row.computed + row.tokens - request.prompt;
            let token = model.sample(request.id, position);
            request.known += 1;
            request.placeholders = request.placeholders.saturating_sub(1);
            let block = request.hashes.len() as u32;
            if self.kv.caching() && request.known == (block + 1) * self.config.block_size {
                let hash = model.hash_block(request.id, block, request.hashes.last().copied());
                request.hashes.push(hash);
            }
            let finish =
                stop(request, token, self.config.max_model_len, self.config.profile.min_tokens_first);
            outputs.push(Output { request: request.id, token, finish });
            if self.config.async_scheduling && request.status == Status::Running {
                let written = request.computed - request.placeholders;
                self.kv.store(request, written);
            }
            if finish.is_some() {
                self.end(row.slot);
            }
        }
        self.forget_ended();
        0
    }

    /// Takes the counts since the last update, with the gauges of this moment.
    pub(in crate::engine) fn take_stats(&mut self) -> Stats {
        let gauges = self.gauges();
        Stats { gauges, ..std::mem::take(&mut self.stats) }
    }

    fn end(&mut self, slot: Slot) {
        if self.requests[slot].status == Status::Preempted {
            self.leave_queue(slot);
        }
        let request = &mut self.requests[slot];
        self.kv.release(request);
        request.status = Status::Ended;
        self.scratch.ended.push(slot);
        self.finish_to_announce = true;
    }

    fn forget_ended(&mut self) {
        if self.scratch.ended.is_empty() {
            return;
        }
        self.running.retain(|&slot| self.requests[slot].status == Status::Running);
        for slot in self.scratch.ended.drain(..) {
            self.requests.remove(slot);
        }
    }
}

/// Says whether `token`, the last one of `request`, ends it.
fn stop(request: &Request, token: Token, max_model_len: u32, min_tokens_first: bool) -> Option<Finish> {
    if min_tokens_first && request.outputs() < request.min_tokens {
        None
    } else if request.eos == Some(token) {
        Some(Finish { reason: FinishReason::Stop, stop_token: None })
    } else if request.stop_tokens.contains(&token) {
        Some(Finish { reason: FinishReason::Stop, stop_token: Some(token) })
    } else if request.known >= request.limit.min(max_model_len) {
        Some(Finish { reason: FinishReason::Length, stop_token: None })
    } else {
        None
    }
}
