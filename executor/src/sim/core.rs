//! The state of one simulation and what tasks, timers and tickets do to it.
//!
//! Rule of this module: no code of a user runs while the state is borrowed. Futures, outcomes and foreign
//! wakers are moved out first, then polled, dropped or woken.

mod joins;
mod run;
mod waits;
mod watch;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cell;
use super::digest::Digest;
use super::inbox::Inbox;
use super::net::{Network, Roads};
use super::ring::Rings;
use super::schedule::Schedule;
use super::services::Services;
use super::slot::{ABORTED, BY_OUTSIDE, DAEMON, DONE, HANDLE, QUEUED, Slots, Start, Target};
use super::ticket::Tickets;
use super::trace::{EventSink, TaskStart, Trace};
use super::waker::{self, Word};
use super::wheel::Wheel;
use crate::live::World;
use crate::local::Locals;
use crate::watch::{Beat, Finding, FindingKind, Outcome, Peaks, Policy, Watchdog};
use watch::Pulse;

use crate::{Class, Instant, Interrupt, Stream, WallTime};

/// Names one simulation among all of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(u64);

impl Id {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Id(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// The 12 bits of it that fit into a waker.
    #[inline]
    pub(super) fn executor(self) -> u16 {
        self.0 as u16 & 0xfff
    }

    /// A number that differs between simulations whose 12 bits are equal.
    pub(super) fn scrambled(self) -> u32 {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
    }

    /// Calls `f` with the core if this simulation is what runs on this thread.
    pub(crate) fn find<R>(self, f: impl FnOnce(&Core) -> R) -> Option<R> {
        waker::with(self, f)
    }

    /// Calls `f` with the core.
    ///
    /// # Panics
    /// When this simulation is not what runs on this thread.
    #[inline]
    #[track_caller]
    pub(crate) fn with<R>(self, f: impl FnOnce(&Core) -> R) -> R {
        match waker::with(self, f) {
            Some(result) => result,
            None => panic!("a handle of a simulation was used outside its run"),
        }
    }
}

/// What the builder decides.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) seed: u64,
    pub(super) epoch: WallTime,
    /// Nanoseconds to whose multiples deadlines are rounded up.
    pub(super) granularity: u64,
    pub(super) max_time: Instant,
    pub(super) max_events: u64,
    pub(super) max_tasks: usize,
    pub(super) network: Network,
    pub(super) interrupt: Interrupt,
    pub(super) schedule: Option<Schedule>,
    pub(super) watchdog: Watchdog,
    /// The command that repeats the run, where it was said.
    pub(super) replay: Option<String>,
}

/// One simulation.
pub(crate) struct Core {
    id: Id,
    settings: Settings,
    /// What drives the run from outside; `None` for a simulation, which is alone.
    world: Option<Rc<World>>,
    now: Cell<Instant>,
    /// The task that is polled.
    running: Cell<Option<Word>>,
    /// What wakes now is the end of a registered wait.
    resolving: Cell<bool>,
    beat: Arc<Beat>,
    state: RefCell<State>,
    inbox: Arc<Inbox>,
    locals: RefCell<Locals>,
    pub(super) services: RefCell<Services>,
    pub(super) roads: RefCell<Roads>,
    /// The random streams that were opened, and where.
    streams: RefCell<BTreeMap<String, &'static Location<'static>>>,
}

struct State {
    rings: Rings,
    wheel: Wheel<Entry>,
    slots: Slots,
    tickets: Tickets,
    events: u64,
    polls: u64,
    digest: Digest,
    /// Tasks spawned so far: the number of the next.
    spawned: u32,
    /// Tasks that have not ended.
    live: usize,
    /// Those among them that keep the run going.
    foreground: usize,
    peaks: Peaks,
    /// Set when the run must end whatever is due.
    stop: Option<Outcome>,
    /// The run is over, and what is left is being dropped.
    closing: bool,
    /// The task whose turn it is: what wakes another. See [`Slot::woken_by`](super::slot::Slot::woken_by).
    by: u32,
    pulse: Pulse,
    findings: Vec<Finding>,
    left_out: u64,
    /// Whoever wants to know of every event.
    trace: Option<Box<Trace>>,
}

/// A timer in the wheel.
struct Entry {
    target: Target,
    class: Class,
    place: &'static Location<'static>,
}

/// How [`Core::spawn`] treats a task.
#[derive(Clone, Copy)]
pub(crate) struct Spawn {
    pub(crate) name: &'static str,
    pub(crate) place: &'static Location<'static>,
    pub(crate) class: Class,
    pub(crate) daemon: bool,
}

impl Core {
    pub(super) fn new(settings: Settings, locals: Locals, world: Option<Rc<World>>) -> Self {
        let id = Id::next();
        let state = State {
            rings: Rings::new(settings.schedule.clone()),
            wheel: Wheel::new(),
            slots: Slots::new(id),
            tickets: Tickets::new(),
            events: 0,
            polls: 0,
            digest: Digest::new(settings.seed),
            spawned: 0,
            live: 0,
            foreground: 0,
            peaks: Peaks::default(),
            stop: None,
            closing: false,
            by: BY_OUTSIDE,
            pulse: Pulse::start(settings.max_events, &settings.watchdog),
            findings: Vec::new(),
            left_out: 0,
            trace: None,
        };
        let traces = settings.watchdog.policy != Policy::Off;
        let beat = Beat::watched(settings.watchdog.blocking);
        let roads = RefCell::new(Roads::new(&settings.network));
        Core {
            id,
            settings,
            world,
            now: Cell::new(Instant::ZERO),
            running: Cell::new(None),
            resolving: Cell::new(false),
            beat,
            state: RefCell::new(state),
            inbox: Inbox::register(id, traces),
            locals: RefCell::new(locals),
            services: RefCell::default(),
            roads,
            streams: RefCell::default(),
        }
    }

