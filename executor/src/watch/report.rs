//! What a run was and what was found in it.

use std::fmt;

use serde::Serialize;

use super::finding::{Finding, FindingKind, nanos};
use crate::Instant;

/// What a run was, and everything suspicious that was found in it.
#[derive(Clone, Debug, Serialize)]
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
    #[serde(serialize_with = "nanos")]
    pub now: Instant,
    /// Hash of all events: the same for every run of this seed, configuration and program.
    pub digest: u64,
    /// The most that existed at a time.
    pub peaks: Peaks,
    /// Tasks that waited for something that is not registered.
    pub untracked: u64,
    /// Wakes by something that is not registered.
    pub raw_wakes: u64,
    /// What was found, in order.
    pub findings: Vec<Finding>,
    /// Findings left out above the first hundred.
    pub left_out: u64,
    /// The command that repeats the run.
    pub replay: String,
}

impl RunReport {
    /// Returns whether the run completed and nothing was found but what is informational.
    pub fn is_clean(&self) -> bool {
        self.outcome == Outcome::Completed
            && self.findings.iter().all(|finding| finding.kind.is_informational())
    }

    /// Returns the findings of `kind`.
    pub fn of_kind(&self, kind: FindingKind) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.kind == kind)
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// The root future and all tasks but daemons ended.
    Completed,
    /// Nothing was due, now or later, and tasks were pending.
    Deadlock,
    /// Only daemons went on, and tasks were pending.
    Starvation,
    /// Events followed one another without end at one instant.
    Livelock,
    /// Instants followed one another without end.
    Runaway,
    /// The policy is strict, and something was found.
    Violation,
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Peaks {
    /// Tasks, finished ones with a handle not counted.
    pub tasks: usize,
    /// Armed timers.
    pub timers: usize,
    /// Tickets.
    pub tickets: usize,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Completed => "completed",
            Outcome::Deadlock => "deadlock",
            Outcome::Starvation => "starvation behind daemons",
            Outcome::Livelock => "livelock",
            Outcome::Runaway => "runaway chain of instants",
            Outcome::Violation => "ended by a finding",
            Outcome::Panicked => "the root panicked",
            Outcome::TimeLimit => "time limit",
            Outcome::EventLimit => "event limit",
            Outcome::TaskLimit => "task limit",
            Outcome::Interrupted => "interrupted",
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
        if self.left_out > 0 {
            writeln!(f, "and {} more findings", self.left_out)?;
        }
        if self.untracked > 0 || self.raw_wakes > 0 {
            let (tasks, wakes) = (self.untracked, self.raw_wakes);
            writeln!(f, "not registered: the waits of {tasks} tasks, {wakes} wakes")?;
        }
        writeln!(f, "replay: {}", self.replay)
    }
}
