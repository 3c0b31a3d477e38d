//! The self-check: one seed, two runs, and the first event in which they differ.

use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;

use serde::Serialize;

use crate::{Class, Event, EventSink, Instant, Sim, SimBuilder, TaskStart};

/// Events before the difference that each side shows.
const BEFORE: usize = 32;
/// Events that are compared one by one: 24 bytes each are kept of the first run.
const COMPARED: usize = 8_000_000;

/// Lets `run` run twice and compares the runs event by event; returns what the first gave, and the difference.
///
/// `run` gets a builder that has the comparison as its trace, sets the seed and all else, and runs it. What it reaches
/// outside of the run must be the same twice. Beyond eight million events only the end is compared.
pub fn self_check<T>(mut run: impl FnMut(SimBuilder) -> T) -> (T, Option<Divergence>) {
    let mut traced = || {
        let record = Rc::new(RefCell::new(Record::default()));
        let result = run(Sim::builder().trace(Recording(Rc::clone(&record))));
        (result, record.take())
    };
    let (result, first) = traced();
    let (_, second) = traced();
    (result, Divergence::between(&first, &second))
}

/// How two runs of one seed differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Divergence {
    /// The number of the first event that differs.
    pub event: u64,
    /// What each run did there.
    pub sides: [Side; 2],
}

/// One of two runs that differ, a line an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Side {
    /// The events before.
    pub before: Vec<String>,
    /// The event that differs; `None` when the run had ended.
    pub event: Option<String>,
}

/// What is kept of a run.
#[derive(Default)]
struct Record {
    tasks: Vec<(&'static str, &'static Location<'static>)>,
    events: Vec<Kept>,
    /// Of the last event, kept or not.
    last: (u64, u64),
}

#[derive(Clone, Copy, PartialEq)]
struct Kept {
    at: Instant,
    digest: u64,
    task: u32,
    class: Class,
    aborted: bool,
}

struct Recording(Rc<RefCell<Record>>);

impl EventSink for Recording {
    fn task(&mut self, task: &TaskStart) {
        self.0.borrow_mut().tasks.push((task.name, task.place));
    }

    fn event(&mut self, event: &Event) {
        let record = &mut *self.0.borrow_mut();
        record.last = (event.number, event.digest);
        if record.events.len() < COMPARED {
            let &Event { at, digest, task, class, aborted, .. } = event;
            record.events.push(Kept { at, digest, task, class, aborted });
        }
    }
}

impl Record {
    fn line(&self, index: usize) -> Option<String> {
        let kept = self.events.get(index)?;
        let verb = if kept.aborted { "drop" } else { "poll" };
        let name = match self.tasks.get(kept.task as usize) {
            Some((name, place)) => format!(" {name:?} spawned at {place}"),
            None => String::new(),
        };
        let (at, class, digest) = (kept.at, kept.class, kept.digest);
        Some(format!(
            "event {} at {at}, {class:?}: {verb} task {}{name}, digest {digest:016x}",
            index + 1,
            kept.task
        ))
    }

    fn side(&self, differing: usize) -> Side {
        let before =
            (differing.saturating_sub(BEFORE)..differing).filter_map(|index| self.line(index)).collect();
        Side { before, event: self.line(differing) }
    }
}

impl Divergence {
    fn between(first: &Record, second: &Record) -> Option<Self> {
        let common = first.events.iter().zip(&second.events).take_while(|(a, b)| a == b).count();
        if common == first.events.len() && common == second.events.len() && first.last == second.last {
            return None;
        }
        let event = common as u64 + 1;
        Some(Divergence { event, sides: [first.side(common), second.side(common)] })
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "two runs of one seed differ from event {} on", self.event)?;
        for (side, name) in self.sides.iter().zip(["first", "second"]) {
            writeln!(f, "  the {name} run:")?;
            side.before.iter().try_for_each(|line| writeln!(f, "    {line}"))?;
            writeln!(
                f,
                "  > {}",
                side.event.as_deref().unwrap_or("had ended, or goes on past what is compared")
            )?;
        }
        Ok(())
    }
}
