use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;

use super::exchanges::Exchanges;
use super::queue::Queue;
use super::wall::Wall;
use super::world::{ROOT, Source, World};
use crate::journal::{Header, JournalError, Recorder, RecorderStatus, Writer, WriterOptions};
use crate::{Rt, Run, Sim, SimBuilder, WallTime};

/// The simulation's executor on the wall clock, on this thread. Its module says how it works.
///
/// Built and run on one thread, which it keeps until the root future has ended; sockets are those of a tokio
/// runtime elsewhere.
pub struct Live {
    sim: SimBuilder,
    world: World,
    recording: Option<Arc<RecorderStatus>>,
}

impl Live {
    /// Returns a builder: seed from the operating system, no recording, sockets of `tokio`.
    pub fn builder(tokio: Handle) -> LiveBuilder {
        LiveBuilder {
            tokio,
            seed: None,
            sim: Sim::builder(),
            connect_timeout: Duration::from_secs(5),
            record: None,
        }
    }

    /// Returns how the recording goes, if there is one.
    pub fn recording(&self) -> Option<&Arc<RecorderStatus>> {
        self.recording.as_ref()
    }

    /// Runs the root future until it and all other tasks but daemons have ended.
    pub fn run<F, Fut>(self, root: F) -> Run<Fut::Output>
    where
        F: FnOnce(Rt) -> Fut + 'static,
        Fut: Future + 'static,
        Fut::Output: 'static,
    {
        self.sim.in_world(Rc::new(self.world)).run_at(ROOT, root)
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live")
            .field("sim", &self.sim)
            .field("recording", &self.recording)
            .finish_non_exhaustive()
    }
}

/// Configures a [`Live`].
#[derive(Debug)]
pub struct LiveBuilder {
    tokio: Handle,
    seed: Option<u64>,
    sim: SimBuilder,
    connect_timeout: Duration,
    record: Option<(PathBuf, Header, WriterOptions)>,
}

impl LiveBuilder {
    /// Sets the seed of all random streams instead of drawing it from the operating system.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Gives a value to [`Rt::local`].
    pub fn local<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.sim = self.sim.local(value);
        self
    }

    /// Sets how long opening a connection may take (5 s).
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = limit;
        self
    }

    /// Records the run into `folder`. Of `header` subject, build and setup are taken.
    pub fn record(mut self, folder: impl Into<PathBuf>, header: Header, options: WriterOptions) -> Self {
        self.record = Some((folder.into(), header, options));
        self
    }

    /// Builds it; the clock starts here.
    ///
    /// # Errors
    /// When the journal cannot be begun.
    pub fn build(self) -> Result<Live, StartError> {
        let seed = self.seed.unwrap_or_else(entropy);
        let epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let epoch = WallTime::default() + epoch;
        let recorder = match self.record {
            Some((folder, header, options)) => {
                let header = Header { seed, epoch: epoch.unix_nanos(), ..header };
                Some(Recorder::start(Writer::create(&folder, header, options)?)?)
            }
            None => None,
        };
        let recording = recorder.as_ref().map(|recorder| Arc::clone(recorder.status()));
        let queue = Arc::new(Queue::open());
        let exchanges = Exchanges::over(self.tokio, self.connect_timeout, &queue);
        let world = World::new(Source::Wall(Wall::new(recorder)), queue, exchanges);
        Ok(Live { sim: self.sim.seed(seed).epoch(epoch), world, recording })
    }
}

/// Why a run does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The journal cannot be begun.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The operating system gives no thread.
    #[error("no thread for the journal: {0}")]
    Thread(#[from] io::Error),
}

fn entropy() -> u64 {
    getrandom::u64().expect("the operating system gives entropy to every process")
}
