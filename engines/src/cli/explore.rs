//! `lockstep explore`: does a decision depend on the order of what happens at one instant?

mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::Args;
use executor::{Dependence, Exploration, explore};

use super::{Failure, HostArgs, RunArgs, print};
use crate::recording::DecisionRecord;
use crate::report::grouped;

use witness::{Seen, observe, observe_first};

/// Requests of a run where no flag says how many.
const REQUESTS: u64 = 200;

/// The arguments of `lockstep explore`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(
    mut_arg("out", |arg| arg.hide(true)),
    mut_arg("explain", |arg| arg.hide(true)),
    mut_arg("record", |arg| arg.hide(true)),
    mut_arg("schedule_seed", |arg| arg.hide(true)),
    mut_arg("schedule_choices", |arg| arg.hide(true)),
    after_help = "Without --requests, runs have 200 requests."
)]
pub struct ExploreArgs {
    /// How many schedules to run beside first in, first out
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub schedules: u64,
    /// What is run.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What must not depend on the order of events at one instant. Times are left out: who is first to be served at an
/// instant has to be somebody.
#[derive(Clone, Debug, Default, PartialEq)]
struct Observed {
    /// Of each request, the decisions about it.
    decisions: BTreeMap<u64, Vec<DecisionRecord>>,
    /// Of each request, how it ended: once, where nothing is lost.
    ends: BTreeMap<u64, Vec<String>>,
    /// The kinds of what the watchdog found.
    findings: BTreeSet<String>,
}

impl Observed {
    /// Returns the requests about which the two differ.
    fn differing(&self, other: &Observed) -> usize {
        let all: BTreeSet<&u64> = self.ends.keys().chain(other.ends.keys()).collect();
        let differs = |request: &&&u64| {
            self.decisions.get(request) != other.decisions.get(request)
                || self.ends.get(request) != other.ends.get(request)
        };
        all.iter().filter(differs).count()
    }

    /// Returns the requests that did not end exactly once.
    fn unaccounted(&self) -> Vec<u64> {
        let requests: BTreeSet<&u64> = self.decisions.keys().chain(self.ends.keys()).collect();
        let once = |request: &u64| self.ends.get(request).is_some_and(|ends| ends.len() == 1);
        requests.into_iter().copied().filter(|request| !once(request)).collect()
    }
}

impl ExploreArgs {
    /// Runs the schedules and prints what depends on their order, with what led to it.
    ///
    /// # Errors
    /// What is wrong with the arguments or the scenario; a dependence that was found.
    pub fn run(&self) -> Result<(), Failure> {
        let mut args = self.run.clone();
        for (name, given) in [
            ("--out", args.out.is_some()),
            ("--record", args.record.is_some()),
            ("--schedule-seed", args.host.schedule_seed.is_some()),
        ] {
            if given {
                return Err(Failure::new(format!(
                    "{name} is of one run; accepted: it with the `lockstep run` that this command prints"
                )));
            }
        }
        args.source.requests.get_or_insert(REQUESTS);
        let seed = args.scenario()?.plan()?.seed;
        let found = explore(self.schedules, |sim| observe(&args, sim));
        let Exploration { expected, schedules, differing, dependence, .. } = found;
        let expected = expected?;
        let mut text = String::new();
        let _ = writeln!(text, "explored     {} schedules of {}", grouped(schedules), args.repeat(seed));
        let unaccounted = expected.unaccounted();
        if !unaccounted.is_empty() {
            let _ = writeln!(text, "lost         requests {unaccounted:?} did not end exactly once");
        }
        for finding in &expected.findings {
            let _ = writeln!(text, "finding      {finding}, first in, first out");
        }
        match dependence {
            None => {
                let requests = grouped(expected.ends.len() as u64);
                let _ = writeln!(text, "dependence   none: all decide and end {requests} requests alike");
            }
            Some(dependence) => {
                let _ = writeln!(text, "dependence   {} of them decide or end otherwise", grouped(differing));
                tell(&args, seed, &expected, &dependence, &mut text)?;
            }
        }
        print(&text)?;
        if differing > 0 {
            return Err(Failure::differing("what the router does depends on the order of one instant"));
        }
        if !unaccounted.is_empty() || !expected.findings.is_empty() {
            return Err(Failure::differing("the run itself is not sound"));
        }
        Ok(())
    }
}

/// Says what depends on what.
fn tell(
    args: &RunArgs,
    seed: u64,
    expected: &Observed,
    dependence: &Dependence<Result<Observed, Failure>>,
    text: &mut String,
) -> Result<(), Failure> {
    let schedule = &dependence.schedule;
    let host = HostArgs {
        schedule_seed: Some(schedule.seed()),
        schedule_choices: Some(schedule.choices().clone()),
        ..args.host.clone()
    };
    let permuted = RunArgs { host, ..args.clone() };
    for swap in &dependence.swaps {
        let _ = writeln!(text, "swap         {swap}");
    }
    match &dependence.observed {
        Err(failure) => {
            let _ = writeln!(text, "permuted     the run fails: {failure}");
        }
        Ok(observed) => {
            let (differing, all) = (observed.differing(expected), expected.ends.len());
            let _ = writeln!(text, "differs      {differing} of {all} requests");
            let lost = observed.unaccounted();
            if !lost.is_empty() {
                let _ = writeln!(text, "lost         requests {lost:?} did not end exactly once, permuted");
            }
            for finding in observed.findings.difference(&expected.findings) {
                let _ = writeln!(text, "finding      {finding}, permuted");
            }
            let fifo = observe_first(args, args.host.builder(), observed)?;
            let other = observe_first(&permuted, permuted.host.builder(), expected)?;
            for (name, seen) in [("as it is", fifo), ("permuted", other)] {
                let Some(Seen { what, steps }) = seen else { continue };
                let _ = writeln!(text, "{name:<12} {what}");
                for step in steps {
                    let _ = writeln!(text, "     behind {step}");
                }
            }
        }
    }
    let _ = writeln!(text, "replay       {}", permuted.repeat(seed));
    Ok(())
}
