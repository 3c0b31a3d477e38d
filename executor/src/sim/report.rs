//! What a run was and what was found in it.

use std::fmt;
use std::panic::Location;

use crate::{Instant, Why};

/// What a run was, and everything suspicious that was found in it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RunReport {
    /// How it ended.
    pub outcome: Outcome,
    /// The seed that repeats it.
    pub seed: u64,
    /// Events executed.
    pub events: u64,
    /// Polls among them.
    pub polls: u64,
    /// The time at the end.
    pub now: Instant,
    /// Hash of all events: the same for every run of this seed, configuration and program.
    pub digest: u64,
    /// The most that existed at a time.
    pub peaks: Peaks,
    /// What was found, in order.
    pub findings: Vec<Finding>,
    /// Findings left out above the first hundred.
    pub left_out: u64,
}

impl RunReport {
    /// Returns whether the run completed and nothing was found.
    pub fn is_clean(&self) -> bool {
        self.outcome == Outcome::Completed && self.findings.is_empty()
    }

    /// Returns the findings of `kind`.
    pub fn of_kind(&self, kind: FindingKind) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.kind == kind)
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The root future and all tasks but daemons ended.
    Completed,
    /// Nothing was due, now or later, and tasks were pending.
    Deadlock,
    /// The root future panicked.
    Panicked,
    /// The next event lay beyond the time limit.
    TimeLimit,
    /// The event limit was reached.
    EventLimit,
    /// More tasks existed at a time than allowed.
    TaskLimit,
    /// The process was asked to end, see [`SimBuilder::interrupt`](crate::SimBuilder::interrupt).
    Interrupted,
}

/// The most that existed at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Peaks {
    /// Tasks, finished ones with a handle not counted.
    pub tasks: usize,
    /// Armed timers.
    pub timers: usize,
    /// Tickets.
    pub tickets: usize,
}

/// Something that should not happen in a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// When it was found.
    pub at: Instant,
    /// After how many events.
    pub event: u64,
    /// What it is about, in words.
    pub detail: String,
    /// The tasks concerned.
    pub tasks: Vec<TaskReport>,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// A task is pending and nothing that exists can wake it.
    Zombie,
    /// The run cannot go on although tasks are pending.
    Deadlock,
    /// A task panicked and nobody took the panic.
    UnobservedPanic,
    /// A wake came from another thread, or from outside the run: no run repeats its timing.
    ForeignWake,
    /// Two consumers opened one random stream and share its numbers.
    StreamReused,
}

/// A task in a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskReport {
    /// Its number in the order of spawning; the root is 0.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Where it was spawned.
    pub spawned_at: &'static Location<'static>,
    /// The type of its future.
    pub future: &'static str,
    /// What it waits for.
    pub waits: Vec<Wait>,
}

/// A registered wait in a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Wait {
    /// What for.
    pub why: Why,
    /// Where it was registered.
    pub place: &'static Location<'static>,
    /// Since when; of a join the time is not kept.
    pub since: Option<Instant>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Completed => "completed",
            Outcome::Deadlock => "deadlock",
            Outcome::Panicked => "the root panicked",
            Outcome::TimeLimit => "time limit",
            Outcome::EventLimit => "event limit",
            Outcome::TaskLimit => "task limit",
            Outcome::Interrupted => "interrupted",
        })
    }
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FindingKind::Zombie => "pending without registered readiness",
            FindingKind::Deadlock => "deadlock",
            FindingKind::UnobservedPanic => "unobserved panic",
            FindingKind::ForeignWake => "wake from outside the run",
            FindingKind::StreamReused => "random stream opened twice",
        })
    }
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} at {} after {} events, {} polls; seed {}, digest {:016x}",
            self.outcome, self.now, self.events, self.polls, self.seed, self.digest
        )?;
        for finding in &self.findings {
            write!(f, "{finding}")?;
        }
        match self.left_out {
            0 => Ok(()),
            n => writeln!(f, "and {n} more findings"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}, event {}", self.kind, self.at, self.event)?;
        match self.detail.as_str() {
            "" => writeln!(f)?,
            detail => writeln!(f, ": {detail}")?,
        }
        self.tasks.iter().try_for_each(|task| write!(f, "{task}"))
    }
}

impl fmt::Display for TaskReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  task {} {:?} spawned at {}: {}",
            self.number, self.name, self.spawned_at, self.future
        )?;
        self.waits.iter().try_for_each(|wait| write!(f, "{wait}"))
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "    waits for {} {} at {}", self.why.kind, self.why.key, self.place)?;
        match self.since {
            Some(since) => writeln!(f, " since {since}"),
            None => writeln!(f),
        }
    }
}
