use super::wait_queue::WaitQueue;
use crate::Unpark;

/// Counted permits with a fair queue: the state inside a lock of a semaphore or of a bounded channel.
#[derive(Debug)]
pub(super) struct Permits {
    free: usize,
    queue: WaitQueue,
}

impl Permits {
    pub(super) fn new(free: usize) -> Self {
        Permits { free, queue: WaitQueue::default() }
    }

    pub(super) fn free(&self) -> usize {
        self.free
    }

    /// Takes `n` permits unless an earlier wait would be overtaken.
    pub(super) fn try_take(&mut self, n: usize) -> bool {
        let taken = self.free >= n && self.queue.front().is_none();
        if taken {
            self.free -= n;
        }
        taken
    }

    /// Queues a wait for `n` permits.
    pub(super) fn wait(&mut self, n: usize, unpark: Unpark) {
        self.queue.push(n, unpark);
    }

    pub(super) fn put(&mut self, n: usize) {
        self.free = self.free.saturating_add(n);
    }

    /// Takes the next wait that can be served and its permits out: to be unparked without the lock, and the
    /// permits put back if that finds nobody.
    pub(super) fn next_served(&mut self) -> Option<(usize, Unpark)> {
        let asks = self.queue.front()?;
        if asks > self.free {
            return None;
        }
        self.free -= asks;
        self.queue.pop().map(|unpark| (asks, unpark))
    }

    /// Takes all waits: dropping them abandons their parks.
    pub(super) fn close(&mut self) -> impl Drop + use<> {
        self.queue.take()
    }
}
