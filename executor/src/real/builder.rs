use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::LocalSet;

use super::Core;
use crate::Rt;
use crate::local::Locals;

/// A tokio runtime that hosts code written against [`Rt`].
///
/// The thread that calls [`run`](Real::run) is the *core thread*: [`Rt::spawn_local`] puts its tasks there.
pub struct Real {
    runtime: Runtime,
    core: Arc<Core>,
}

impl Real {
    /// Returns a builder: all processors, seeds from the operating system.
    pub fn builder() -> RealBuilder {
        RealBuilder {
            workers: None,
            seed: None,
            locals: Locals::default(),
            connect_timeout: Duration::from_secs(5),
        }
    }

    /// Returns a handle to the tokio runtime this is called in, for code that does not own it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn current() -> Rt {
        let core = Core::new(Handle::current(), entropy(), Locals::default(), Duration::from_secs(5));
        Rt::real(Arc::new(core))
    }

    /// Returns a handle.
    pub fn rt(&self) -> Rt {
        Rt::real(Arc::clone(&self.core))
    }

    /// Runs the root future to its end on this thread and returns its output.
    ///
    /// Tasks that still run then are dropped with the runtime. A panic of the root future unwinds.
    pub fn run<F, Fut>(self, root: F) -> Fut::Output
    where
        F: FnOnce(Rt) -> Fut,
        Fut: Future,
    {
        let rt = self.rt();
        let local = LocalSet::new();
        let output = self.runtime.block_on(local.run_until(async { root(rt).await }));
        // Local tasks may hold timers: they go while the runtime is there.
        let entered = self.runtime.enter();
        drop(local);
        drop(entered);
        // A blocking closure that never ends must not keep the process.
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        output
    }
}

impl fmt::Debug for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Real").finish_non_exhaustive()
    }
}

/// Configures a [`Real`].
#[derive(Debug)]
pub struct RealBuilder {
    workers: Option<usize>,
    seed: Option<u64>,
    locals: Locals,
    connect_timeout: Duration,
}

impl RealBuilder {
    /// Runs everything on the core thread.
    pub fn current_thread(self) -> Self {
        self.worker_threads(0)
    }

    /// Sets the number of threads beside the core thread; zero is [`current_thread`](Self::current_thread).
    pub fn worker_threads(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets the seed of all random streams instead of drawing it from the operating system.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Gives a value to [`Rt::local`].
    pub fn local<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.locals.insert(value);
        self
    }

    /// Sets how long opening a connection may take (5 s).
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Starts the runtime.
    ///
    /// # Errors
    /// When the operating system refuses threads or descriptors.
    pub fn build(self) -> io::Result<Real> {
        let mut builder = match self.workers {
            Some(0) => Builder::new_current_thread(),
            Some(n) => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(n);
                builder
            }
            None => Builder::new_multi_thread(),
        };
        let runtime = builder.enable_all().thread_name("lockstep").build()?;
        let seed = self.seed.unwrap_or_else(entropy);
        let core = Core::new(runtime.handle().clone(), seed, self.locals, self.connect_timeout);
        Ok(Real { runtime, core: Arc::new(core) })
    }
}

fn entropy() -> u64 {
    getrandom::u64().expect("the operating system gives entropy to every process")
}
