//! The way of KV events from engines to the router: in simulation a batch arrives when it is published.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use router::plugin::Handle;
use router::prefix::kv_events::{KvBatch, KvEventSink, SubscriberSpec, Subscribers};

/// The plugins that KV events are for, each with the engines that it has subscribed to.
#[derive(Default)]
pub(super) struct EventRoads(RefCell<Vec<Road>>);

struct Road {
    sink: Rc<dyn KvEventSink>,
    subscriptions: Subscriptions,
}

/// What a plugin has subscribed to, by the subscriber's id.
#[derive(Clone, Default)]
struct Subscriptions(Rc<RefCell<BTreeMap<String, SubscriberSpec>>>);

impl EventRoads {
    /// Lets events reach the plugins of a router, which is told of its endpoints after this call.
    pub(super) fn lead_to(&self, plugins: &Handle) {
        let sinks = plugins.instances().into_iter().filter_map(|instance| instance.roles.kv_events);
        self.0.borrow_mut().extend(sinks.map(|sink| {
            let subscriptions = Subscriptions::default();
            sink.subscribe_with(Box::new(subscriptions.clone()));
            Road { sink, subscriptions }
        }));
    }

    /// Returns whether any plugin wants events.
    pub(super) fn are_used(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// Hands a batch of the engine at `source`, an `address:port`, to everybody who has subscribed to it.
    pub(super) fn deliver(&self, source: &str, topic: &str, batch: &KvBatch) {
        for Road { sink, subscriptions } in &*self.0.borrow() {
            for spec in subscriptions.0.borrow().values() {
                if spec.source == source && topic.starts_with(&spec.filter) {
                    sink.ingest_batch(source, topic, batch);
                }
            }
        }
    }
}

impl Subscribers for Subscriptions {
    fn ensure(&self, spec: SubscriberSpec) {
        self.0.borrow_mut().insert(spec.id.clone(), spec);
    }

    fn remove(&self, id: &str) {
        self.0.borrow_mut().remove(id);
    }
}

#[cfg(test)]
mod tests;
