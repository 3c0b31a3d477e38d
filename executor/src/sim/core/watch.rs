//! The watchdog's side of a run: what it notices on the way, and what it gathers when something is wrong.

use std::collections::BTreeMap;
use std::panic::Location;
use std::task::Context;
use std::time::Duration;

use super::{Core, State};
use crate::sim::cell::BoxedCell;
use crate::sim::inbox::{Letter, Message};
use crate::sim::slot::{
    About, BY_OUTSIDE, BY_TIMER, DAEMON, DONE, QUEUED, Slot, THIRD_PARTY, UNTRACKED, ZOMBIE,
};
use crate::sim::trace::Trace;
use crate::sim::waker::Word;
use crate::watch::{
    Autopsy, Finding, FindingKind, Outcome, Policy, TaskReport, Wait, Watchdog, capturing, cycles, describe,
    own_frames,
};
use crate::{Instant, Why};

/// Events between two looks at whether the run gets on.
const PACE: u64 = 1024;
/// How many findings a report keeps.
const FINDINGS: usize = 100;
/// How many tasks of a lost run are polled once more, to see where they wait.
const REPOLLED: usize = 32;
/// How many names a report of a limit has.
const NAMES: usize = 5;

/// How a run gets on.
#[derive(Default)]
pub(super) struct Pulse {
    /// The event after which it is looked at next.
    pub(super) alarm: u64,
    /// Events before the current instant.
    pub(super) instant: u64,
    /// Events and time when it was looked at last.
    looked: (u64, Instant),
    /// Events through which time hardly moved.
    crawling: u64,
    /// The last event of a task that keeps the run going, and its time.
    pub(super) foreground: (u64, u64),
    /// What the open autopsy is about, and the event it ends with.
    autopsy: Option<(Outcome, u64)>,
    /// Tasks that waited for something that is not registered.
    pub(super) untracked: u64,
    /// Wakes by something that is not registered.
    pub(super) raw_wakes: u64,
}

impl Core {
    #[cold]
    pub(super) fn report(&self, kind: FindingKind, detail: String, tasks: Vec<TaskReport>) {
        self.report_all(kind, detail, tasks, Vec::new());
    }

    #[cold]
    fn report_all(&self, kind: FindingKind, detail: String, tasks: Vec<TaskReport>, notes: Vec<String>) {
        let policy = self.settings.watchdog.policy;
        if policy == Policy::Off && !kind.is_inevitable() {
            return;
        }
        let state = &mut *self.state.borrow_mut();
        if policy == Policy::Strict && !kind.is_informational() {
            state.stop.get_or_insert(Outcome::Violation);
        }
        if state.findings.len() < FINDINGS {
            let finding = Finding { kind, at: self.now(), event: state.events, detail, tasks, notes };
            if self.world.is_some() {
                // Nobody reads the report of a run that has no end in sight.
                tracing::error!("{finding}");
            }
            state.findings.push(finding);
        } else {
            state.left_out += 1;
        }
    }

    /// Calls `wake` as the end of a wait that is registered.
    #[inline]
    pub(super) fn registered(&self, wake: impl FnOnce()) {
        let before = self.resolving.replace(true);
        wake();
        self.resolving.set(before);
    }

    /// A waker of `word` was used by something that is not registered, and not by the task itself.
    #[cold]
    pub(super) fn woken_raw(&self, word: Word) {
        let accepted = {
            let state = &mut *self.state.borrow_mut();
            state.pulse.raw_wakes += 1;
            state.slots.peek(word).is_some_and(|slot| slot.has(THIRD_PARTY))
        };
        if accepted || self.settings.watchdog.policy != Policy::Strict {
            return;
        }
        let frames = own_frames(&std::backtrace::Backtrace::force_capture());
        let mut notes: Vec<String> = frames.into_iter().map(|frame| format!("woken in {frame}")).collect();
        let tasks: Vec<_> = self.waiting_report(word).into_iter().collect();
        if tasks.is_empty() {
            notes.push("the task of the waker has ended".to_owned());
        }
        match self.running.get() {
            Some(waker) => {
                let number = self.number(waker);
                let detail = format!("by task {}", self.state.borrow().named(number));
                self.report_all(FindingKind::RawWake, detail, tasks, notes);
            }
            None => {
                let detail = "while the run was taken down".to_owned();
                self.report_all(FindingKind::WakeOutsideEvent, detail, tasks, notes);
            }
        }
    }

