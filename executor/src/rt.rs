//! The handle.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::http::Transport;
use crate::live::Intake;
use crate::park::{ParkInner, UnparkInner};
use crate::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use crate::{
    Class, Instant, Interval, JoinHandle, Missed, Park, Simulation, Sleep, Stream, Timeout, Unpark, WallTime,
    Why, real, sim,
};

/// A handle to the runtime that hosts this code: cheap to clone, passed explicitly.
///
/// Under [`Real`](crate::Real) every method works on every thread of the runtime. Under the simulation the
/// methods work on its thread while it runs.
#[derive(Clone)]
pub struct Rt(Inner);

#[derive(Clone)]
enum Inner {
    Real(Arc<real::Core>),
    Sim(sim::Id),
}

impl Rt {
    pub(crate) fn real(core: Arc<real::Core>) -> Self {
        Rt(Inner::Real(core))
    }

    pub(crate) fn sim(id: sim::Id) -> Self {
        Rt(Inner::Sim(id))
    }

    /// Returns the monotonic time. Under the simulation it is constant within an event.
    pub fn now(&self) -> Instant {
        match &self.0 {
            Inner::Real(core) => core.now(),
            Inner::Sim(id) => id.with(|core| core.now()),
        }
    }

    /// Returns the wall time, for values that leave the process. Under the simulation: its epoch plus
    /// [`now`](Self::now).
    pub fn wall(&self) -> WallTime {
        match &self.0 {
            Inner::Real(core) => core.wall(),
            Inner::Sim(id) => id.with(|core| core.wall()),
        }
    }

