use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::rc::Rc;
use std::time::Duration;

use super::core::{Core, Settings};
use super::net::Network;
use super::schedule::Schedule;
use super::trace::EventSink;
use crate::live::World;
use crate::local::Locals;
use crate::{Instant, Interrupt, Policy, Rt, RunReport, WallTime, Watchdog};

/// A simulation: one run of hosted code on a discrete-event clock, on this thread.
///
/// # Determinism
/// Everything that happens is a function of the seed, the builder's values and the program. Two runs agree in
/// [`RunReport::digest`], within a process, across processes and across build profiles.
pub struct Sim {
    core: Core,
    // A run belongs to the thread that starts it.
    not_send: std::marker::PhantomData<Rc<()>>,
}

impl Sim {
    /// Returns a simulation with default settings.
    pub fn new(seed: u64) -> Self {
        Self::builder().seed(seed).build()
    }

    /// Returns a builder: seed 0, epoch 2000-01-01, exact timers, no limits, a strict watchdog.
    pub fn builder() -> SimBuilder {
        SimBuilder {
            settings: Settings {
                seed: 0,
                epoch: WallTime::SIM_EPOCH,
                granularity: 0,
                max_time: Instant::MAX,
                max_events: u64::MAX,
                max_tasks: usize::MAX,
                network: Network::Direct,
                interrupt: Interrupt::default(),
                schedule: None,
                watchdog: Watchdog::default(),
                replay: None,
            },
            locals: Locals::default(),
            sink: None,
            world: None,
        }
    }

    /// Runs the root future and everything it starts.
    ///
    /// The run ends when the root and all other tasks but daemons have ended, when nothing can go on any more,
    /// when the root panics, or at a limit. What is left is then dropped: foreground tasks first, daemons
    /// after them, each in the order of spawning.
    #[track_caller]
    pub fn run<F, Fut>(self, root: F) -> Run<Fut::Output>
    where
        F: FnOnce(Rt) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        self.run_at(Location::caller(), root)
    }

    /// As [`run`](Self::run), for a caller further out.
    pub(crate) fn run_at<F, Fut>(self, place: &'static Location<'static>, root: F) -> Run<Fut::Output>
    where
        F: FnOnce(Rt) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        let rt = Rt::sim(self.core.id());
        let output = Rc::new(Cell::new(None));
        let out = Rc::clone(&output);
        let report = self.core.run(place, async move { out.set(Some(root(rt).await)) });
        Run { output: output.take(), report }
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").finish_non_exhaustive()
    }
}

/// What a run gave.
#[derive(Debug)]
pub struct Run<T> {
    /// The output of the root future, if it ended.
    pub output: Option<T>,
    /// What the run was and what was found in it.
    pub report: RunReport,
}

impl<T> Run<T> {
    /// Returns the output of a clean run.
    ///
    /// # Panics
    /// With the report, when the run did not complete or anything was found.
    #[track_caller]
    pub fn unwrap(self) -> T {
        match self.output {
            Some(output) if self.report.is_clean() => output,
            _ => panic!("the run was not clean: {}", self.report),
        }
    }
}

/// Configures a [`Sim`].
pub struct SimBuilder {
    settings: Settings,
    locals: Locals,
    sink: Option<Box<dyn EventSink>>,
    world: Option<Rc<World>>,
}

impl SimBuilder {
    /// Sets the seed of all random streams.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Sets the wall time at the start.
    pub fn epoch(mut self, epoch: WallTime) -> Self {
        self.settings.epoch = epoch;
        self
    }

    /// Rounds deadlines up to multiples of `step`; a millisecond is what tokio does. Zero is exact.
    pub fn granularity(mut self, step: Duration) -> Self {
        self.settings.granularity = (Instant::ZERO + step).as_nanos();
        self
    }

    /// Ends the run before the first event later than `limit` after the start.
    pub fn max_time(mut self, limit: Duration) -> Self {
        self.settings.max_time = Instant::ZERO + limit;
        self
    }

    /// Ends the run after so many events.
    pub fn max_events(mut self, limit: u64) -> Self {
        self.settings.max_events = limit;
        self
    }

    /// Ends the run when more tasks than `limit` exist at a time.
    pub fn max_tasks(mut self, limit: usize) -> Self {
        self.settings.max_tasks = limit;
        self
    }

    /// Sets how HTTP travels. Default: [`Network::Direct`].
    pub fn network(mut self, network: Network) -> Self {
        self.settings.network = network;
        self
    }

    /// Ends the run once `interrupt` has noted a signal, the next time simulated time would move. Until then the
    /// run is what it is without it.
    pub fn interrupt(mut self, interrupt: Interrupt) -> Self {
        self.settings.interrupt = interrupt;
        self
    }

    /// Sets the order of what is due at one instant. Default: first in, first out.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.settings.schedule = Some(schedule);
        self
    }

    /// Sets what becomes of findings. Default: [`Policy::Strict`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.settings.watchdog.policy = policy;
        self
    }

    /// Sets from when on the watchdog speaks, and its policy.
    pub fn watchdog(mut self, watchdog: Watchdog) -> Self {
        self.settings.watchdog = watchdog;
        self
    }

    /// Sets the command that the report ends with: it repeats this run. Default: what this process was called with, or
    /// the test that runs.
    pub fn replay(mut self, command: impl Into<String>) -> Self {
        self.settings.replay = Some(command.into());
        self
    }

    /// Gives a value to [`Rt::local`].
    pub fn local<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.locals.insert(value);
        self
    }

    /// Lets `world` drive the run.
    pub(crate) fn in_world(mut self, world: Rc<World>) -> Sim {
        self.world = Some(world);
        // What has no end in sight goes on whatever is found.
        self.settings.watchdog.policy = Policy::Report;
        self.build()
    }

    /// Tells `sink` of every task and event.
    pub fn trace(mut self, sink: impl EventSink + 'static) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    /// Builds it.
    pub fn build(self) -> Sim {
        let core = Core::new(self.settings, self.locals, self.world);
        if let Some(sink) = self.sink {
            core.trace(sink);
        }
        Sim { core, not_send: std::marker::PhantomData }
    }
}

impl fmt::Debug for SimBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
