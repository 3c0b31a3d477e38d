//! What a report says of the tasks of a run that cannot go on: who waits, for what, and behind whom.

use std::collections::BTreeMap;
use std::panic::Location;
use std::task::Context;

use super::super::{Core, State};
use crate::sim::cell::BoxedCell;
use crate::sim::slot::{About, BY_OUTSIDE, BY_TIMER, DAEMON, DONE, QUEUED, Slot};
use crate::sim::waker::Word;
use crate::watch::{FindingKind, Outcome, TaskReport, Wait, capturing, cycles, own_frames};
use crate::{Instant, Why};

/// How many tasks of a lost run are told, and polled once more to see where they wait.
const TOLD: usize = 32;
/// How many names a report of a limit has.
const NAMES: usize = 5;

impl Core {
    pub(super) fn found_starvation(&self) {
        let since = Instant::from_nanos(self.state.borrow().pulse.foreground.1);
        self.report_starvation(format!("no task but daemons was polled since {since}"));
    }

    /// The run was given up: see [`Simulation::give_up`](crate::Simulation::give_up).
    pub(in crate::sim::core) fn found_stall(&self, why: String) {
        self.report_starvation(why);
    }

    fn report_starvation(&self, detail: String) {
        let daemons = self.state.borrow().clock_keepers();
        let (tasks, mut notes) = self.diagnosed();
        notes.extend(daemons.into_iter().map(|daemon| format!("the clock is kept going by {daemon}")));
        self.report_all(FindingKind::Starvation, detail, tasks, notes);
    }

    pub(in crate::sim::core) fn found_deadlock(&self) {
        let (tasks, notes) = self.diagnosed();
        self.report_all(FindingKind::Deadlock, String::new(), tasks, notes);
    }

    pub(in crate::sim::core) fn found_limit(&self, outcome: Outcome) {
        let detail = match outcome {
            Outcome::TimeLimit => format!("the next event lies beyond {}", self.settings.max_time),
            _ => format!("more than {} tasks at a time", self.settings.max_tasks),
        };
        let (tasks, notes) = match outcome {
            Outcome::TimeLimit => self.stuck(),
            _ => (Vec::new(), self.state.borrow().names()),
        };
        self.report_all(FindingKind::Limit, detail, tasks, notes);
    }

    pub(in crate::sim::core) fn task_report(&self, word: Word) -> Option<TaskReport> {
        let state = self.state.borrow();
        let slot = state.slots.peek(word)?;
        Some(state.report_of(slot.about(), slot.cell.as_ref()?))
    }

    /// As [`task_report`](Self::task_report), with what the task waits for.
    pub(super) fn waiting_report(&self, word: Word) -> Option<TaskReport> {
        let mut task = self.task_report(word)?;
        task.waits = self.state.borrow().waits().remove(&word.slot()).unwrap_or_default();
        Some(task)
    }

    pub(super) fn reports_of(&self, numbers: Vec<u32>) -> Vec<TaskReport> {
        let words: BTreeMap<u32, Word> =
            self.state.borrow().slots.words().map(|(word, slot)| (slot.task, word)).collect();
        numbers.iter().filter_map(|number| self.waiting_report(*words.get(number)?)).collect()
    }

    /// The tasks that keep a run from ending, and what each waits for.
    fn stuck(&self) -> (Vec<TaskReport>, Vec<String>) {
        let state = self.state.borrow();
        let mut waits = state.waits();
        let mut stuck: Vec<TaskReport> = state
            .slots
            .words()
            .filter(|(_, slot)| !slot.has(DONE) && !slot.has(DAEMON))
            .filter_map(|(word, slot)| {
                let mut task = state.report_of(slot.about(), slot.cell.as_ref()?);
                task.waits = waits.remove(&word.slot()).unwrap_or_default();
                Some(task)
            })
            .collect();
        stuck.sort_unstable_by_key(|task| task.number);
        let left_out = stuck.len().saturating_sub(TOLD);
        stuck.truncate(TOLD);
        (stuck, (left_out > 0).then(|| format!("and {left_out} more tasks wait")).into_iter().collect())
    }

    /// As [`stuck`](Self::stuck), with where each waits. Polls them once more: the run must be lost.
    fn diagnosed(&self) -> (Vec<TaskReport>, Vec<String>) {
        let mut notes = self.wait_cycles();
        let (mut tasks, left_out) = self.stuck();
        notes.extend(left_out);
        let words: BTreeMap<u32, Word> =
            self.state.borrow().slots.words().map(|(word, slot)| (slot.task, word)).collect();
        for task in &mut tasks {
            if let Some(word) = words.get(&task.number) {
                task.stack = self.repoll(*word);
            }
        }
        (tasks, notes)
    }

