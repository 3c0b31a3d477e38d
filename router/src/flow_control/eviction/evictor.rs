use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use executor::{Instant, Rt};

use super::queue::{EvictionItem, EvictionQueue};
use super::{InFlight, policies};

/// Why a response breaks off: the value of the header that says so.
pub const EVICTED: &str = "evicted";

/// Tells the stream of one request that it is evicted, once.
#[derive(Clone)]
pub struct Signal(Rc<SignalState>);

#[derive(Default)]
struct SignalState {
    fired: Cell<bool>,
    /// Called when the signal fires.
    wake: RefCell<Option<Box<dyn FnOnce()>>>,
}

impl Signal {
    fn new() -> Self {
        Signal(Rc::default())
    }

    /// Returns whether it has fired.
    pub fn has_fired(&self) -> bool {
        self.0.fired.get()
    }

    /// Calls `wake` when the signal fires, now where it has.
    pub fn on_fire(&self, wake: impl FnOnce() + 'static) {
        if self.has_fired() { wake() } else { *self.0.wake.borrow_mut() = Some(Box::new(wake)) }
    }

    fn fire(&self) {
        self.0.fired.set(true);
        if let Some(wake) = self.0.wake.take() {
            wake();
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Signal").field(&self.has_fired()).finish()
    }
}

/// Ends requests in flight.
pub trait Evictor {
    /// Ends the request `id`, whose stream listens to `signal`.
    ///
    /// # Errors
    /// When it cannot be ended; it stays in flight then.
    fn evict(&self, id: &str, signal: &Signal) -> Result<(), String>;
}

/// Follows requests in flight and evicts some of them on demand (request-control spec 5).
///
/// Two requests in flight that share an `x-request-id` share one entry, as in the llm-d Router: the later one counts, and
/// the end of either ends both here.
pub struct RequestEvictor {
    rt: Rt,
    state: RefCell<State>,
    /// Ends requests in place of their signals; for tests of what happens when that fails.
    evictor: Option<Box<dyn Evictor>>,
    /// Told of each evicted request that has ended.
    terminated: RefCell<Option<Terminated>>,
}

/// Takes the id of a request that has ended.
type Terminated = Box<dyn Fn(&str)>;

struct State {
    queue: EvictionQueue<Signal>,
    /// Signal and reason of each request that is registered; empty = none.
    registry: BTreeMap<Rc<str>, (Signal, &'static str)>,
    /// Requests whose end is waited for.
    pending: BTreeSet<Rc<str>>,
    /// Requests whose signal was fired and that have not been cleaned up.
    fired: BTreeSet<Rc<str>>,
}

impl RequestEvictor {
    /// Returns an evictor that follows nothing.
    pub fn new(rt: Rt) -> Self {
        Self::with_evictor(rt, None)
    }

    /// Returns one that asks `evictor` before it fires a signal.
    pub fn with_evictor(rt: Rt, evictor: Option<Box<dyn Evictor>>) -> Self {
        let (filter, order) = policies();
        let state = State {
            queue: EvictionQueue::new(filter, order),
            registry: BTreeMap::new(),
            pending: BTreeSet::new(),
            fired: BTreeSet::new(),
        };
        RequestEvictor { rt, state: RefCell::new(state), evictor, terminated: RefCell::default() }
    }

    /// Calls `terminated` with each evicted request when it has ended.
    pub fn on_terminated(&self, terminated: impl Fn(&str) + 'static) {
        *self.terminated.borrow_mut() = Some(Box::new(terminated));
    }

    /// Follows a request that has been dispatched; `None` for one without an id.
    pub fn dispatched(&self, id: &str, priority: i64) -> Option<Signal> {
        if id.is_empty() {
            return None;
        }
        let id: Rc<str> = id.into();
        let signal = Signal::new();
        let request = InFlight { priority, dispatched: self.rt.now() };
        let mut state = self.state.borrow_mut();
        state.queue.track(EvictionItem { id: Rc::clone(&id), request, owned: signal.clone() });
        state.registry.insert(id, (signal.clone(), ""));
        Some(signal)
    }

    /// Forgets a request: its response has ended, or its stream. May be told more than once.
    pub fn ended(&self, id: &str) {
        let was_pending = {
            let mut state = self.state.borrow_mut();
            state.queue.untrack(id);
            state.registry.remove(id);
            state.fired.remove(id);
            state.pending.remove(id)
        };
        if was_pending && let Some(terminated) = &*self.terminated.borrow() {
            terminated(id);
        }
    }

    /// Evicts up to `count` requests of priorities below `bound`, the first to go first; returns their ids.
    pub fn evict(&self, count: usize, bound: i64) -> Vec<Rc<str>> {
        let mut evicted = Vec::new();
        for _ in 0..count {
            let Some(item) = self.state.borrow_mut().queue.pop() else { break };
            if item.request.priority >= bound {
                self.state.borrow_mut().queue.track(item);
                break;
            }
            let id = Rc::clone(&item.id);
            self.state.borrow_mut().pending.insert(Rc::clone(&id));
            match self.fire(&id, &item.owned) {
                Ok(()) => evicted.push(id),
                Err(why) => {
                    tracing::warn!(request = &*id, why, "a request in flight could not be evicted");
                    let mut state = self.state.borrow_mut();
                    state.pending.remove(&id);
                    state.queue.track(item);
                }
            }
        }
        evicted
    }

    /// Ends one request: the reason is left in the registry, and its signal is fired unless one of its id was.
    fn fire(&self, id: &Rc<str>, signal: &Signal) -> Result<(), String> {
        if let Some(evictor) = &self.evictor {
            evictor.evict(id, signal)?;
        }
        {
            let mut state = self.state.borrow_mut();
            if !state.fired.insert(Rc::clone(id)) {
                return Ok(());
            }
            if let Some((_, reason)) = state.registry.get_mut(id) {
                *reason = EVICTED;
            }
        }
        signal.fire();
        Ok(())
    }

    /// Returns the reason that a registered request is evicted for, empty for none; `None` where it is not registered.
    pub fn reason(&self, id: &str) -> Option<&'static str> {
        self.state.borrow().registry.get(id).map(|(_, reason)| *reason)
    }

    /// Takes a request out of the registry; it can still be evicted, without a reason.
    pub fn deregister(&self, id: &str) {
        self.state.borrow_mut().registry.remove(id);
    }

    /// Returns how many requests are in flight, and how many of them can be evicted.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state.borrow();
        (state.queue.in_flight(), state.queue.evictable())
    }

    /// Returns the priority of the request that would go first.
    pub fn victim_priority(&self) -> Option<i64> {
        self.state.borrow().queue.peek().map(|item| item.request.priority)
    }

    /// Returns the ids in the registry, sorted.
    pub fn registered(&self) -> Vec<Rc<str>> {
        self.state.borrow().registry.keys().cloned().collect()
    }

    /// Returns the time, which requests are dispatched and evicted at.
    pub(in crate::flow_control) fn now(&self) -> Instant {
        self.rt.now()
    }
}

impl fmt::Debug for RequestEvictor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestEvictor").field("queue", &self.state.borrow().queue).finish_non_exhaustive()
    }
}
