//! Model servers that leave polls unanswered.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use executor::Rt;
use executor::sync::watch;

use crate::endpoint::{EndpointId, EndpointMetadata};

/// How many polls in a row a model server leaves unanswered until it counts as silent: with polls that time out
/// some three seconds, with refused ones as many base ticks.
const PATIENCE: u32 = 3;

/// The addresses (`host:port`) of silent model servers, as those see them who are on other threads.
pub type SilentAddresses = Arc<BTreeSet<String>>;

/// Which model servers are silent. Cheap to clone: all clones are one set.
///
/// Only polls of the address that requests go to count, so that an exporter beside the model server says nothing
/// about it. An answer of any kind, even an error, ends the silence.
#[derive(Clone)]
pub struct Silence(Rc<Inner>);

struct Inner {
    unanswered: RefCell<BTreeMap<EndpointId, Unanswered>>,
    silent: watch::Sender<SilentAddresses>,
}

#[derive(Default)]
struct Unanswered {
    in_a_row: u32,
    address: String,
}

impl Silence {
    /// Returns an empty set.
    pub fn new(rt: &Rt) -> Self {
        let (silent, _) = rt.watch(SilentAddresses::default());
        Silence(Rc::new(Inner { unanswered: RefCell::default(), silent }))
    }

    /// Returns the addresses of the silent ones, which changes when one falls silent or answers again.
    pub fn subscribe(&self) -> watch::Receiver<SilentAddresses> {
        self.0.silent.subscribe()
    }

    /// Returns the addresses of the silent ones as of now.
    pub fn addresses(&self) -> SilentAddresses {
        self.0.silent.with(Arc::clone)
    }

    /// Notes that the endpoint answered a poll.
    pub(super) fn answered(&self, id: &EndpointId) {
        if !self.0.unanswered.borrow().is_empty() && self.forget(id) {
            tracing::info!(endpoint = %id, "the model server answers again and gets requests");
        }
    }

    /// Notes that the endpoint left a poll unanswered.
    pub(super) fn unanswered(&self, metadata: &EndpointMetadata) {
        {
            let mut all = self.0.unanswered.borrow_mut();
            let entry = all.entry(metadata.id.clone()).or_default();
            let address = metadata.host_port();
            if entry.address != address {
                *entry = Unanswered { in_a_row: 0, address };
            }
            entry.in_a_row = entry.in_a_row.saturating_add(1);
            if entry.in_a_row != PATIENCE {
                return;
            }
        }
        tracing::warn!(
            endpoint = %metadata.id,
            polls = PATIENCE,
            "the model server left polls unanswered; it gets no requests until it answers one"
        );
        self.publish();
    }

    /// Forgets the endpoint, which is gone, has moved or answers; returns whether it was silent.
    pub(super) fn forget(&self, id: &EndpointId) -> bool {
        let known = self.0.unanswered.borrow_mut().remove(id);
        let was_silent = known.is_some_and(|unanswered| unanswered.in_a_row >= PATIENCE);
        if was_silent {
            self.publish();
        }
        was_silent
    }

    fn publish(&self) {
        let all = self.0.unanswered.borrow();
        let silent = all.values().filter(|unanswered| unanswered.in_a_row >= PATIENCE);
        self.0.silent.send(Arc::new(silent.map(|unanswered| unanswered.address.clone()).collect()));
    }
}

impl fmt::Debug for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Silence").field(&self.addresses()).finish()
    }
}

#[cfg(test)]
mod tests {
    use executor::Real;

    use super::*;

    fn metadata(name: &str, port: u16) -> EndpointMetadata {
        EndpointMetadata {
            id: EndpointId::new("ns", name),
            address: "10.0.0.1".to_owned(),
            port: port.to_string(),
            ..EndpointMetadata::default()
        }
    }

    fn with_silence(test: impl FnOnce(Silence)) {
        let real = Real::builder().current_thread().build().expect("a runtime");
        real.run(|rt| async move { test(Silence::new(&rt)) });
    }

    #[test]
    fn only_polls_in_a_row_make_a_server_silent() {
        with_silence(|silence| {
            let a = metadata("a", 1);
            for _ in 0..5 {
                silence.unanswered(&a);
                silence.unanswered(&a);
                silence.answered(&a.id);
            }
            assert!(silence.addresses().is_empty());
            (0..3).for_each(|_| silence.unanswered(&a));
            assert_eq!(*silence.addresses(), BTreeSet::from(["10.0.0.1:1".to_owned()]));
            silence.answered(&a.id);
            assert!(silence.addresses().is_empty());
        });
    }

    #[test]
    fn who_waits_is_woken_at_each_change_and_not_between() {
        with_silence(|silence| {
            let (a, b) = (metadata("a", 1), metadata("b", 2));
            let watch = silence.subscribe();
            silence.unanswered(&a);
            silence.unanswered(&a);
            assert!(!watch.has_changed(), "nobody is silent yet");
            silence.unanswered(&a);
            assert!(watch.has_changed());
            let watch = silence.subscribe();
            silence.unanswered(&a);
            silence.answered(&b.id);
            silence.forget(&b.id);
            assert!(!watch.has_changed(), "a stays silent");
            silence.forget(&a.id);
            assert!(watch.has_changed() && watch.get().is_empty());
        });
    }
}
