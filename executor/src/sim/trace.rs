//! Telling of a run what happened in it, event by event.

use std::panic::Location;

use rustc_hash::FxHashMap;

use crate::watch::Autopsy;
use crate::{Choice, Class, Instant};

/// Sees every task and every event of a run, in order. See [`SimBuilder::trace`](crate::SimBuilder::trace).
///
/// Called in the middle of the run: it must not use a handle of the runtime.
pub trait EventSink {
    /// A task was spawned.
    fn task(&mut self, task: &TaskStart);

    /// An event is about to be executed.
    fn event(&mut self, event: &Event);
}

/// A task that was spawned.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TaskStart {
    /// Its number in the order of spawning; the root is 0.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Where it was spawned.
    pub place: &'static Location<'static>,
    /// When.
    pub at: Instant,
    /// Whether it ends with the run without keeping it alive.
    pub daemon: bool,
}

/// One event: a turn of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Its number; the first is 1.
    pub number: u64,
    /// When it is executed.
    pub at: Instant,
    /// Whose turn it is.
    pub task: u32,
    /// Its class.
    pub class: Class,
    /// Whether the task is dropped instead of polled.
    pub aborted: bool,
    /// What made it due.
    pub cause: Cause,
    /// What it was chosen from, in a run with a [`Schedule`](crate::Schedule), where there was a choice.
    pub choice: Option<Choice>,
    /// The digest of the run with this event taken in.
    pub digest: u64,
}

/// What made a turn of a task due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// The start of the run, or something outside of it: an input, another thread.
    #[default]
    Outside,
    /// The event of this number.
    Event(u64),
    /// A timer, armed in an earlier turn of the same task.
    Timer,
}

/// Who is told of a run, and what is known of the turns that are due.
pub(super) struct Trace {
    sink: Option<Box<dyn EventSink>>,
    /// Open while the run does not seem to get on.
    pub(super) autopsy: Option<Autopsy>,
    /// What happens now, and with it everything that becomes due.
    now: Cause,
    /// By the task's number. Looked up, never iterated.
    causes: FxHashMap<u32, Cause>,
}

impl Trace {
    pub(super) fn new(sink: Option<Box<dyn EventSink>>) -> Self {
        Trace { sink, autopsy: None, now: Cause::Outside, causes: FxHashMap::default() }
    }

    /// From here on `cause` is why something becomes due.
    pub(super) fn enter(&mut self, cause: Cause) {
        self.now = cause;
    }

    /// Whether nobody is told any more.
    pub(super) fn is_idle(&self) -> bool {
        self.sink.is_none() && self.autopsy.is_none()
    }

    pub(super) fn spawned(&mut self, task: &TaskStart) {
        if let Some(sink) = &mut self.sink {
            sink.task(task);
        }
        self.due(task.number);
    }

    pub(super) fn due(&mut self, task: u32) {
        self.causes.insert(task, self.now);
    }

    /// Tells of the event but for its cause, which is known here.
    pub(super) fn executed(&mut self, event: Event) {
        let cause = self.causes.remove(&event.task).unwrap_or_default();
        self.now = Cause::Event(event.number);
        let event = Event { cause, ..event };
        if let Some(autopsy) = &mut self.autopsy {
            autopsy.event(&event);
        }
        if let Some(sink) = &mut self.sink {
            sink.event(&event);
        }
    }
}
