use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;

use super::{Client, Timer};
use crate::local::Locals;
use crate::{Instant, Sleep, Stream, WallTime};

/// What every handle to one tokio runtime shares.
pub(crate) struct Core {
    pub(crate) handle: Handle,
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