    /// The task that is polled polls futures of others.
    pub(in crate::sim) fn polls_third_party(&self) {
        if let Some(word) = self.running.get() {
            self.allow_third_party(word);
        }
    }

    pub(in crate::sim) fn allow_third_party(&self, word: Word) {
        if let Some(slot) = self.state.borrow_mut().slots.get(word) {
            slot.flags |= THIRD_PARTY;
        }
    }

    /// A poll ended pending with nothing registered.
    #[cold]
    pub(super) fn found_unregistered(&self, word: Word) {
        let zombie = {
            let state = &mut *self.state.borrow_mut();
            let Some(slot) = state.slots.get(word) else { return };
            let zombie = slot.wakers <= 0;
            let flag = if zombie { ZOMBIE } else { UNTRACKED };
            if slot.has(flag) {
                return;
            }
            slot.flags |= flag;
            if !zombie {
                state.pulse.untracked += 1;
                if slot.has(THIRD_PARTY) || self.settings.watchdog.policy != Policy::Strict {
                    return;
                }
            }
            zombie
        };
        let mut tasks: Vec<_> = self.task_report(word).into_iter().collect();
        if zombie {
            let detail = "nothing that exists can wake it".to_owned();
            self.report(FindingKind::Zombie, detail, tasks);
            return;
        }
        // Polling it once more spoils the run, which is over: the policy is strict.
        if let Some(task) = tasks.first_mut() {
            task.stack = self.repoll(word);
        }
        let detail = "clones of its waker exist, and nothing is registered".to_owned();
        self.report(FindingKind::UntrackedWait, detail, tasks);
    }

    #[cold]
    pub(super) fn found_forgotten(&self, due: Instant, place: &'static Location<'static>, owner: Word) {
        let number = self.number(owner);
        let detail =
            format!("a timer of task {} is set for {due}, at {place}", self.state.borrow().named(number));
        self.report(FindingKind::SleepForgotten, detail, Vec::new());
    }

    /// The monitor found a poll of `word` to be late.
    #[cold]
    pub(super) fn found_blocking(&self, word: Word) {
        let (event, late) = self.beat.take_late();
        let wall = late.wall;
        let detail =
            format!("event {event} held up the thread for {wall:.1?} or more{}", describe(wall, late.cpu));
        self.report(FindingKind::BlockingPoll, detail, self.task_report(word).into_iter().collect());
    }

    /// Something came from outside that makes a task due.
    pub(super) fn found_foreign(&self, letter: &Letter) {
        let task = match letter.message {
            Message::Wake(word) | Message::Abort(word) => self.waiting_report(word),
            _ => None,
        };
        let thread = letter.thread.name().unwrap_or("unnamed");
        let frames = letter.trace.as_ref().map(own_frames).unwrap_or_default();
        let notes = frames.into_iter().map(|frame| format!("woken in {frame}")).collect();
        let (kind, detail) = if letter.own {
            (
                FindingKind::WakeOutsideEvent,
                "from this thread, while another simulation or none ran".to_owned(),
            )
        } else {
            (FindingKind::ForeignWake, format!("from thread {thread:?}"))
        };
        self.report_all(kind, detail, task.into_iter().collect(), notes);
    }