    /// Polls a task of a lost run with a waker that shows from where it is cloned; returns those frames.
    pub(super) fn repoll(&self, word: Word) -> Vec<String> {
        let cell = self.state.borrow_mut().slots.get(word).and_then(|slot| slot.cell.take());
        let Some(mut cell) = cell else { return Vec::new() };
        let before = self.running.replace(Some(word));
        let clones = capturing(|waker| {
            if cell.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
                // It ran on because it was polled once more: what it became is nobody's.
                drop(cell.as_mut().take_panic());
            }
        });
        self.running.set(before);
        if let Some(slot) = self.state.borrow_mut().slots.get(word) {
            slot.cell = Some(cell);
        }
        clones.first().map(own_frames).unwrap_or_default()
    }

    /// The rings of tasks that join one another.
    fn wait_cycles(&self) -> Vec<String> {
        let state = self.state.borrow();
        let mut joins = BTreeMap::new();
        for (_, slot) in state.slots.words() {
            let joiner = slot.cell.as_ref().and_then(|cell| cell.header().joiner.as_ref());
            if let Some(waiting) = joiner.and_then(|joiner| state.slots.peek(joiner.owner)) {
                joins.insert(waiting.task, slot.task);
            }
        }
        let cycles = cycles(&joins);
        let line = |cycle: Vec<u32>| {
            let names: Vec<String> = cycle
                .iter()
                .chain(cycle.first())
                .map(|&task| format!("task {}", state.named(task)))
                .collect();
            format!("cycle of joins: {}", names.join(" -> "))
        };
        cycles.into_iter().map(line).collect()
    }
}

impl State {
    /// The task `number` with its name.
    pub(super) fn named(&self, number: u32) -> String {
        match self.slots.in_use().find(|slot| slot.task == number) {
            Some(slot) => format!("{number} {:?}", slot.name),
            None => number.to_string(),
        }
    }

    /// The names that most tasks have.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: BTreeMap<(&str, &Location<'_>), usize> = BTreeMap::new();
        for slot in self.slots.in_use() {
            *names.entry((slot.name, slot.place)).or_default() += 1;
        }
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let line = |((name, place), count)| format!("{count} tasks are {name:?} spawned at {place}");
        names.into_iter().take(NAMES).map(line).collect()
    }

    /// The daemons whose timers let time go on.
    fn clock_keepers(&self) -> Vec<String> {
        let mut daemons: Vec<(u32, String)> = Vec::new();
        let line = |slot: &Slot, place| (slot.task, format!("task {} {:?} at {place}", slot.task, slot.name));
        for (_, entry) in self.wheel.iter() {
            daemons.extend(self.slots.peek(entry.target.owner).map(|slot| line(slot, entry.place)));
        }
        // One whose timer has just been due.
        let due = self.slots.in_use().filter(|slot| slot.has(QUEUED));
        daemons.extend(due.map(|slot| line(slot, slot.place)));
        daemons.sort();
        daemons.dedup();
        daemons.into_iter().take(NAMES).map(|(_, line)| line).collect()
    }

    pub(in crate::sim::core) fn report_of(&self, about: About, cell: &BoxedCell) -> TaskReport {
        self.report_named(about, cell.type_name())
    }

    pub(in crate::sim::core) fn report_named(&self, about: About, future: &'static str) -> TaskReport {
        TaskReport {
            number: about.task,
            name: about.name,
            spawned_at: about.place,
            future,
            polls: about.polls,
            woken_by: match about.woken_by {
                BY_TIMER => "a timer".to_owned(),
                BY_OUTSIDE => "something outside the run".to_owned(),
                task => format!("task {}", self.named(task)),
            },
            waits: Vec::new(),
            stack: Vec::new(),
        }
    }

    /// What the tasks wait for, by slot, the longest wait first.
    fn waits(&self) -> BTreeMap<u32, Vec<Wait>> {
        let mut waits: BTreeMap<u32, Vec<Wait>> = BTreeMap::new();
        for (ticket, target) in self.tickets.awaited() {
            let wait = Wait { why: ticket.why, place: ticket.place, since: Some(ticket.since), until: None };
            waits.entry(target.owner.slot()).or_default().push(wait);
        }
        for (_, slot) in self.slots.words() {
            let Some(cell) = &slot.cell else { continue };
            if let Some(joiner) = &cell.header().joiner {
                let why = Why::about("join of task", u64::from(slot.task));
                let wait = Wait { why, place: slot.place, since: None, until: None };
                waits.entry(joiner.owner.slot()).or_default().push(wait);
            }
        }
        for (at, entry) in self.wheel.iter() {
            let until = Some(Instant::from_nanos(at));
            let wait = Wait { why: Why::new("sleep"), place: entry.place, since: None, until };
            waits.entry(entry.target.owner.slot()).or_default().push(wait);
        }
        for waits in waits.values_mut() {
            waits.sort_by_key(|wait| (wait.since, wait.until, wait.place));
        }
        waits
    }
}
