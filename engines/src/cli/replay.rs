use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::{Args, Parser};
use executor::journal::{Checkpoint, End, Kind, Reader};
use executor::{Event, EventSink, Instant, TaskStart};
use prost::Message;

use super::{Cli, Command, Failure, execute, print};
use crate::cluster;
use crate::recording::{DecisionRecord, Setup};
use crate::report::{Decision, Observer, RequestEnd, RunEnd};

/// Events that are printed when the replay is to end early.
const LAST: usize = 32;

/// Changed decisions that are listed.
const LISTED: usize = 20;

/// The arguments of `lockstep replay`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct ReplayArgs {
    /// A journal that `lockstep run --record` wrote
    #[arg(value_name = "JOURNAL")]
    pub journal: PathBuf,
    /// Decide with this EndpointPickerConfig instead: what had it changed?
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// End after so many events, and print the last of them
    #[arg(long, value_name = "EVENT")]
    pub until: Option<u64>,
    /// Print the events from this time of the run on
    #[arg(long, value_name = "SECONDS")]
    pub from: Option<f64>,
}

/// What the journal says.
#[derive(Default)]
struct Recorded {
    decisions: Vec<DecisionRecord>,
    checkpoints: Vec<Checkpoint>,
    end: Option<End>,
}

impl Recorded {
    fn read(reader: &mut Reader) -> Self {
        let mut recorded = Recorded::default();
        for record in reader {
            let body = record.body.as_slice();
            match record.kind {
                Kind::Decision => recorded.decisions.extend(DecisionRecord::decode(body)),
                Kind::Checkpoint => recorded.checkpoints.extend(Checkpoint::decode(body)),
                Kind::End => recorded.end = End::decode(body).ok(),
                _ => {}
            }
        }
        recorded
    }
}

/// What the replay does, held against the checkpoints, and printed where that is asked for.
#[derive(Default)]
struct Watch {
    checkpoints: std::vec::IntoIter<Checkpoint>,
    /// The first checkpoint at which the digest is another.
    parted: Option<u64>,
    from: Option<Instant>,
    /// The last event that counts: the run ends before the one behind it is executed.
    until: Option<u64>,
    /// The latest events, where they are to be printed at the end.
    last: Option<VecDeque<Event>>,
    names: Vec<&'static str>,
    text: String,
}

impl EventSink for Watch {
    fn task(&mut self, task: &TaskStart) {
        self.names.push(task.name);
    }

    fn event(&mut self, event: &Event) {
        if self.until.is_some_and(|until| event.number > until) {
            return;
        }
        if let Some(next) = self.checkpoints.as_slice().first().filter(|next| next.events == event.number) {
            if next.digest != event.digest {
                self.parted.get_or_insert(event.number);
            }
            self.checkpoints.next();
        }
        if self.from.is_some_and(|from| event.at >= from) {
            self.print(event);
        }
        if let Some(last) = &mut self.last {
            last.truncate(LAST - 1);
            last.push_front(*event);
        }
    }
}

impl Watch {
    fn print(&mut self, Event { number, at, task, aborted, cause, .. }: &Event) {
        let name = self.names.get(*task as usize).copied().unwrap_or_default();
        let what = if *aborted { "drop of" } else { "turn of" };
        // A string grows.
        let _ = writeln!(self.text, "{at} event {number}: {what} task {task} {name:?}, due by {cause:?}");
    }
}

struct Shared(Rc<RefCell<Watch>>);

impl EventSink for Shared {
    fn task(&mut self, task: &TaskStart) {
        self.0.borrow_mut().task(task);
    }

    fn event(&mut self, event: &Event) {
        self.0.borrow_mut().event(event);
    }
}

/// Keeps the decisions.
#[derive(Default)]
struct Decisions(Vec<(Instant, DecisionRecord)>);

impl Observer for Decisions {
    fn decided(&mut self, decision: &Decision<'_>) {
        self.0.push((decision.at, DecisionRecord::new(decision)));
    }

    fn tokens_followed(&mut self, _: Duration, _: u64) {}