    /// Looks whether the run gets on; called when the alarm rings.
    #[cold]
    pub(super) fn look(&self) -> Option<Outcome> {
        let watchdog = self.settings.watchdog;
        let (outcome, tasks, notes) = {
            let state = &mut *self.state.borrow_mut();
            if state.events > self.settings.max_events {
                let notes = state.names();
                (Outcome::EventLimit, None, notes)
            } else {
                let found = state.lost(&watchdog, self.now(), self.world.is_some());
                state.pulse.set_alarm(state.events, self.settings.max_events, &watchdog);
                let outcome = found?;
                match state.close_autopsy() {
                    Some(autopsy) if outcome != Outcome::Starvation => {
                        let notes = autopsy.notes(|task| state.named(task));
                        (outcome, Some(autopsy.busiest()), notes)
                    }
                    _ => (outcome, None, Vec::new()),
                }
            }
        };
        match outcome {
            Outcome::EventLimit => {
                let detail = format!("more than {} events", self.settings.max_events);
                self.report_all(FindingKind::Limit, detail, Vec::new(), notes);
            }
            Outcome::Starvation => self.found_starvation(),
            _ => {
                let (kind, detail) = match outcome {
                    Outcome::Livelock => (
                        FindingKind::Livelock,
                        format!("more than {} events at one instant", watchdog.livelock),
                    ),
                    _ => (
                        FindingKind::Runaway,
                        format!("time hardly moved through more than {} events", watchdog.runaway),
                    ),
                };
                let tasks = self.reports_of(tasks.unwrap_or_default());
                self.report_all(kind, detail, tasks, notes);
            }
        }
        Some(outcome)
    }

    fn found_starvation(&self) {
        let (since, daemons) = {
            let state = self.state.borrow();
            (Instant::from_nanos(state.pulse.foreground.1), state.clock_keepers())
        };
        let detail = format!("no task but daemons was polled since {since}");
        let mut notes = self.wait_cycles();
        notes.extend(daemons.into_iter().map(|daemon| format!("the clock is kept going by {daemon}")));
        self.report_all(FindingKind::Starvation, detail, self.diagnosed(), notes);
    }

    pub(super) fn found_deadlock(&self) {
        let notes = self.wait_cycles();
        self.report_all(FindingKind::Deadlock, String::new(), self.diagnosed(), notes);
    }

    pub(super) fn found_limit(&self, outcome: Outcome) {
        let detail = match outcome {
            Outcome::TimeLimit => format!("the next event lies beyond {}", self.settings.max_time),
            _ => format!("more than {} tasks at a time", self.settings.max_tasks),
        };
        let (tasks, notes) = match outcome {
            Outcome::TimeLimit => (self.stuck(), Vec::new()),
            _ => (Vec::new(), self.state.borrow().names()),
        };
        self.report_all(FindingKind::Limit, detail, tasks, notes);
    }

    /// The number of a task that has its slot.
    fn number(&self, word: Word) -> u32 {
        self.state.borrow().slots.peek(word).map_or(BY_OUTSIDE, |slot| slot.task)
    }

    pub(super) fn task_report(&self, word: Word) -> Option<TaskReport> {
        let state = self.state.borrow();
        let slot = state.slots.peek(word)?;
        Some(state.report_of(slot.about(), slot.cell.as_ref()?))
    }

    /// As [`task_report`](Self::task_report), with what the task waits for.
    fn waiting_report(&self, word: Word) -> Option<TaskReport> {
        let mut task = self.task_report(word)?;
        task.waits = self.state.borrow().waits().remove(&word.slot()).unwrap_or_default();
        Some(task)
    }

    fn reports_of(&self, numbers: Vec<u32>) -> Vec<TaskReport> {
        let words: BTreeMap<u32, Word> =
            self.state.borrow().slots.words().map(|(word, slot)| (slot.task, word)).collect();
        numbers.iter().filter_map(|number| self.waiting_report(*words.get(number)?)).collect()
    }

    /// The tasks that keep a run from ending, and what each waits for.
    fn stuck(&self) -> Vec<TaskReport> {
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
        stuck
    }

