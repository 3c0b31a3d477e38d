//! Admitting requests that wait (model-server spec 5.4, phase 2).

use super::Scheduler;
use crate::engine::batch::{Batch, RowKind};
use crate::engine::config::SchedulingPolicy;
use crate::engine::metrics::Lookups;
use crate::engine::request::{Slot, Status};
use crate::engine::wait_queue::Rank;

impl Scheduler {
    /// Admits waiting requests in their order until the budget, the KV blocks or the running list are exhausted.
    ///
    /// Only a request that something else than room keeps back is passed over; for one without room all others
    /// behind it wait too.
    pub(super) fn admit(&mut self, batch: &mut Batch, budget: &mut u32, threshold: u32) {
        self.note_adapters(batch);
        while *budget > 0 && self.running.len() < self.config.max_num_seqs as usize {
            let Some(slot) = self.head() else { break };
            if self.is_held_back(slot) {
                self.pass_over(slot);
                continue;
            }
            let request = &self.requests[slot];
            let hits = self.kv.look_up(request);
            let left = (request.known - hits).min(threshold);
            let tokens = left.min(*budget);
            let fits = self.config.enable_chunked_prefill || tokens == left;
            let admitted = fits && self.kv.admit(&mut self.requests[slot], tokens, !self.running.is_empty());
            if admitted || self.config.profile.counts_refused_lookups {
                self.count_lookup(slot, hits);
            }
            if !admitted {
                break;
            }
            self.start(slot, hits, tokens, batch);
            *budget -= tokens;
        }
        self.return_passed_over();
    }

    /// The next request to try: those passed over before come first, under the priority policy at their rank.
    fn head(&self) -> Option<Slot> {
        let (waiting, skipped) = (self.waiting.head(), self.skipped.head());
        if self.config.policy == SchedulingPolicy::Fcfs {
            return skipped.or(waiting);
        }
        [waiting, skipped].into_iter().flatten().min_by_key(|&slot| Rank::of(slot, &self.requests[slot]))
    }

    fn is_held_back(&self, slot: Slot) -> bool {
        let request = &self.requests[slot];
        let awaits_output = self.config.profile.defers_resumption
            && request.status == Status::Preempted
            && request.in_flight > 0;
        let adapters = &self.scratch.adapters;
        let lacks_adapter_slot = match (self.config.max_loras, request.adapter) {
            (Some(limit), Some(adapter)) => {
                adapters.len() >= limit as usize && !adapters.contains(&adapter.0)
            }
            _ => false,
        };
        awaits_output || lacks_adapter_slot
    }

    /// Notes the adapters of the running requests in the step.
    fn note_adapters(&mut self, batch: &Batch) {
        self.scratch.adapters.clear();
        if self.config.max_loras.is_some() {
            for row in &batch.rows {
                self.note_adapter(row.slot);
            }
        }
    }

    fn note_adapter(&mut self, slot: Slot) {
        if let Some(adapter) = self.requests[slot].adapter
            && !self.scratch.adapters.contains(&adapter.0)
        {
            self.scratch.adapters.push(adapter.0);
        }
    }

    fn count_lookup(&mut self, slot: Slot, hits: u32) {
        if self.kv.caching() {
            let request = &self.requests[slot];
            let lookup = Lookups { requests: 1, queries: u64::from(request.known), hits: u64::from(hits) };
            if request.preemptions > 0 {
                self.stats.lookups_after_preemption += lookup;
            } else {
                self.stats.lookups += lookup;
            }
        }
    }

    /// Moves a request that got its blocks to the running list and into the step.
    fn start(&mut self, slot: Slot, hits: u32, tokens: u32, batch: &mut Batch) {
        self.leave_queue(slot);
        let request = &mut self.requests[slot];
        let kind = match request.status {
            Status::Preempted => RowKind::Resumed,
            _ => RowKind::New,
        };
        request.status = Status::Running;
        request.computed = hits;
        self.running.push(slot);
        self.note_adapter(slot);
        batch.rows.push(self.row(slot, kind, tokens, (hits, 0)));
    }

    fn pass_over(&mut self, slot: Slot) {
        self.leave_queue(slot);
        self.scratch.passed_over.push(slot);
    }

    /// Puts the requests passed over in this step in front of those passed over before, in their old order.
    fn return_passed_over(&mut self) {
        while let Some(slot) = self.scratch.passed_over.pop() {
            self.requests[slot].skipped = true;
            self.skipped_count += 1;
            let apart = self.config.profile.has_skipped_queue;
            let queue = if apart { &mut self.skipped } else { &mut self.waiting };
            queue.push_front(slot, &mut self.requests);
        }
    }

    /// Takes a waiting request out of its queue.
    pub(super) fn leave_queue(&mut self, slot: Slot) {
        let skipped = std::mem::take(&mut self.requests[slot].skipped);
        self.skipped_count -= usize::from(skipped);
        let apart = skipped && self.config.profile.has_skipped_queue;
        let queue = if apart { &mut self.skipped } else { &mut self.waiting };
        queue.remove(slot, &mut self.requests);
    }
}
