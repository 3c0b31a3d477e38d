//! The dispatch cycle (flow-control spec 6.5, 6.6).

use std::rc::Rc;

use executor::Instant;

use super::Processor;
use crate::config::schema::Behavior;
use crate::endpoint::Endpoint;
use crate::flow_control::outcome::Ended;
use crate::flow_control::queue::{ItemId, QueueHandle};

impl Processor {
    /// Lets at most one item go: the head that its band's policy picks, in the highest band where something waits, as
    /// long as no band on the way there is gated. Returns whether an item left its queue.
    pub(in crate::flow_control) fn cycle(&mut self, now: Instant) -> bool {
        let started = self.measures.now();
        let pool = self.pool.whole_pool();
        self.pool_is_empty = pool.is_empty();
        let mut saturation = self.detector.saturation(&pool, now);
        if self.behavior == Behavior::Fixed {
            saturation += self.unseen_saturation(&pool, now);
        }
        self.saturation = saturation;
        let mut ceilings = std::mem::take(&mut self.ceilings);
        ceilings.clear();
        ceilings.resize(self.registry.priorities().len(), 1.0);
        self.usage_limits.limit(saturation, self.registry.priorities(), &mut ceilings);
        let left = self.walk(saturation, &ceilings, now);
        self.ceilings = ceilings;
        self.went = left;
        self.measures.cycle(saturation, started);
        left
    }

    /// Returns by how much the pool is fuller than its detector can see: what went since the oldest look at an endpoint.
    fn unseen_saturation(&mut self, pool: &[Rc<Endpoint>], now: Instant) -> f64 {
        let Some((of_one, seen)) = self.detector.unseen(pool, now) else {
            self.unseen.clear();
            return 0.0;
        };
        while self.unseen.front().is_some_and(|went| *went <= seen) {
            self.unseen.pop_front();
        }
        self.unseen.len() as f64 * of_one
    }

    fn walk(&mut self, saturation: f64, ceilings: &[f64], now: Instant) -> bool {
        for (at, ceiling) in ceilings.iter().enumerate() {
            // Before the queue is looked at: also an empty band that is gated ends the walk.
            if saturation >= *ceiling {
                self.reclaim(at, saturation, ceilings, now);
                return false;
            }
            let band = self.registry.band_mut(at);
            let picked = match band.fairness.pick(&band.flows, now) {
                Ok(picked) => picked,
                Err(error) => {
                    let priority = band.settings.priority;
                    tracing::error!(priority, %error, "the fairness policy cannot pick; the band is passed over");
                    continue;
                }
            };
            let head = picked.and_then(|flow| Some((flow, band.flows.queue(flow).peek()?)));
            if let Some((_, (queued, handle))) = head {
                self.dispatch(queued.item, handle, now);
                return true;
            }
        }
        false
    }

    /// Lets an item go; one that is dead leaves its queue and nothing else happens.
    fn dispatch(&mut self, id: ItemId, handle: QueueHandle, now: Instant) {
        debug_assert_eq!(self.items[id.0 as usize].handle, Some(handle));
        self.unqueue(id);
        if self.items.get(id.0 as usize).is_some_and(|item| item.ended().is_none()) {
            if self.behavior == Behavior::Fixed {
                self.unseen.push_back(now);
            }
            self.finalize(id, Ended::DISPATCHED, now);
        }
    }

    /// Looks whether requests in flight should make room for a band that is gated (flow-control spec 13.4).
    fn reclaim(&mut self, gated: usize, saturation: f64, ceilings: &[f64], now: Instant) {
        let Some(reclamation) = &self.reclamation else { return };
        if !reclamation.is_open(now) {
            return;
        }
        let Some(victim) = reclamation.victim_priority() else { return };
        for (band, ceiling) in self.registry.bands().iter().zip(ceilings).skip(gated) {
            let priority = band.settings.priority;
            if priority <= victim {
                return;
            }
            // A band that its policy keeps closed, one that is open and one where nobody waits demand nothing.
            if *ceiling <= 0.0 || saturation < *ceiling || band.flows.is_empty() {
                continue;
            }
            return reclamation.reclaim(saturation, *ceiling, priority, now);
        }
    }
}