    /// As [`stuck`](Self::stuck), with where each waits. Polls them once more: the run must be lost.
    fn diagnosed(&self) -> Vec<TaskReport> {
        let mut tasks = self.stuck();
        let words: BTreeMap<u32, Word> =
            self.state.borrow().slots.words().map(|(word, slot)| (slot.task, word)).collect();
        for task in tasks.iter_mut().take(REPOLLED) {
            if let Some(word) = words.get(&task.number) {
                task.stack = self.repoll(*word);
            }
        }
        tasks
    }

    /// Polls a task of a lost run with a waker that shows from where it is cloned; returns those frames.
    fn repoll(&self, word: Word) -> Vec<String> {
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

impl Pulse {
    fn set_alarm(&mut self, events: u64, max_events: u64, watchdog: &Watchdog) {
        let pace = PACE.min(watchdog.livelock).min(watchdog.runaway).max(1);
        self.alarm = (events + pace).min(max_events);
    }

    /// The settings' first alarm.
    pub(super) fn start(max_events: u64, watchdog: &Watchdog) -> Self {
        let mut pulse = Pulse::default();
        pulse.set_alarm(0, max_events, watchdog);
        pulse
    }
}

impl State {
    /// Whether the run does not get on, and in what way. Tasks of a run that is `open` to the world wait for that.
    fn lost(&mut self, watchdog: &Watchdog, now: Instant, open: bool) -> Option<Outcome> {
        let events = self.events;
        let (before, then) = std::mem::replace(&mut self.pulse.looked, (events, now));
        // 10 ps an event.
        let crawls = (now - then) < Duration::from_nanos((events - before) / 100 + 1);
        self.pulse.crawling = if crawls { self.pulse.crawling + (events - before) } else { 0 };

        let suspected = if events - self.pulse.instant > watchdog.livelock {
            Some(Outcome::Livelock)
        } else if self.pulse.crawling > watchdog.runaway {
            Some(Outcome::Runaway)
        } else {
            None
        };
        match (suspected, self.pulse.autopsy) {
            (Some(outcome), None) => {
                self.open_autopsy(outcome);
            }
            (Some(outcome), Some((_, until))) if events >= until => return Some(outcome),
            (None, Some(_)) => drop(self.close_autopsy()),
            _ => {}
        }
        (!open && self.is_starved(watchdog, now)).then_some(Outcome::Starvation)
    }

    fn is_starved(&mut self, watchdog: &Watchdog, now: Instant) -> bool {
        let (event, at) = self.pulse.foreground;
        if self.events - event < Watchdog::STARVING_EVENTS
            || now - Instant::from_nanos(at) < watchdog.starvation
        {
            return false;
        }
        let slots = &self.slots;
        let awaited = |owner| slots.peek(owner).is_some_and(|slot: &Slot| !slot.has(DAEMON | DONE));
        if self.wheel.iter().any(|(_, entry)| awaited(entry.target.owner)) {
            // A timer of theirs is still to come: they sleep, and may.
            self.pulse.foreground = (self.events, now.as_nanos());
            return false;
        }
        true
    }

    fn open_autopsy(&mut self, outcome: Outcome) {
        self.pulse.autopsy = Some((outcome, self.events + crate::watch::AUTOPSY_EVENTS));
        let trace = self.trace.get_or_insert_with(|| Box::new(Trace::new(None)));
        trace.autopsy = Some(Autopsy::default());
    }

    fn close_autopsy(&mut self) -> Option<Autopsy> {
        self.pulse.autopsy = None;
        let autopsy = self.trace.as_mut()?.autopsy.take();
        self.trace.take_if(|trace| trace.is_idle());
        autopsy
    }

    /// The task `number` with its name.
    fn named(&self, number: u32) -> String {
        match self.slots.in_use().find(|slot| slot.task == number) {
            Some(slot) => format!("{number} {:?}", slot.name),
            None => number.to_string(),
        }
    }

    /// The names that most tasks have.
    fn names(&self) -> Vec<String> {
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

    pub(super) fn report_of(&self, about: About, cell: &BoxedCell) -> TaskReport {
        self.report_named(about, cell.type_name())
    }

    pub(super) fn report_named(&self, about: About, future: &'static str) -> TaskReport {
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
