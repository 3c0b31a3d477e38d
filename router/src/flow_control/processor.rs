//! The state of flow control, and what each event does to it (flow-control spec 6).

mod dispatch;
mod sweep;

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use executor::{Instant, Unpark};
use slab::Slab;

use super::candidates::CachedLocator;
use super::flows::FlowKey;
use super::measure::{Measures, WaitLabels};
use super::ordering::Arrival;
use super::outcome::{Ended, Reason};
use super::queue::{ItemId, QueueHandle, Ties};
use super::reclamation::Reclamation;
use super::registry::Registry;
use super::settings::Settings;
use super::usage_limits::UsageLimitPolicy;
use crate::admission::SaturationDetector;
use crate::config::schema::Behavior;

/// Bands, flows and everyone who waits. Passive: [`FlowController`](super::FlowController) tells it what happens when.
pub(super) struct Processor {
    pub(super) registry: Registry,
    items: Slab<Item>,
    /// When the time of each waiting item is up.
    deadlines: BTreeSet<(Instant, ItemId)>,
    /// Items that are dead and still queued.
    zombies: usize,
    pub(super) pool: Rc<CachedLocator>,
    pool_is_empty: bool,
    detector: Rc<dyn SaturationDetector>,
    usage_limits: Rc<dyn UsageLimitPolicy>,
    ceilings: Vec<f64>,
    /// As the last cycle saw it.
    saturation: f64,
    /// Whether the last cycle let an item go.
    went: bool,
    /// When items went, of those that may not show in the saturation yet; kept in the sensible form alone.
    unseen: VecDeque<Instant>,
    pub(super) reclamation: Option<Reclamation>,
    pub(super) measures: Measures,
    behavior: Behavior,
    is_shut_down: bool,
}

/// One request that waits, or has waited and has not been told yet.
struct Item {
    priority: i64,
    flow: FlowKey,
    enqueued: Instant,
    /// When its time is up; [`Instant::MAX`] = never.
    deadline: Instant,
    /// Where it is queued; `None` before and after.
    handle: Option<QueueHandle>,
    /// Whether whoever waits for it has to be told.
    is_awaited: bool,
    state: State,
    labels: Rc<WaitLabels>,
}

/// A hundred thousand items wait where a pool is overloaded for a while: what one has only then shares its room.
enum State {
    /// It waits, and with it whoever is to be woken.
    Waits(Option<Unpark>),
    Ended(Ended),
}

impl Item {
    fn ended(&self) -> Option<&Ended> {
        match &self.state {
            State::Waits(_) => None,
            State::Ended(ended) => Some(ended),
        }
    }
}

/// A request that asks to be queued.
pub(super) struct Entrant<'a> {
    pub(super) band: usize,
    pub(super) flow_id: &'a str,
    pub(super) bytes: u64,
    pub(super) arrival: Arrival<'a>,
    pub(super) deadline: Option<Instant>,
    pub(super) labels: Rc<WaitLabels>,
}

impl Processor {
    pub(super) fn new(
        settings: &Settings,
        detector: Rc<dyn SaturationDetector>,
        pool: Rc<CachedLocator>,
        reclamation: Option<Reclamation>,
        measures: Measures,
        behavior: Behavior,
    ) -> Self {
        let ties = match behavior {
            Behavior::Parity => Ties::Heap,
            Behavior::Fixed => Ties::Arrival,
        };
        Processor {
            registry: Registry::new(settings.registry.clone(), ties),
            items: Slab::new(),
            deadlines: BTreeSet::new(),
            zombies: 0,
            pool,
            pool_is_empty: false,
            detector,
            usage_limits: Rc::clone(&settings.usage_limits.plugin),
            ceilings: Vec::new(),
            saturation: 0.0,
            went: false,
            unseen: VecDeque::new(),
            reclamation,
            measures,
            behavior,
            is_shut_down: false,
        }
    }

    /// Queues a request if there is room, and runs a dispatch cycle in either case.
    ///
    /// Returns how it ended, or the item that waits.
    pub(super) fn enter(&mut self, entrant: Entrant<'_>, now: Instant) -> Result<ItemId, Ended> {
        let Entrant { band, flow_id, bytes, arrival, deadline, labels } = entrant;
        let enqueued = arrival.enqueued;
        if self.is_shut_down {
            return Err(Ended::of(Reason::Shutdown, false));
        }
        if let Some(collected) = self.registry.make_room(band, now) {
            self.forget(&collected);
        }
        let has_room = self.registry.has_room(band, bytes);
        let priority = self.registry.priorities()[band];
        let band = self.registry.band_mut(band);
        let flow = band.acquire(flow_id);
        let mut item = Item {
            priority,
            flow,
            enqueued,
            deadline: deadline.unwrap_or(Instant::MAX),
            handle: None,
            is_awaited: true,
            state: State::Waits(None),
            labels,
        };
        let id = ItemId(u32::try_from(self.items.vacant_key()).expect("fewer than 2^32 requests wait"));
        if has_room {
            item.handle = Some(band.flows.add(flow, id, &arrival, bytes));
            self.deadlines.extend(deadline.filter(|at| *at < Instant::MAX).map(|at| (at, id)));
        }
        let key = self.items.insert(item);
        debug_assert_eq!(key, id.0 as usize);
        let refused = (!has_room).then(|| Ended::refused(self.pool_is_empty));
        let labels = Rc::clone(&self.items[key].labels);
        self.measures.enqueued(&labels, refused.as_ref().map(|refused| refused.outcome), now);
        if let Some(refused) = refused {
            self.finalize(id, refused, now);
        }
        self.cycle(now);
        match self.take_ended(id) {
            Some(ended) => Err(ended),
            None => Ok(id),
        }
    }

