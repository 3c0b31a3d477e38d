//! What other threads, and code outside the run, have to say to an executor.

use std::backtrace::Backtrace;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{Thread, ThreadId};

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
pub(super) struct Inbox {
    any: AtomicBool,
    /// The thread that sleeps while nothing comes.
    sleeper: OnceLock<Thread>,
    letters: Mutex<Vec<Letter>>,
    /// The thread that the executor runs on.
    owner: ThreadId,
    /// Whether a wake takes its backtrace along.
    traces: bool,
}

/// A message, and where it came from.
pub(super) struct Letter {
    pub(super) message: Message,
    pub(super) thread: Thread,
    /// The thread is the executor's own.
    pub(super) own: bool,
    pub(super) trace: Option<Backtrace>,
}

impl Inbox {
    /// Creates the inbox of `id` and makes it known to [`post`].
    pub(super) fn register(id: Id, traces: bool) -> Arc<Self> {
        let inbox = Arc::new(Inbox {
            any: AtomicBool::new(false),
            sleeper: OnceLock::new(),
            letters: Mutex::default(),
            owner: std::thread::current().id(),
            traces,
        });
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(_, inbox)| inbox.strong_count() > 0);
        known.push((id.executor(), Arc::downgrade(&inbox)));
        inbox
    }

    /// Has messages wake this thread.
    pub(super) fn wake_this_thread(&self) {
        let _ = self.sleeper.set(std::thread::current());
    }

    /// Takes the messages.
    pub(super) fn take(&self) -> Vec<Letter> {
        if !self.any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.store(false, Ordering::Release);
        std::mem::take(&mut letters)
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
    let thread = std::thread::current();
    let trace = (inbox.traces && message.is_wake()).then(Backtrace::force_capture);
    let letter = Letter { message, own: thread.id() == inbox.owner, thread, trace };
    inbox.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
    inbox.any.store(true, Ordering::Release);
    if let Some(sleeper) = inbox.sleeper.get() {
        sleeper.unpark();
    }
}
