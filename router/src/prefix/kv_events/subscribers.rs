//! Whose events are subscribed to (request-control spec 15.2).

use std::collections::BTreeMap;

/// A server to subscribe to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriberSpec {
    /// Who it is: `namespace/name` of an endpoint, or `local-subscriber`.
    pub id: String,
    /// `address:port` under which the index knows it; empty = topics name the pods.
    pub source: String,
    /// Where it publishes: `tcp://<host>:<port>`.
    pub endpoint: String,
    /// Where it replays what was missed; empty = nowhere.
    pub replay: String,
    /// Start of the topics to subscribe to.
    pub filter: String,
    /// Whether to connect to the endpoint; otherwise to listen there.
    pub dial: bool,
}

/// Starts and ends subscriptions.
pub trait Subscribers {
    /// Subscribes. Where the same subscription runs, nothing changes; another one of the same id is replaced.
    fn ensure(&self, spec: SubscriberSpec);

    /// Ends the subscription `id`.
    fn remove(&self, id: &str);
}

/// What a registry did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistryAction {
    /// Nothing.
    None,
    /// A subscription began.
    Created,
    /// One ended and another began: what it knew of sequence numbers is gone, the index is not cleared.
    Replaced,
    /// One ended.
    Removed,
}

/// The subscriptions that run, each with the guard that keeps it running.
#[derive(Debug)]
pub struct SubscriberRegistry<G>(BTreeMap<String, (SubscriberSpec, G)>);

impl<G> Default for SubscriberRegistry<G> {
    fn default() -> Self {
        SubscriberRegistry(BTreeMap::new())
    }
}

impl<G> SubscriberRegistry<G> {
    /// Lets `start` begin a subscription, unless it runs already.
    pub fn ensure(
        &mut self,
        spec: SubscriberSpec,
        start: impl FnOnce(&SubscriberSpec) -> G,
    ) -> RegistryAction {
        let running = self.0.get(&spec.id).map(|(running, _)| running);
        let is_same = |running: &SubscriberSpec| {
            (&running.endpoint, &running.source, &running.replay)
                == (&spec.endpoint, &spec.source, &spec.replay)
        };
        let action = match running {
            Some(running) if is_same(running) => return RegistryAction::None,
            Some(_) => RegistryAction::Replaced,
            None => RegistryAction::Created,
        };
        // The old one ends before the new one begins: both may want one socket.
        self.0.remove(&spec.id);
        let guard = start(&spec);
        self.0.insert(spec.id.clone(), (spec, guard));
        action
    }

    /// Ends a subscription.
    pub fn remove(&mut self, id: &str) -> RegistryAction {
        if self.0.remove(id).is_some() { RegistryAction::Removed } else { RegistryAction::None }
    }

    /// Iterates over the subscriptions that run, by id.
    pub fn active(&self) -> impl ExactSizeIterator<Item = &SubscriberSpec> {
        self.0.values().map(|(spec, _)| spec)
    }
}