    /// Tells `sink` of every task and event.
    pub(super) fn trace(&self, sink: Box<dyn EventSink>) {
        self.state.borrow_mut().trace = Some(Box::new(Trace::new(Some(sink))));
    }

    #[inline]
    pub(super) fn id(&self) -> Id {
        self.id
    }

    pub(crate) fn world(&self) -> Option<&Rc<World>> {
        self.world.as_ref()
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        self.now.get()
    }

    pub(crate) fn wall(&self) -> WallTime {
        self.settings.epoch + (self.now() - Instant::ZERO)
    }

    pub(crate) fn local<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let found = self.locals.borrow().get::<T>();
        found.unwrap_or_else(|| {
            // Made while nothing is borrowed, for a default may use the runtime.
            let value = T::default();
            let mut locals = self.locals.borrow_mut();
            locals.insert(value);
            locals.get_or_default()
        })
    }

    pub(crate) fn stream(&self, name: &str, place: &'static Location<'static>) -> Stream {
        let before = self.streams.borrow_mut().insert(name.to_owned(), place);
        if let Some(before) = before {
            let detail = format!("{name:?} at {place}, and before at {before}");
            self.report(FindingKind::StreamReused, detail, Vec::new());
        }
        Stream::new(self.settings.seed, name)
    }

    /// Starts a task: it has a join handle, and its first poll is due now.
    #[inline]
    pub(crate) fn spawn<F>(&self, how: Spawn, future: F) -> Word
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let mut cell = cell::boxed(future);
        if self.state.borrow().closing {
            // Nothing runs any more. Dropped at once, so that a drop that spawns comes to an end.
            cell.as_mut().cancel();
            let state = &mut *self.state.borrow_mut();
            let (task, flags, by) = (state.spawned, HANDLE | DONE, state.by);
            return state
                .slots
                .insert(cell, Start { task, flags, class: how.class, name: how.name, place: how.place, by });
        }
        let state = &mut *self.state.borrow_mut();
        let task = state.spawned;
        state.spawned += 1;
        state.live += 1;
        state.peaks.tasks = state.peaks.tasks.max(state.live);
        if state.live > self.settings.max_tasks {
            state.stop.get_or_insert(Outcome::TaskLimit);
        }
        let daemon = if how.daemon { DAEMON } else { 0 };
        state.foreground += usize::from(!how.daemon);
        let site =
            u64::from(how.place.line()) << 24 | u64::from(how.place.column()) << 8 | how.name.len() as u64;
        state.digest.event(self.now().as_nanos(), site << 16 ^ u64::from(task));
        let flags = HANDLE | QUEUED | daemon;
        let start = Start { task, flags, class: how.class, name: how.name, place: how.place, by: state.by };
        let word = state.slots.insert(cell, start);
        state.rings.push(how.class, word.slot());
        if let Some(trace) = &mut state.trace {
            let (name, place, at, daemon) = (how.name, how.place, self.now(), how.daemon);
            trace.spawned(&TaskStart { number: task, name, place, at, daemon });
        }
        word
    }

    #[inline]
    pub(super) fn wake(&self, word: Word) {
        // A task that wakes itself in its poll has registered that it goes on.
        if !self.resolving.get() && self.running.get() != Some(word) {
            self.woken_raw(word);
        }
        self.state.borrow_mut().enqueue(word, None);
    }

    #[inline]
    pub(super) fn count_wakers(&self, word: Word, delta: i32) {
        if let Some(slot) = self.state.borrow_mut().slots.get(word) {
            slot.wakers += delta;
        }
    }

    /// Has the next turn of the task drop its future; queues that turn.
    pub(super) fn abort(&self, word: Word) {
        let state = &mut *self.state.borrow_mut();
        if let Some(slot) = state.slots.get(word)
            && !slot.has(DONE)
        {
            slot.flags |= ABORTED;
            state.enqueue(word, None);
        }
    }

    /// Mixes `value` into the digest.
    pub(super) fn note(&self, value: u64) {
        self.state.borrow_mut().digest.event(self.now().as_nanos(), value);
    }

    /// Ends the run behind this event as one that does not get on.
    pub(super) fn give_up(&self, why: String) {
        let state = &mut *self.state.borrow_mut();
        if state.stop.is_none() {
            state.stop = Some(Outcome::Starvation);
            state.pulse.given_up = Some(why);
        }
    }

    pub(super) fn events(&self) -> u64 {
        self.state.borrow().events
    }
}

impl State {
    /// Makes the next poll of a task due, unless it is or the task has ended.
    #[inline]
    fn enqueue(&mut self, word: Word, class: Option<Class>) {
        if let Some(slot) = self.slots.get(word)
            && slot.flags & (QUEUED | DONE) == 0
        {
            slot.flags |= QUEUED;
            slot.woken_by = self.by;
            self.rings.push(class.unwrap_or(slot.class), word.slot());
            if let Some(trace) = &mut self.trace {
                trace.due(slot.task);
            }
        }
    }

    /// Counts a wait of `owner` more or fewer.
    #[inline]
    fn add_wait(&mut self, owner: Word) {
        if let Some(slot) = self.slots.get(owner) {
            slot.waits += 1;
        }
    }

    #[inline]
    fn remove_wait(&mut self, owner: Word) {
        if let Some(slot) = self.slots.get(owner) {
            slot.waits = slot.waits.saturating_sub(1);
        }
    }
}
