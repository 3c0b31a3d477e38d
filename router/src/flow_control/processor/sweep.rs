//! Removing what is dead or idle (flow-control spec 6.2, 7.6).

use executor::Instant;

use super::Processor;
use crate::flow_control::flows::FlowKey;
use crate::flow_control::queue::Queued;
use crate::flow_control::registry::Collected;

impl Processor {
    /// Returns whether anything dead is queued.
    pub(in crate::flow_control) fn has_zombies(&self) -> bool {
        self.zombies > 0
    }

    /// Removes the dead items from all queues.
    pub(in crate::flow_control) fn sweep(&mut self) {
        for band in 0..self.registry.bands().len() {
            let flows: Vec<FlowKey> =
                self.registry.bands()[band].flows.iter().map(|(_, flow)| flow).collect();
            for flow in flows {
                let items = &self.items;
                let gone = self.registry.band_mut(band).flows.cleanup(flow, |item| {
                    items.get(item.0 as usize).is_some_and(|item| item.ended().is_some())
                });
                self.all_have_left(&gone);
            }
        }
    }

    /// Removes flows and bands that have been idle for too long, and their series.
    pub(in crate::flow_control) fn collect(&mut self, now: Instant) {
        let collected = self.registry.collect(now);
        self.forget(&collected);
    }

    /// Forgets flows that are gone, and what was left in them.
    pub(in crate::flow_control) fn forget(&mut self, collected: &Collected) {
        self.all_have_left(&collected.items);
        for (priority, id, _) in &collected.flows {
            self.measures.forget_flow(id, *priority);
        }
    }

    /// Notes that items, all of them dead, are in no queue any more.
    fn all_have_left(&mut self, gone: &[Queued]) {
        for queued in gone {
            self.has_left(queued.item, true);
        }
    }
}
