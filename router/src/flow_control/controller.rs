//! Queueing requests and waiting for their turn (flow-control spec 5).

mod ticker;
mod wait;

pub use wait::Wait;

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::time::Duration;

use executor::sync::Notify;
use executor::{Instant, Rt, WallTime};

use super::candidates::CachedLocator;
use super::eviction::RequestEvictor;
use super::measure::Measures;
use super::ordering::Arrival;
use super::outcome::{Cause, Ended, Outcome, Reason};
use super::processor::{Entrant, Processor};
use super::queue::ItemId;
use super::reclamation::Reclamation;
use super::settings::Settings;
use crate::admission::SaturationDetector;
use crate::config::schema::Behavior;
use crate::headers::Headers;
use crate::metrics::Registry as Metrics;

/// What a controller is built from.
#[derive(Clone)]
pub struct Parts {
    /// What to do.
    pub settings: Settings,
    /// Says how full the pool is.
    pub detector: Rc<dyn SaturationDetector>,
    /// The pool.
    pub pool: Rc<CachedLocator>,
    /// Follows requests in flight, where they may be evicted.
    pub evictor: Option<Rc<RequestEvictor>>,
    /// Takes the metrics.
    pub metrics: Metrics,
    /// Name of the pool, a label.
    pub pool_name: String,
    /// The llm-d Router's behaviour, or the sensible one.
    pub behavior: Behavior,
    /// Whether ticks that can change nothing are left out.
    pub elides_ticks: bool,
}

/// A request that asks for its turn.
#[derive(Clone, Debug)]
pub struct FlowRequest<'a> {
    /// Its flow.
    pub fairness_id: &'a str,
    /// Its band.
    pub priority: i64,
    /// Size of its body.
    pub bytes: u64,
    /// When its headers came.
    pub received: WallTime,
    /// Its headers.
    pub headers: Option<&'a Headers>,
    /// Model as the client named it.
    pub model: &'a str,
    /// Model after rewriting.
    pub target_model: &'a str,
    /// Until when its client waits, where that is known.
    pub deadline: Option<Instant>,
}

/// One band as of now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BandState {
    /// Priority.
    pub priority: i64,
    /// Requests that wait, dead ones included.
    pub requests: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Ids of its flows, sorted.
    pub flows: Vec<Rc<str>>,
}

/// Lets requests wait for their turn. Cheap to clone: all clones are one controller.
///
/// An arrival is queued and a dispatch cycle run at once, in the arriving task; a ticker runs the cycles between
/// arrivals. Of what falls due at one instant expiry is first, then collection, sweep and tick.
///
/// # Determinism
/// A function of the order of calls and of the runtime's clock. Nothing is drawn, nothing depends on addresses.
#[derive(Clone)]
pub struct FlowController(Rc<Shared>);

struct Shared {
    rt: Rt,
    settings: Settings,
    processor: RefCell<Processor>,
    behavior: Behavior,
    elides_ticks: bool,
    started: Instant,
    /// Ends the ticker's sleep early.
    alarm: Notify,
    /// When the ticker wakes by itself.
    wakes: Cell<Instant>,
}

/// A controller that may be gone: for those whom it owns in the end.
#[derive(Clone, Default)]
pub struct WeakFlowController(Weak<Shared>);

impl WeakFlowController {
    /// Returns the controller, unless it is gone.
    pub fn upgrade(&self) -> Option<FlowController> {
        self.0.upgrade().map(FlowController)
    }
}

impl fmt::Debug for WeakFlowController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakFlowController")
    }
}

impl FlowController {
    /// Returns the controller for those whom it owns in the end.
    pub fn downgrade(&self) -> WeakFlowController {
        WeakFlowController(Rc::downgrade(&self.0))
    }

    /// Returns a controller that works; its ticker is a daemon of `rt`. To be called on the core's thread.
    pub fn start(rt: &Rt, parts: Parts) -> Self {
        let Parts { settings, detector, pool, evictor, metrics, pool_name, behavior, elides_ticks } = parts;
        let reclamation =
            evictor.map(|evictor| Reclamation::new(evictor, &settings.controller, &metrics, &pool_name));
        let measures = Measures::new(rt.clone(), &metrics, &pool_name);
        let processor = Processor::new(&settings, detector, pool, reclamation, measures, behavior);
        let controller = FlowController(Rc::new(Shared {
            rt: rt.clone(),
            settings,
            processor: RefCell::new(processor),
            behavior,
            elides_ticks,
            started: rt.now(),
            alarm: rt.notify(),
            wakes: Cell::new(Instant::ZERO),
        }));
        drop(rt.daemon("flow-control ticker", ticker::run(Rc::downgrade(&controller.0), rt.clone())));
        controller
    }