    fn request_ended(&mut self, _: &RequestEnd<'_>) {}
}

impl ReplayArgs {
    /// Runs the recorded command again and holds it against the journal.
    ///
    /// # Errors
    /// When the journal, or what it names, cannot be read; when the replay differs and nothing was to be changed.
    pub fn run(&self) -> Result<(), Failure> {
        let mut reader = Reader::open(&self.journal).map_err(Failure::new)?;
        let setup = Setup::of(reader.header())?;
        let recorded = Recorded::read(&mut reader);
        let mut text = String::new();
        if let Some(cut) = reader.cut() {
            let _ = writeln!(text, "{cut}");
        }
        let command = Cli::try_parse_from(&setup.words).map_err(Failure::new)?.into_command();
        let Command::Run(mut args) = command else {
            return Err(Failure::new("the journal does not hold a run"));
        };
        args.config = self.config.clone().or(args.config);

        let from = match self.from {
            Some(from) if from < 0.0 || !from.is_finite() || from > 1e9 => {
                return Err(Failure::new(format!("--from {from}; accepted: seconds from 0 to 1e9")));
            }
            from => from.map(|from| Instant::ZERO + Duration::from_secs_f64(from)),
        };
        let watch = Rc::new(RefCell::new(Watch {
            checkpoints: recorded.checkpoints.clone().into_iter(),
            from,
            until: self.until,
            last: (from.is_none() && self.until.is_some()).then(VecDeque::new),
            text,
            ..Watch::default()
        }));
        let decisions = Rc::new(RefCell::new(Decisions::default()));
        let mut digest = None;
        let (watching, deciding, until) = (Rc::clone(&watch), Rc::clone(&decisions), self.until);
        execute(&args, |plan, workload, _| {
            let sim = args.host.builder().trace(Shared(watching));
            let sim = until.into_iter().fold(sim, executor::SimBuilder::max_events);
            let end = cluster::simulate(sim, plan, plan.router.config()?, workload, deciding)?;
            digest = Some(end.digest);
            Ok::<RunEnd, Failure>(end)
        })?;
        let mut watch = watch.take();
        for event in watch.last.take().into_iter().flatten().rev() {
            watch.print(&event);
        }
        let decided = std::mem::take(&mut decisions.borrow_mut().0);
        self.report(watch, &recorded, &decided, digest.unwrap_or_default())
    }

    fn report(
        &self,
        watch: Watch,
        recorded: &Recorded,
        decided: &[(Instant, DecisionRecord)],
        digest: u64,
    ) -> Result<(), Failure> {
        let mut text = watch.text;
        let changed = match &self.config {
            None => changed_in_order(&recorded.decisions, decided),
            Some(_) => changed_by_request(&recorded.decisions, decided),
        };
        let (before, now) = (recorded.decisions.len(), decided.len());
        let _ = writeln!(text, "decisions    {before} recorded, {now} replayed, {} changed", changed.len());
        let ended = recorded.end.as_ref().filter(|_| self.until.is_none() && self.config.is_none());
        let same_digest = ended.is_none_or(|end| end.digest == digest);
        let _ = match (ended, watch.parted) {
            (Some(end), _) if end.digest == digest => {
                writeln!(text, "digest       {digest:016x}, as recorded")
            }
            (Some(end), _) => writeln!(text, "digest       {digest:016x}, recorded {:016x}", end.digest),
            (None, _) => writeln!(text, "digest       {digest:016x}"),
        };
        if let (None, Some(event)) = (&self.config, watch.parted) {
            let _ =
                writeln!(text, "parted       at or before event {event}; `lockstep diff` names the first");
        }
        if !changed.is_empty() {
            let _ =
                writeln!(text, "\n{:>10}  {:>16}  {:<24}  {:<24}", "request", "at", "recorded", "replayed");
            for Changed { was, at, is } in changed.iter().take(LISTED) {
                let at = at.to_string();
                let _ = writeln!(text, "{:>10}  {at:>16}  {:<24}  {:<24}", is.request, said(was), said(is));
            }
            if changed.len() > LISTED {
                let _ = writeln!(text, "and {} more", changed.len() - LISTED);
            }
        }
        print(&text)?;
        let whole =
            self.until.is_some() || recorded.end.is_none() || recorded.decisions.len() == decided.len();
        let as_recorded = changed.is_empty() && same_digest && watch.parted.is_none() && whole;
        if self.config.is_none() && !as_recorded {
            return Err(Failure::differing("the replay is not what was recorded"));
        }
        Ok(())
    }
}

/// A decision that is another one now.
struct Changed<'a> {
    was: &'a DecisionRecord,
    at: Instant,
    is: &'a DecisionRecord,
}

/// Compares decision by decision: the same run makes the same ones in the same order.
fn changed_in_order<'a>(
    recorded: &'a [DecisionRecord],
    decided: &'a [(Instant, DecisionRecord)],
) -> Vec<Changed<'a>> {
    let pairs = recorded.iter().zip(decided);
    pairs.filter(|(was, (_, is))| *was != is).map(|(was, (at, is))| Changed { was, at: *at, is }).collect()
}

/// Compares where each request goes: another policy decides at other times. Of a request that was routed more than
/// once the last decision counts.
fn changed_by_request<'a>(
    recorded: &'a [DecisionRecord],
    decided: &'a [(Instant, DecisionRecord)],
) -> Vec<Changed<'a>> {
    let before: BTreeMap<u64, &DecisionRecord> = recorded.iter().map(|was| (was.request, was)).collect();
    let now: BTreeMap<u64, &(Instant, DecisionRecord)> =
        decided.iter().map(|is| (is.1.request, is)).collect();
    let pairs = now.into_iter().filter_map(|(request, (at, is))| Some((*before.get(&request)?, *at, is)));
    pairs.filter(|(was, _, is)| said(was) != said(is)).map(|(was, at, is)| Changed { was, at, is }).collect()
}

/// Where a request goes, or why nowhere.
fn said(decision: &DecisionRecord) -> &str {
    if decision.endpoint.is_empty() { &decision.error } else { &decision.endpoint }
}
