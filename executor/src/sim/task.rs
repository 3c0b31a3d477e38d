use std::future::Future;
use std::panic::Location;
use std::task::{Context, Poll};

use super::core::{Id, Spawn};
use super::inbox::{self, Message};
use super::waker::{self, Word};
use crate::{Class, JoinError, JoinHandle};

/// Names a task of the simulation: the inside of its join and abort handles.
#[derive(Clone, Copy)]
pub(crate) struct TaskRef(Word);

/// Starts a task of [`Class::Task`].
#[inline]
pub(crate) fn spawn<F>(
    id: Id,
    name: &'static str,
    place: &'static Location<'static>,
    daemon: bool,
    future: F,
) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    let how = Spawn { name, place, class: Class::Task, daemon };
    JoinHandle::sim(TaskRef(id.with(|core| core.spawn(how, future))))
}

impl TaskRef {
    pub(super) fn new(word: Word) -> Self {
        TaskRef(word)
    }

    pub(crate) fn abort(self) {
        let word = self.0;
        if waker::with_executor(word.executor(), |core| core.abort(word)).is_none() {
            inbox::post(word.executor(), Message::Abort(word));
        }
    }

    /// True also when the run is over.
    pub(crate) fn is_finished(self) -> bool {
        waker::with_executor(self.0.executor(), |core| core.is_finished(self.0)).unwrap_or(true)
    }

    pub(crate) fn detach(self) {
        let word = self.0;
        if waker::with_executor(word.executor(), |core| core.detach(word)).is_none() {
            inbox::post(word.executor(), Message::Detach(word));
        }
    }

    /// Polls for the outcome; it can be taken once.
    #[inline]
    pub(crate) fn poll_join<T: 'static>(self, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        let mut outcome: Option<Result<T, JoinError>> = None;
        let polled = waker::with_executor(self.0.executor(), |core| core.poll_join(self.0, cx, &mut outcome));
        match polled {
            Some(Poll::Pending) => Poll::Pending,
            // None: the run is over, and with it the task.
            _ => Poll::Ready(outcome.unwrap_or_else(|| Err(JoinError::aborted()))),
        }
    }
}
