use std::fmt;
use std::panic::Location;

use serde::{Serialize, Serializer};

use crate::{Instant, Why};

/// Something that should not happen in a run.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// When it was found.
    #[serde(serialize_with = "nanos")]
    pub at: Instant,
    /// After how many events.
    pub event: u64,
    /// What it is about, in words.
    pub detail: String,
    /// The tasks concerned.
    pub tasks: Vec<TaskReport>,
    /// What else is known, a line each.
    pub notes: Vec<String>,
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FindingKind {
    /// A task is pending and nothing that exists can wake it.
    Zombie,
    /// A task waits for something that is not registered: clones of its waker exist, and that is all that is known.
    /// A finding under [`Policy::Strict`](crate::Policy::Strict) only.
    UntrackedWait,
    /// A task was woken by something that is not registered, from within an event.
    /// A finding under [`Policy::Strict`](crate::Policy::Strict) only.
    RawWake,
    /// A wake came from another thread: no run repeats its timing.
    ForeignWake,
    /// A wake came from the simulation's thread, but from outside its events.
    WakeOutsideEvent,
    /// A poll held up the thread.
    BlockingPoll,
    /// Events followed one another without end at one instant.
    Livelock,
    /// Time moved on, but hardly: instant after instant without end.
    Runaway,
    /// The run cannot go on although tasks are pending.
    Deadlock,
    /// Nothing but daemons goes on, and tasks are pending that no timer will wake.
    Starvation,
    /// A timer is set so far ahead that it hardly was meant. Informational: it never ends a run.
    SleepForgotten,
    /// A task panicked and nobody took the panic.
    UnobservedPanic,
    /// Two runs of one seed differ.
    Nondeterminism,
    /// The run took more time, events or tasks than it was given.
    Limit,
    /// Two consumers opened one random stream and share its numbers.
    StreamReused,
}

impl FindingKind {
    /// Returns whether it is said and nothing else follows, whatever the policy.
    pub fn is_informational(self) -> bool {
        self == FindingKind::SleepForgotten
    }

    /// Whether a run under [`Policy::Strict`](crate::Policy::Strict) ends there.
    pub(crate) fn ends_strict_run(self) -> bool {
        !self.is_informational() && self != FindingKind::BlockingPoll
    }

    /// Whether it is a finding even when the watchdog is off.
    pub(crate) fn is_inevitable(self) -> bool {
        use FindingKind::{Deadlock, Limit, Livelock, Nondeterminism, Runaway, Starvation, UnobservedPanic};
        matches!(self, Deadlock | Limit | Livelock | Nondeterminism | Runaway | Starvation | UnobservedPanic)
    }
}

/// A task in a report.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct TaskReport {
    /// Its number in the order of spawning; the root is 0.
    pub number: u32,
    /// Its name.
    pub name: &'static str,
    /// Where it was spawned.
    #[serde(serialize_with = "place")]
    pub spawned_at: &'static Location<'static>,
    /// The type of its future.
    pub future: &'static str,
    /// How often it was polled; 65,535 stands for that and more.
    pub polls: u16,
    /// The last that woke it, in words.
    pub woken_by: String,
    /// What it waits for.
    pub waits: Vec<Wait>,
    /// Where it waits, innermost call first: from polling it once more. Empty where nothing asked.
    pub stack: Vec<String>,
}

/// A registered wait in a report.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Wait {
    /// What for.
    #[serde(serialize_with = "why")]
    pub why: Why,
    /// Where it was registered; of a join: where the awaited task was spawned.
    #[serde(serialize_with = "place")]
    pub place: &'static Location<'static>,
    /// Since when; of a join and a timer the time is not kept.
    #[serde(serialize_with = "maybe_nanos")]
    pub since: Option<Instant>,
    /// When it ends, of a timer.
    #[serde(serialize_with = "maybe_nanos")]
    pub until: Option<Instant>,
}

pub(super) fn nanos<S: Serializer>(at: &Instant, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(at.as_nanos())
}

fn maybe_nanos<S: Serializer>(at: &Option<Instant>, to: S) -> Result<S::Ok, S::Error> {
    at.map(Instant::as_nanos).serialize(to)
}

fn place<S: Serializer>(place: &Location<'_>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(place)
}

fn why<S: Serializer>(why: &Why, to: S) -> Result<S::Ok, S::Error> {
    (why.kind, why.key).serialize(to)
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FindingKind::Zombie => "pending without registered readiness",
            FindingKind::UntrackedWait => "untracked wait",
            FindingKind::RawWake => "wake from outside registered readiness",
            FindingKind::ForeignWake => "wake from a foreign thread",
            FindingKind::WakeOutsideEvent => "wake outside an event",
            FindingKind::BlockingPoll => "blocking poll",
            FindingKind::Livelock => "livelock",
            FindingKind::Runaway => "runaway chain of instants",
            FindingKind::Deadlock => "deadlock",
            FindingKind::Starvation => "starvation behind daemons",
            FindingKind::SleepForgotten => "sleep forgotten",
            FindingKind::UnobservedPanic => "unobserved panic",
            FindingKind::Nondeterminism => "nondeterminism",
            FindingKind::Limit => "limit reached",
            FindingKind::StreamReused => "random stream opened twice",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}, event {}", self.kind, self.at, self.event)?;
        match self.detail.as_str() {
            "" => writeln!(f)?,
            detail => writeln!(f, ": {detail}")?,
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "  {note}"))?;
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
        writeln!(f, "    polled {} times, last woken by {}", self.polls, self.woken_by)?;
        self.waits.iter().try_for_each(|wait| write!(f, "{wait}"))?;
        self.stack.iter().try_for_each(|frame| writeln!(f, "      in {frame}"))
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "    waits for {} {} at {}", self.why.kind, self.why.key, self.place)?;
        if let Some(since) = self.since {
            write!(f, " since {since}")?;
        }
        match self.until {
            Some(until) => writeln!(f, " until {until}"),
            None => writeln!(f),
        }
    }
}
