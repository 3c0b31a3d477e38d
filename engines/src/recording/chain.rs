//! Why something happened: the events that led to it.

use std::collections::BTreeMap;
use std::fmt;

use executor::{Cause, Instant};

use super::events::{EventRecord, TaskRecord};

/// The events of a run so far, each with what made it due.
#[derive(Debug, Default)]
pub struct Chain {
    tasks: Vec<TaskRecord>,
    events: Vec<(Instant, EventRecord)>,
    /// The last event of each task.
    last: BTreeMap<u32, usize>,
    /// Of each event, the one of the same task before it.
    before: Vec<Option<usize>>,
}

/// An event in a chain, said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Instant,
    /// The event.
    pub event: EventRecord,
    /// The task, by name and place.
    pub task: String,
}

impl Chain {
    /// Takes in a task; tasks come in the order of their numbers.
    pub fn task(&mut self, task: TaskRecord) {
        self.tasks.push(task);
    }

    /// Takes in an event.
    pub fn event(&mut self, at: Instant, event: EventRecord) {
        self.before.push(self.last.insert(event.task, self.events.len()));
        self.events.push((at, event));
    }

    /// Returns the name and place of a task.
    pub fn name(&self, task: u32) -> String {
        match self.tasks.get(task as usize) {
            Some(TaskRecord { name, place, .. }) => format!("task {task} {name:?} ({place})"),
            None => format!("task {task}"),
        }
    }

    /// Returns the events that led to `event`, the nearest first, at most `most`: who woke its task, who woke that
    /// one, and so on. Behind a timer comes the turn of the same task that armed it.
    pub fn behind(&self, event: &EventRecord, most: usize) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut before = self.last.get(&event.task).copied();
        let mut cause = event.cause;
        while steps.len() < most {
            let index = match cause {
                Cause::Outside => None,
                Cause::Timer => before,
                Cause::Event(number) => self.events.binary_search_by_key(&number, |(_, e)| e.number).ok(),
            };
            let Some((index, &(at, event))) = index.and_then(|index| Some((index, self.events.get(index)?)))
            else {
                break;
            };
            steps.push(Step { at, event, task: self.name(event.task) });
            (before, cause) = (self.before[index], event.cause);
        }
        steps
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Step { at, event, task } = self;
        let what = if event.aborted { "drop of" } else { "turn of" };
        let cause = match event.cause {
            Cause::Outside => "the start of the run".to_owned(),
            Cause::Timer => "a timer".to_owned(),
            Cause::Event(number) => format!("event {number}"),
        };
        write!(f, "{at} event {}: {what} {task}, due by {cause}", event.number)
    }
}
