use std::collections::BTreeSet;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use futures::FutureExt;
use tokio::runtime::Handle;

use super::{Client, Timer};
use crate::local::Locals;
use crate::task::Panic;
use crate::{Instant, JoinHandle, Sleep, Stream, WallTime};

/// What every handle to one tokio runtime shares.
pub(crate) struct Core {
    handle: Handle,
    base: tokio::time::Instant,
    seed: u64,
    pub(crate) locals: Mutex<Locals>,
    streams: Mutex<BTreeSet<String>>,
    connect_timeout: Duration,
    client: OnceLock<Client>,
}

impl Core {
    pub(crate) fn new(handle: Handle, seed: u64, locals: Locals, connect_timeout: Duration) -> Self {
        let base = {
            let _entered = handle.enter();
            tokio::time::Instant::now()
        };
        Core {
            handle,
            base,
            seed,
            locals: Mutex::new(locals),
            streams: Mutex::default(),
            connect_timeout,
            client: OnceLock::new(),
        }
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::ZERO + self.base.elapsed()
    }

    pub(crate) fn wall(&self) -> WallTime {
        WallTime::default() + SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    pub(crate) fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep::real(at, Timer::new(self.base, at))
    }

    pub(crate) fn spawn<F>(
        &self,
        name: &'static str,
        place: &'static Location<'static>,
        future: F,
    ) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        JoinHandle::real(self.handle.spawn(guarded(name, place, future)))
    }

    pub(crate) fn spawn_local<F>(
        &self,
        name: &'static str,
        place: &'static Location<'static>,
        future: F,
    ) -> JoinHandle<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        JoinHandle::real(tokio::task::spawn_local(guarded(name, place, future)))
    }

    pub(crate) fn blocking<T, W>(
        &self,
        name: &'static str,
        place: &'static Location<'static>,
        work: W,
    ) -> JoinHandle<T>
    where
        W: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        JoinHandle::real(self.handle.spawn_blocking(move || {
            catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panic::new(payload, name, place))
        }))
    }

    pub(crate) fn stream(&self, name: &str) -> Stream {
        let first = self.streams.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        if !first {
            tracing::warn!(name, "random stream opened twice: both users draw the same numbers");
        }
        Stream::new(self.seed, name)
    }

    pub(crate) fn client(&self) -> &Client {
        self.client.get_or_init(|| Client::new(self.connect_timeout))
    }
}

/// Keeps a panic of a task with the task's name and place, so that it is not lost.
async fn guarded<F: Future>(
    name: &'static str,
    place: &'static Location<'static>,
    future: F,
) -> Result<F::Output, Panic> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| Panic::new(payload, name, place))
}