    /// Returns how an item ended and forgets it; `None` while it waits.
    pub(super) fn take_ended(&mut self, id: ItemId) -> Option<Ended> {
        let item = &mut self.items[id.0 as usize];
        let ended = item.ended()?.clone();
        item.is_awaited = false;
        self.forget_if_done(id);
        Some(ended)
    }

    /// Leaves what wakes whoever waits for an item.
    pub(super) fn wait(&mut self, id: ItemId, waiter: Unpark) {
        match &mut self.items[id.0 as usize].state {
            State::Waits(waiting) => *waiting = Some(waiter),
            State::Ended(_) => {
                waiter.unpark();
            }
        }
    }

    /// Ends an item's wait, unless it has ended.
    pub(super) fn give_up(&mut self, id: ItemId, reason: Reason, now: Instant) {
        let was_queued = self.items[id.0 as usize].handle.is_some();
        self.finalize(id, Ended::of(reason, was_queued), now);
    }

    /// Ends the waits whose time is up.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some((deadline, id)) = self.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            self.give_up(id, Reason::TimeIsUp, now);
        }
    }

    /// Returns when the next wait has to end.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Sets an item's end; the first one stays. Whoever waits is woken, and the flow is given back.
    fn finalize(&mut self, id: ItemId, ended: Ended, now: Instant) {
        let item = &mut self.items[id.0 as usize];
        let State::Waits(waiter) = &mut item.state else { return };
        let waiter = waiter.take();
        if item.deadline < Instant::MAX {
            self.deadlines.remove(&(item.deadline, id));
        }
        self.measures.waited(&item.labels, ended.outcome, now - item.enqueued);
        item.state = State::Ended(ended);
        let (priority, flow, enqueued) = (item.priority, item.flow, item.enqueued);
        let is_zombie = item.handle.is_some();
        if let Some(band) = self.registry.find(priority) {
            self.registry.band_mut(band).release(flow, enqueued);
        }
        if is_zombie {
            self.zombies += 1;
            if self.behavior == Behavior::Fixed {
                self.unqueue(id);
            }
        }
        if let Some(waiter) = waiter {
            waiter.unpark();
        }
    }

    /// Takes an item out of its queue.
    fn unqueue(&mut self, id: ItemId) {
        let item = &mut self.items[id.0 as usize];
        let Some(handle) = item.handle.take() else { return };
        let (priority, flow, is_zombie) = (item.priority, item.flow, item.ended().is_some());
        if let Some(band) = self.registry.find(priority) {
            // The handle says that it is there.
            let removed = self.registry.band_mut(band).flows.remove(flow, handle);
            debug_assert!(removed.is_ok());
        }
        self.has_left(id, is_zombie);
    }

    /// Notes that an item is in no queue any more.
    fn has_left(&mut self, id: ItemId, was_zombie: bool) {
        self.zombies -= usize::from(was_zombie);
        self.items[id.0 as usize].handle = None;
        self.forget_if_done(id);
    }

    fn forget_if_done(&mut self, id: ItemId) {
        let item = &self.items[id.0 as usize];
        if !item.is_awaited && item.handle.is_none() {
            self.items.remove(id.0 as usize);
        }
    }

    /// Ends every wait. Nothing is queued afterwards.
    pub(super) fn shut_down(&mut self, now: Instant) {
        self.is_shut_down = true;
        let all: Vec<ItemId> = self.items.iter().map(|(key, _)| ItemId(key as u32)).collect();
        for id in all {
            self.give_up(id, Reason::Shutdown, now);
            self.unqueue(id);
        }
    }

    pub(super) fn is_shut_down(&self) -> bool {
        self.is_shut_down
    }

    /// Returns what an item waits for: its band, its flow, how many are before it there, and how full the pool is; gated
    /// is a band that the last cycle found the pool too full for.
    pub(super) fn explain(&self, id: ItemId) -> Option<String> {
        let item = self.items.get(id.0 as usize).filter(|item| item.ended().is_none())?;
        let at = self.registry.find(item.priority)?;
        let band = &self.registry.bands()[at];
        let flow = band.flows.id(item.flow);
        let ahead = band.flows.queue(item.flow).ahead(item.handle?);
        // A cycle ends at the first band that is gated.
        let ceilings = self.ceilings.iter().take(at + 1);
        let is_gated = ceilings.into_iter().any(|ceiling| self.saturation >= *ceiling);
        let gate = if is_gated { "gated by saturation" } else { "pool saturation" };
        let (priority, saturation) = (item.priority, self.saturation);
        Some(format!("queued in band {priority}, flow {flow}, behind {ahead}, {gate} {saturation:.2}"))
    }

    /// Returns the requests that wait and their bytes, dead ones included.
    pub(super) fn queued(&self) -> (usize, u64) {
        self.registry.queued()
    }

    /// Returns whether the next cycle need not wait for the next tick.
    pub(super) fn goes_on(&self) -> bool {
        self.behavior == Behavior::Fixed && self.went && self.queued().0 > 0
    }

    /// Returns whether a cycle would change nothing but what was looked up of the pool, until something arrives.
    pub(super) fn is_quiet(&self) -> bool {
        self.queued().0 == 0
            && !(self.usage_limits.counts_cycles() && self.registry.priorities().len() > 1)
            && self.registry.bands().iter().all(|band| band.fairness.is_settled())
    }
}
