//! What waits to be taken.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::Thread;

/// Inputs from all threads, in the order of their coming.
#[derive(Default)]
pub(super) struct Queue {
    /// `None` once nothing is taken any more.
    waiting: Mutex<Option<VecDeque<Waiting>>>,
    /// The thread that takes them.
    taker: OnceLock<Thread>,
}

/// An input, and the number of its port.
pub(super) type Waiting = (u32, Box<dyn Any + Send>);

impl Queue {
    /// Returns a queue that this thread takes from.
    pub(super) fn open() -> Self {
        let queue = Queue { waiting: Mutex::new(Some(VecDeque::new())), taker: OnceLock::new() };
        queue.taken_here();
        queue
    }

    /// Returns a queue that nothing is taken from.
    pub(super) fn closed() -> Self {
        Queue::default()
    }

    fn taken_here(&self) {
        let _ = self.taker.set(std::thread::current());
    }

    pub(super) fn push<T: Send + 'static>(&self, port: u32, input: T) -> Result<(), T> {
        let first = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(waiting) = waiting.as_mut() else { return Err(input) };
            waiting.push_back((port, Box::new(input)));
            waiting.len() == 1
        };
        // It looks again before it sleeps, and takes all that is there before it looks.
        if first && let Some(taker) = self.taker.get() {
            taker.unpark();
        }
        Ok(())
    }

    pub(super) fn pop(&self) -> Option<Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).as_mut()?.pop_front()
    }

    /// Ends the taking; what waits is dropped.
    pub(super) fn close(&self) {
        let left = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(left);
    }
}
