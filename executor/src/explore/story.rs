use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use crate::{Choice, Event, EventSink, TaskStart};

/// A task that went before others that were due already.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swap {
    /// The event that its turn was.
    pub event: u64,
    /// The choice, and with it when.
    pub choice: Choice,
    /// The task, by number, name and place.
    pub task: String,
    /// The task that it went directly before.
    pub before: String,
}

impl fmt::Display for Swap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Swap { event, choice: Choice { id, due, overtaken, .. }, task, before } = self;
        write!(f, "choice {id}, event {event}: {task} goes ")?;
        if *due > 1 {
            write!(f, "before {overtaken} of the {due} others that are due, directly ")?;
        }
        write!(f, "before {before}")
    }
}

/// Notes where a run leaves first in, first out. All clones are one.
#[derive(Clone, Default)]
pub(super) struct Story(Rc<RefCell<Told>>);

#[derive(Default)]
struct Told {
    /// By number.
    tasks: Vec<(&'static str, &'static Location<'static>)>,
    swaps: Vec<Swap>,
}

impl Story {
    pub(super) fn take(&self) -> Vec<Swap> {
        std::mem::take(&mut self.0.borrow_mut().swaps)
    }
}

impl EventSink for Story {
    fn task(&mut self, task: &TaskStart) {
        self.0.borrow_mut().tasks.push((task.name, task.place));
    }

    fn event(&mut self, event: &Event) {
        let told = &mut *self.0.borrow_mut();
        let Some((choice, before)) = event.choice.and_then(|choice| Some((choice, choice.before?))) else {
            return;
        };
        let named = |task: u32| match told.tasks.get(task as usize) {
            Some((name, place)) => format!("task {task} {name:?} ({place})"),
            None => format!("task {task}"),
        };
        let (task, before) = (named(event.task), named(before));
        told.swaps.push(Swap { event: event.number, choice, task, before });
    }
}
