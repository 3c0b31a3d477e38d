//! The watchdog's side of a run: what it notices on the way.

mod diagnosis;
mod pulse;

use std::panic::Location;

use super::Core;
use crate::Instant;
use crate::sim::inbox::{Letter, Message};
use crate::sim::slot::{BY_OUTSIDE, THIRD_PARTY, UNTRACKED, ZOMBIE};
use crate::sim::waker::Word;
use crate::watch::{Finding, FindingKind, Outcome, Policy, TaskReport, describe, own_frames};

pub(super) use pulse::Pulse;

/// How many findings a report keeps.
const FINDINGS: usize = 100;

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
        if policy == Policy::Strict && kind.ends_strict_run() {
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
            // What others made may keep the waker of a task that has ended: then who wakes tells whose it is.
            let polled = |word: Word| state.slots.peek(word).map(|slot| slot.has(THIRD_PARTY));
            polled(word).or_else(|| polled(self.running.get()?)).unwrap_or(false)
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

    /// The number of a task that has its slot.
    fn number(&self, word: Word) -> u32 {
        self.state.borrow().slots.peek(word).map_or(BY_OUTSIDE, |slot| slot.task)
    }
}
