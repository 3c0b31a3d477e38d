//! What a run that does not get on is busy with, seen over a short while.

use std::collections::{BTreeMap, VecDeque};

use crate::{Cause, Event};

/// Events that an autopsy looks at.
pub(crate) const EVENTS: u64 = 4096;
/// Wakes of them that are told one by one.
const WAKES: usize = 64;
/// Tasks that are told.
const TASKS: usize = 10;

/// Counts polls and wakes from when it is opened.
#[derive(Default)]
pub(crate) struct Autopsy {
    polls: BTreeMap<u32, u64>,
    self_wakes: BTreeMap<u32, u64>,
    /// Which task an event was of.
    tasks: VecDeque<(u64, u32)>,
    /// Who woke whom, the latest last.
    wakes: VecDeque<(u32, u32)>,
}

impl Autopsy {
    pub(crate) fn event(&mut self, event: &Event) {
        *self.polls.entry(event.task).or_default() += 1;
        if let Cause::Event(cause) = event.cause
            && let Ok(at) = self.tasks.binary_search_by_key(&cause, |&(number, _)| number)
        {
            let waker = self.tasks[at].1;
            if waker == event.task {
                *self.self_wakes.entry(waker).or_default() += 1;
            }
            if self.wakes.len() == WAKES {
                self.wakes.pop_front();
            }
            self.wakes.push_back((waker, event.task));
        }
        if self.tasks.len() as u64 == EVENTS {
            self.tasks.pop_front();
        }
        self.tasks.push_back((event.number, event.task));
    }

    /// Returns the busiest tasks, the busiest first.
    pub(crate) fn busiest(&self) -> Vec<u32> {
        let mut tasks: Vec<(u32, u64)> = self.polls.iter().map(|(&task, &polls)| (task, polls)).collect();
        tasks.sort_by_key(|&(task, polls)| (std::cmp::Reverse(polls), task));
        tasks.into_iter().take(TASKS).map(|(task, _)| task).collect()
    }

    /// Returns what was seen, in words, with `name` for the tasks' names.
    pub(crate) fn notes(&self, name: impl Fn(u32) -> String) -> Vec<String> {
        let events: u64 = self.polls.values().sum();
        let mut notes = vec![format!("of the last {events} events:")];
        for task in self.busiest() {
            let (polls, own) = (self.polls[&task], self.self_wakes.get(&task).copied().unwrap_or(0));
            notes.push(format!("  {polls} of task {}, {own} after waking itself", name(task)));
        }
        if !self.wakes.is_empty() {
            let wakes: Vec<_> = self.wakes.iter().map(|(from, to)| format!("{from}>{to}")).collect();
            notes.push(format!("the last wakes, by task numbers: {}", wakes.join(" ")));
        }
        notes
    }
}