    /// Returns a future that is ready after `duration`.
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.sleep_until(self.now() + duration)
    }

    /// Returns a future that is ready at `deadline`.
    #[track_caller]
    pub fn sleep_until(&self, deadline: Instant) -> Sleep {
        self.sleep_until_in(Class::Task, deadline)
    }

    /// Returns a future that is ready at `deadline`; under the simulation the task it wakes then runs as an
    /// event of `class`.
    ///
    /// This is how a simulated engine orders itself before the tasks that look at it in the same instant.
    #[track_caller]
    pub fn sleep_until_in(&self, class: Class, deadline: Instant) -> Sleep {
        let place = Location::caller();
        match &self.0 {
            Inner::Real(core) => core.sleep_until(deadline),
            Inner::Sim(id) => Sleep::sim(deadline, sim::Timer::new(*id, class, deadline, place)),
        }
    }

    /// Limits `future` to `limit` from now.
    #[track_caller]
    pub fn timeout<F: Future>(&self, limit: Duration, future: F) -> Timeout<F> {
        Timeout::new(future, self.sleep(limit))
    }

    /// Limits `future` to the time until `deadline`.
    #[track_caller]
    pub fn deadline<F: Future>(&self, deadline: Instant, future: F) -> Timeout<F> {
        Timeout::new(future, self.sleep_until(deadline))
    }

    /// Returns an interval whose first tick is due now.
    ///
    /// # Panics
    /// When `period` is zero.
    #[track_caller]
    pub fn interval(&self, period: Duration, missed: Missed) -> Interval {
        Interval::new(self, self.now(), period, missed)
    }

    /// Returns an interval whose first tick is due at `start`.
    ///
    /// # Panics
    /// When `period` is zero.
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration, missed: Missed) -> Interval {
        Interval::new(self, start, period, missed)
    }

    /// Starts a task that may run on any thread of the runtime. Never polls it inline.
    ///
    /// Under the simulation the task keeps the run going until it ends; on tokio it is dropped when the root
    /// future ends.
    #[track_caller]
    pub fn spawn<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let place = Location::caller();
        match &self.0 {
            Inner::Real(core) => core.spawn(name, place, future),
            Inner::Sim(id) => sim::spawn(*id, name, place, false, future),
        }
    }

    /// Starts a task on the core thread; its future need not be `Send`.
    ///
    /// # Panics
    /// On tokio: outside the core thread of [`Real::run`](crate::Real::run) (or another `LocalSet`).
    #[track_caller]
    pub fn spawn_local<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let place = Location::caller();
        match &self.0 {
            Inner::Real(core) => core.spawn_local(name, place, future),
            Inner::Sim(id) => sim::spawn(*id, name, place, false, future),
        }
    }

    /// Starts background work on the core thread that ends with the run and does not keep it alive.
    ///
    /// # Panics
    /// As [`spawn_local`](Self::spawn_local).
    #[track_caller]
    pub fn daemon<F>(&self, name: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let place = Location::caller();
        match &self.0 {
            Inner::Real(core) => core.spawn_local(name, place, future),
            Inner::Sim(id) => sim::spawn(*id, name, place, true, future),
        }
    }

    /// Runs CPU-heavy work where it does not hold up other tasks: on tokio's blocking pool; under the
    /// simulation inline, as an event of its own. A panic of `work` unwinds here.
    ///
    /// # Cancel safety
    /// Work that has begun goes on; its output is dropped.
    #[track_caller]
    pub fn blocking<T, W>(&self, name: &'static str, work: W) -> impl Future<Output = T> + Send + use<T, W>
    where
        W: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let place = Location::caller();
        let handle = match &self.0 {
            Inner::Real(core) => core.blocking(name, place, work),
            Inner::Sim(id) => sim::spawn(*id, name, place, false, async move { work() }),
        };
        async move {
            match handle.await {
                Ok(output) => output,
                Err(error) => {
                    // Aborted: the runtime goes down, and this future with it.
                    drop(error.resume_unwind());
                    std::future::pending().await
                }
            }
        }
    }

    /// Returns a pair: a future that waits, and what ends its wait.
    ///
    /// Under the simulation this is how a wait is known: `why` and the place of this call are in every report
    /// about the task that awaits it.
    #[track_caller]
    pub fn park(&self, why: Why) -> (Park, Unpark) {
        self.host().park(why, Location::caller())
    }

    /// Returns the random stream `name`.
    ///
    /// # Determinism
    /// Under the simulation a function of the run's seed and the name. A name belongs to one consumer: opening
    /// it twice is a finding; [`Stream::fork`] serves many.
    #[track_caller]
    pub fn stream(&self, name: &str) -> Stream {
        let place = Location::caller();
        match &self.0 {
            Inner::Real(core) => core.stream(name),
            Inner::Sim(id) => id.with(|core| core.stream(name, place)),
        }
    }

    /// Returns the runtime's value of type `T`: the one given to the builder, or a default made once.
    pub fn local<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        match &self.0 {
            Inner::Real(core) => core.locals.lock().unwrap_or_else(PoisonError::into_inner).get_or_default(),
            Inner::Sim(id) => id.with(|core| core.local()),
        }
    }

    /// Returns the transport for outbound HTTP.
    pub fn http(&self) -> Transport {
        match &self.0 {
            Inner::Real(core) => Transport::real(Arc::clone(core)),
            Inner::Sim(id) => Transport::sim(*id),
        }
    }

    /// Returns what only a simulation can do, `None` in production, live or replayed.
    pub fn simulation(&self) -> Option<Simulation> {
        match &self.0 {
            Inner::Real(_) => None,
            Inner::Sim(id) => id.with(|core| core.world().is_none()).then(|| Simulation::new(*id)),
        }
    }

    /// Returns where inputs enter a [live](crate::live) run or its replay; `None` on the other hosts.
    pub fn live(&self) -> Option<Intake> {
        match &self.0 {
            Inner::Real(_) => None,
            Inner::Sim(id) => id.with(|core| core.world().cloned()).map(Intake),
        }
    }

    /// Returns a channel for one value.
    #[track_caller]
    pub fn oneshot<T>(&self) -> (oneshot::Sender<T>, oneshot::Receiver<T>) {
        oneshot::channel(self.host(), Location::caller())
    }

    /// Returns a channel that holds at most `capacity` values.
    ///
    /// # Panics
    /// When `capacity` is zero.
    #[track_caller]
    pub fn mpsc<T>(&self, capacity: usize) -> (mpsc::Sender<T>, mpsc::Receiver<T>) {
        mpsc::bounded(self.host(), capacity)
    }

    /// Returns a channel without a bound: only for what is bounded by something else.
    #[track_caller]
    pub fn mpsc_unbounded<T>(&self) -> (mpsc::UnboundedSender<T>, mpsc::Receiver<T>) {
        mpsc::unbounded(self.host())
    }

    /// Returns a channel that holds the last value.
    pub fn watch<T>(&self, value: T) -> (watch::Sender<T>, watch::Receiver<T>) {
        watch::channel(self.host(), value)
    }

    /// Returns a notifier without a stored notification.
    pub fn notify(&self) -> Notify {
        Notify::new(self.host())
    }

    /// Returns a semaphore with `permits`.
    pub fn semaphore(&self, permits: usize) -> Semaphore {
        Semaphore::new(self.host(), permits)
    }

    pub(crate) fn host(&self) -> Host {
        match &self.0 {
            Inner::Real(_) => Host::Real,
            Inner::Sim(id) => Host::Sim(*id),
        }
    }
}

/// Which host a channel registers its waits with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Host {
    Real,
    Sim(sim::Id),
}

impl Host {
    pub(crate) fn park(self, why: Why, place: &'static Location<'static>) -> (Park, Unpark) {
        match self {
            Host::Real => {
                let (park, unpark) = real::pair();
                (Park(ParkInner::Real(park)), Unpark(UnparkInner::Real(unpark)))
            }
            Host::Sim(id) => {
                let (park, unpark) = sim::pair(id, why, place);
                (Park(ParkInner::Sim(park)), Unpark(UnparkInner::Sim(unpark)))
            }
        }
    }
}

impl fmt::Debug for Rt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Inner::Real(_) => f.write_str("Rt(Real)"),
            Inner::Sim(_) => f.write_str("Rt(Sim)"),
        }
    }
}
