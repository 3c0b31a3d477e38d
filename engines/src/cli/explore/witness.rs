use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::{Event, EventSink, Instant, SimBuilder, TaskStart};

use super::Observed;
use crate::cli::{Failure, RunArgs};
use crate::cluster;
use crate::recording::{Chain, DecisionRecord, EventRecord, Step, TaskRecord};
use crate::report::{Decision, Observer, Outcome, RequestEnd};

/// How many events of a causal chain are shown.
const CHAIN: usize = 12;

/// Runs the scenario on `sim` and returns what must not depend on the order of one instant.
///
/// # Errors
/// As of a run.
pub(super) fn observe(args: &RunArgs, sim: SimBuilder) -> Result<Observed, Failure> {
    let notes = Rc::new(RefCell::new(Notes::default()));
    run(args, sim, &notes)?;
    Ok(notes.take().observed)
}

/// The first thing in which a run differs from another.
pub(super) struct Seen {
    pub(super) what: String,
    /// What led to it, the nearest first.
    pub(super) steps: Vec<Step>,
}

/// Runs the scenario once more; returns the first thing in which it is not what `other` was.
pub(super) fn observe_first(
    args: &RunArgs,
    sim: SimBuilder,
    other: &Observed,
) -> Result<Option<Seen>, Failure> {
    let sought = Sought { other: other.clone(), chain: Chain::default(), now: None, seen: None };
    let notes = Rc::new(RefCell::new(Notes { sought: Some(sought), ..Notes::default() }));
    run(args, sim.trace(Tracing(Rc::clone(&notes))), &notes)?;
    Ok(notes.take().sought.and_then(|sought| sought.seen))
}

fn run(args: &RunArgs, sim: SimBuilder, notes: &Rc<RefCell<Notes>>) -> Result<(), Failure> {
    let plan = args.scenario()?.plan()?;
    let workload = plan.workload.open(plan.seed)?;
    let policy = args.host.policy();
    let observer = Rc::clone(notes) as Rc<RefCell<dyn Observer>>;
    let end = cluster::simulate(sim.policy(policy), &plan, plan.router.config()?, workload, observer)?;
    // The kind of a finding stands before its time, which another order moves.
    let kind = |finding: &String| finding.split(" at ").next().unwrap_or_default().to_owned();
    notes.borrow_mut().observed.findings = end.findings.iter().map(kind).collect();
    Ok(())
}

/// Takes down what a run does to its requests.
#[derive(Default)]
struct Notes {
    observed: Observed,
    sought: Option<Sought>,
}

/// What is looked for in a run that is told event by event.
struct Sought {
    other: Observed,
    chain: Chain,
    /// The event that is executed; not in the chain yet.
    now: Option<(Instant, EventRecord)>,
    seen: Option<Seen>,
}

impl Sought {
    /// Notes that `what` happens now and did not in the other run.
    fn differs(&mut self, what: String) {
        let Some((at, event)) = self.now.filter(|_| self.seen.is_none()) else { return };
        let own = Step { at, event, task: self.chain.name(event.task) };
        let steps = std::iter::once(own).chain(self.chain.behind(&event, CHAIN)).collect();
        self.seen = Some(Seen { what, steps });
    }
}

/// Adds `value` to what is known of a request; returns whether the other run has it there, too.
fn add<T: PartialEq>(
    all: &mut BTreeMap<u64, Vec<T>>,
    other: Option<&BTreeMap<u64, Vec<T>>>,
    request: u64,
    value: T,
) -> bool {
    let of_request = all.entry(request).or_default();
    let same = other.is_none_or(|other| {
        other.get(&request).and_then(|values| values.get(of_request.len())).is_some_and(|is| *is == value)
    });
    of_request.push(value);
    same
}

impl Observer for Notes {
    fn decided(&mut self, decision: &Decision<'_>) {
        let (request, at) = (decision.request, decision.at);
        let record = DecisionRecord::new(decision);
        let said = record.to_string();
        let other = self.sought.as_ref().map(|sought| &sought.other.decisions);
        let same = add(&mut self.observed.decisions, other, request, record);
        if let Some(sought) = self.sought.as_mut().filter(|_| !same) {
            sought.differs(format!("{at} {said}"));
        }
    }

    fn tokens_followed(&mut self, _: Duration, _: u64) {}

    fn request_ended(&mut self, end: &RequestEnd<'_>) {
        let how = match end.outcome {
            Outcome::Failed(why) => format!("failed: {why}"),
            other => format!("{} with {} tokens", other.name(), end.output_tokens),
        };
        let said = format!("{} request {} is {how}", end.end, end.request);
        let other = self.sought.as_ref().map(|sought| &sought.other.ends);
        let same = add(&mut self.observed.ends, other, end.request, how);
        if let Some(sought) = self.sought.as_mut().filter(|_| !same) {
            sought.differs(said);
        }
    }
}

/// Tells the notes of tasks and events.
struct Tracing(Rc<RefCell<Notes>>);

impl EventSink for Tracing {
    fn task(&mut self, task: &TaskStart) {
        if let Some(sought) = &mut self.0.borrow_mut().sought {
            sought.chain.task(TaskRecord::new(task));
        }
    }

    fn event(&mut self, event: &Event) {
        if let Some(sought) = &mut self.0.borrow_mut().sought
            && let Some((at, before)) = sought.now.replace((event.at, EventRecord::new(event)))
        {
            sought.chain.event(at, before);
        }
    }
}
