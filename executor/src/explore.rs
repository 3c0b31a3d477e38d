//! Schedule exploration: does anything depend on the order of what happens at one instant?
//!
//! First in, first out is one order of many that a real machine could show. A program that gives something else under
//! another one has a race; what it takes to see it is cut down to a few choices.

mod minimise;
mod story;

use std::fmt;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Schedule, Sim, SimBuilder};

pub use story::Swap;

/// What came of running a program under many schedules.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Exploration<T> {
    /// What the run gives first in, first out.
    pub expected: T,
    /// How many schedules were run beside that.
    pub schedules: u64,
    /// How many of them gave something else.
    pub differing: u64,
    /// The least that it takes, from the first of those.
    pub dependence: Option<Dependence<T>>,
}

/// An order of events at one instant that something depends on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Dependence<T> {
    /// The schedule that shows it: without any of its choices, nothing is seen.
    pub schedule: Schedule,
    /// What the run gives under it.
    pub observed: T,
    /// Where the run under it leaves first in, first out.
    pub swaps: Vec<Swap>,
}

/// Runs a program first in, first out and under the schedules 1 to `schedules`, and compares what it gives.
///
/// `run` sets the seed and all else on the builder that it gets, runs it and returns what must not depend on the order of
/// events at one instant. It is called on several threads, and must be a function of its builder. When several schedules
/// differ, the one with the lowest seed is cut down: to the shortest prefix of its choices that differs, then to the
/// choices of that prefix that are needed.
pub fn explore<T: PartialEq + Send + Sync>(
    schedules: u64,
    run: impl Fn(SimBuilder) -> T + Sync,
) -> Exploration<T> {
    let expected = run(Sim::builder());
    let (differing, lowest) =
        search(schedules, |seed| run(Sim::builder().schedule(Schedule::new(seed))) != expected);
    let dependence = lowest.map(|seed| minimise::dependence(seed, &expected, &run));
    Exploration { expected, schedules, differing, dependence }
}

/// Returns how many of the seeds differ, and the lowest of them.
fn search(schedules: u64, differs: impl Fn(u64) -> bool + Sync) -> (u64, Option<u64>) {
    let next = AtomicU64::new(1);
    let found = Mutex::new((0, None));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > schedules {
                break;
            }
            if differs(seed) {
                let (count, lowest): &mut (u64, Option<u64>) =
                    &mut found.lock().unwrap_or_else(PoisonError::into_inner);
                *count += 1;
                *lowest = Some(lowest.map_or(seed, |lowest| lowest.min(seed)));
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl<T> fmt::Display for Dependence<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, choices) = (self.schedule.seed(), self.schedule.choices());
        writeln!(f, "schedule {seed}, choices {choices}")?;
        self.swaps.iter().try_for_each(|swap| writeln!(f, "  {swap}"))
    }
}