    /// Asks for a request's turn: the answer may be there at once, else it is to be waited for.
    pub fn enqueue(&self, request: &FlowRequest<'_>) -> Result<Ended, Wait> {
        if request.fairness_id.is_empty() {
            const NO_FLOW: &[Cause] =
                &[Cause::Rejected, Cause::Other(Cow::Borrowed("flow ID cannot be empty"))];
            return Ok(Ended::new(Outcome::RejectedOther, NO_FLOW));
        }
        let shared = &self.0;
        let now = shared.rt.now();
        let mut processor = shared.processor.borrow_mut();
        let at = self.band(&mut processor, request.priority);
        let ttl = shared.settings.controller.default_request_ttl;
        let own = (!ttl.is_zero()).then(|| now + ttl);
        let deadline = [own, request.deadline].into_iter().flatten().min();
        let left = deadline.map(|deadline| deadline - now).filter(|left| !left.is_zero());
        let original = processor.measures.labels(
            request.fairness_id,
            request.priority,
            request.model,
            request.target_model,
        );
        let priority = processor.registry.priorities()[at];
        let labels = if priority == request.priority {
            Rc::clone(&original)
        } else {
            processor.measures.labels(request.fairness_id, priority, request.model, request.target_model)
        };
        processor.measures.entered(&original, request.bytes);
        let entered = if deadline.is_some_and(|deadline| deadline <= now) {
            Err(Ended::of(Reason::TimeIsUp, false))
        } else {
            let arrival = Arrival {
                enqueued: now,
                // The configured time where there is neither a deadline nor a wait without end.
                ttl: left.or((!ttl.is_zero()).then_some(ttl)),
                received: request.received,
                headers: request.headers,
            };
            let (band, flow_id, bytes) = (at, request.fairness_id, request.bytes);
            processor.enter(Entrant { band, flow_id, bytes, arrival, deadline, labels }, now)
        };
        match entered {
            Err(ended) => {
                processor.measures.left(&original, request.bytes, ended.outcome, request.priority);
                drop(processor);
                shared.look_again();
                Ok(ended)
            }
            Ok(item) => {
                drop(processor);
                shared.look_again();
                Err(Wait::new(self.clone(), item, original, request.bytes, request.priority))
            }
        }
    }

    /// Returns where the band is that takes a request. A priority that nobody provided for counts as 0; in the sensible
    /// form it gets the band of its template.
    fn band(&self, processor: &mut Processor, priority: i64) -> usize {
        let registry = &mut processor.registry;
        if let Some(at) = registry.find(priority) {
            return at;
        }
        if self.0.behavior == Behavior::Fixed {
            registry.provide(priority);
        } else {
            tracing::debug!(priority, "no band for a request's priority; it is queued as of priority 0");
        }
        registry.find(priority).or_else(|| registry.find(0)).expect("band 0 is always there")
    }

    /// Takes the priorities that the control plane asks for, in place of those before.
    pub fn set_desired_priorities(&self, priorities: impl IntoIterator<Item = i64>) {
        self.0.processor.borrow_mut().registry.set_desired(priorities);
    }

    /// Ends every wait, and refuses every request from now on.
    pub fn shut_down(&self) {
        let now = self.0.rt.now();
        self.0.processor.borrow_mut().shut_down(now);
    }

    /// Returns the requests that wait and their bytes; those that are dead and not swept yet count.
    pub fn queued(&self) -> (usize, u64) {
        self.0.processor.borrow().queued()
    }

    /// Returns the state of every band, the highest priority first.
    pub fn bands(&self) -> Vec<BandState> {
        let processor = self.0.processor.borrow();
        let state = |band: &super::registry::Band| BandState {
            priority: band.settings.priority,
            requests: band.flows.len(),
            bytes: band.flows.bytes(),
            flows: band.flows.iter().map(|(id, _)| Rc::clone(id)).collect(),
        };
        processor.registry.bands().iter().map(state).collect()
    }

    /// Returns whether requests of this priority are to be told when they were queued.
    pub fn wants_enqueue_time(&self, priority: i64) -> bool {
        let processor = self.0.processor.borrow();
        let registry = &processor.registry;
        let band = registry.find(priority).or_else(|| registry.find(0)).map(|at| &registry.bands()[at]);
        band.is_some_and(|band| band.settings.fairness.plugin.wants_enqueue_time())
    }

    fn explain(&self, item: ItemId) -> Option<String> {
        self.0.processor.borrow().explain(item)
    }
}

impl Shared {
    /// Wakes the ticker if it sleeps longer than it may now.
    fn look_again(&self) {
        if ticker::next(self) < self.wakes.get() {
            self.alarm.notify_one();
        }
    }

    fn sweep_interval(&self) -> Duration {
        self.settings.controller.expiry_cleanup_interval
    }
}

impl fmt::Debug for FlowController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowController").field("bands", &self.bands()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("settings", &self.settings).finish_non_exhaustive()
    }
}
