//! What other threads, and code outside the run, have to say to an executor.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::Thread;

use super::core::Id;
use super::ticket::TicketKey;
use super::waker::Word;

#[derive(Clone, Copy, Debug)]
pub(super) enum Message {
    Wake(Word),
    Abort(Word),
    /// The join handle was dropped.
    Detach(Word),
    /// So many wakers more or fewer exist.
    Wakers(Word, i32),
    /// Ends a parked wait.
    Resolve(TicketKey, u8),
}

impl Message {
    /// Whether it makes something happen, at a time that no run repeats.
    pub(super) fn is_wake(self) -> bool {
        matches!(self, Message::Wake(_) | Message::Abort(_) | Message::Resolve(..))
    }
}

/// The inbox of one executor. One each: a common one would be drained by whichever executor looks first.
#[derive(Default)]
pub(super) struct Inbox {
    any: AtomicBool,
    /// The thread that sleeps while nothing comes.
    sleeper: OnceLock<Thread>,
    messages: Mutex<Vec<(Message, String)>>,
}

impl Inbox {
    /// Creates the inbox of `id` and makes it known to [`post`].
    pub(super) fn register(id: Id) -> Arc<Self> {
        let inbox = Arc::new(Inbox::default());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, inbox)| inbox.strong_count() > 0);
        known.push((id.executor(), Arc::downgrade(&inbox)));
        inbox
    }

    /// Has messages wake this thread.
    pub(super) fn wake_this_thread(&self) {
        let _ = self.sleeper.set(std::thread::current());
    }

    /// Takes the messages, each with the name of the thread it came from.
    pub(super) fn take(&self) -> Vec<(Message, String)> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut messages)
    }
}

static KNOWN: Mutex<Vec<(u16, Weak<Inbox>)>> = Mutex::new(Vec::new());

/// Leaves `message` for `executor`; does nothing if it is gone.
#[cold]
pub(super) fn post(executor: u16, message: Message) {
    let inbox = {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest of that number: older ones are gone, or about to be.
        known.iter().rev().find(|(number, _)| *number == executor).and_then(|(_, inbox)| inbox.upgrade())
    };
    let Some(inbox) = inbox else { return };
    let thread = std::thread::current().name().unwrap_or("unnamed").to_owned();
    inbox.messages.lock().unwrap_or_else(PoisonError::into_inner).push((message, thread));
    inbox.any.store(true, Ordering::Release);
    if let Some(sleeper) = inbox.sleeper.get() {
        sleeper.unpark();
    }
}
