use std::cell::RefCell;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use executor::{Interrupt, Signal, Sim};
use router::config::problem::Located;
use router::embed::RouterConfig;

use super::{Failure, print};
use crate::InputError;
use crate::cluster;
use crate::input_file;
use crate::recording::{Recording, Setup};
use crate::report::{Files, Observer, Progress, Report, RunEnd, Screen, Subject};
use crate::scenario::{Plan, RouterSource, Scenario, WorkloadSource, WorkloadSpec};
use crate::workload::{Timestamps, Workload};

/// The arguments of `lockstep run`; a flag overrides what the scenario says.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct RunArgs {
    /// A scenario, or an EndpointPickerConfig to run the built-in scenario with
    #[arg(value_name = "SCENARIO.yaml")]
    pub scenario: Option<PathBuf>,
    /// Replay this trace: Mooncake JSONL or Azure CSV
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Configure the router with this EndpointPickerConfig
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Number of engines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub engines: Option<u32>,
    /// Model of all engines: a bundled model's name, or the path of a Hugging Face config.json
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// GPU of all engines: A100-80, A100-SXM, H100 or L40S
    #[arg(long, value_name = "GPU")]
    pub gpu: Option<String>,
    /// GPUs that each engine is spread over
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub tp: Option<u32>,
    /// Multiply the rate of arrival
    #[arg(long, value_name = "FACTOR")]
    pub rate_scale: Option<f64>,
    /// Requests with one timestamp of a Mooncake trace arrive spread up to the next timestamp, or all at once
    #[arg(long, value_name = "HOW", value_parser = clap::builder::PossibleValuesParser::new(Timestamps::NAMES))]
    pub timestamps: Option<String>,
    /// Run at most the first N requests of a trace, or draw N requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// What all randomness comes from
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Write requests.csv, decisions.jsonl and summary.json into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write a journal of the run into this folder: for `lockstep replay`, `diff` and `trace`
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
}

impl RunArgs {
    /// Returns the scenario with the flags laid over it.
    ///
    /// # Errors
    /// Everything that is wrong in the scenario's file, and `--engines` for a cluster of several groups.
    pub fn scenario(&self) -> Result<Scenario, Failure> {
        let mut scenario = match &self.scenario {
            Some(path) => Scenario::open(path)?,
            None => Scenario::built_in()?,
        };
        if let Some(trace) = &self.trace {
            let source = WorkloadSource::Trace(flag("--trace", trace.clone()));
            let timestamps = Timestamps::default();
            scenario.workload = WorkloadSpec { source, rate_scale: 1.0, timestamps, requests: None };
        }
        if let Some(scale) = self.rate_scale {
            scenario.workload.rate_scale = scale;
        }
        if let Some(timestamps) = self.timestamps.as_deref().and_then(Timestamps::from_name) {
            scenario.workload.timestamps = timestamps;
        }
        if let Some(requests) = self.requests.and_then(NonZeroU64::new) {
            scenario.workload.limit(requests);
        }
        if let Some(config) = &self.config {
            scenario.router = RouterSource::File(config.clone());
        }
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        match (self.engines, scenario.cluster.as_mut_slice()) {
            (None, _) => {}
            (Some(count), [group]) => group.count = flag("--engines", count),
            (Some(_), groups) => {
                return Err(InputError::new(format!("the scenario has {} groups of engines", groups.len()))
                    .accepted("a scenario with one group; edit the counts in its file")
                    .field("--engines")
                    .into());
            }
        }
        for group in &mut scenario.cluster {
            if let Some(model) = &self.model {
                group.model = flag("--model", model.clone());
            }
            if let Some(gpu) = &self.gpu {
                group.gpu = flag("--gpu", gpu.clone());
            }
            if let Some(tp) = self.tp {
                group.tp = flag("--tp", tp);
            }
        }
        Ok(scenario)
    }

    /// Runs the scenario and prints its screen.
    ///
    /// # Errors
    /// What is wrong with the arguments, the scenario, the trace, the router's configuration or the output.
    pub fn run(&self) -> Result<(), Failure> {
        let interrupt =
            Interrupt::catch().map_err(|error| Failure::new(format!("signals cannot be caught: {error}")))?;
        let mut unrecorded = None;
        let done = execute(self, |plan, workload, observer| {
            let config = plan.router.config()?;
            let clock = WallClock::start();
            let sim = Sim::builder().interrupt(interrupt.clone());
            let recording = self.recording(plan.seed, &observer)?;
            let end = match &recording {
                None => cluster::simulate(sim, plan, config, workload, observer)?,
                Some(tape) => {
                    let watch = Rc::new(RefCell::new(tape.clone()));
                    cluster::simulate(sim.trace(tape.clone()), plan, config, workload, watch)?
                }
            };
            let end = RunEnd { wall: clock.elapsed(), interrupted: interrupt.signal(), ..end };
            if let Some(tape) = recording {
                unrecorded = tape.finish(&end).err();
            }
            Ok(end)
        })?;
        print(&format!("{}\n", done.screen))?;
        if let (Some(folder), Some(error)) = (&self.record, unrecorded) {
            let folder = folder.display();
            return Err(Failure::lost_output(format!("the journal in {folder} is not whole: {error}")));
        }
        match (done.interrupted, done.unwritten) {
            (Some(signal), _) => Err(Failure::interrupted(signal)),
            (None, Some(error)) => Err(Failure::lost_output(error)),
            (None, None) => Ok(()),
        }
    }

    /// Begins the journal that is asked for.
    fn recording(
        &self,
        seed: u64,
        observer: &Rc<RefCell<dyn Observer>>,
    ) -> Result<Option<Recording>, Failure> {
        let Some(folder) = &self.record else { return Ok(None) };
        let files = [&self.scenario, &self.trace, &self.config].into_iter().flatten();
        let setup = Setup::new(self.words(seed), files.map(PathBuf::as_path))?;
        let recording = Recording::begin(folder, setup.header(seed), Rc::clone(observer));
        recording.map(Some).map_err(Failure::new)
    }

    /// Returns the command that repeats the run; the seed is always in it.
    pub fn repeat(&self, seed: u64) -> String {
        let words: Vec<String> = self.words(seed).iter().map(|word| quoted(word)).collect();
        words.join(" ")
    }

    /// Returns the words of the command that repeats the run.
    fn words(&self, seed: u64) -> Vec<String> {
        let path = |path: &PathBuf| path.display().to_string();
        let mut words = vec!["lockstep".to_owned(), "run".to_owned()];
        words.extend(self.scenario.as_ref().map(path));
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([name.to_owned(), value]);
            }
        };
        add("--trace", self.trace.as_ref().map(path));
        add("--config", self.config.as_ref().map(path));
        add("--engines", self.engines.map(|n| n.to_string()));
        add("--model", self.model.clone());
        add("--gpu", self.gpu.clone());
        add("--tp", self.tp.map(|n| n.to_string()));
        add("--timestamps", self.timestamps.clone());
        add("--rate-scale", self.rate_scale.map(|factor| factor.to_string()));
        add("--requests", self.requests.map(|n| n.to_string()));
        add("--seed", Some(seed.to_string()));
        words
    }
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// Its screen.
    pub screen: String,
    /// Why one of its files is not whole, if that is so.
    pub unwritten: Option<InputError>,
    /// The signal that ended it before its end.
    pub interrupted: Option<Signal>,
}

/// Runs `lockstep run`: builds the plan and the workload, lets `simulate` run them, and returns the screen.
///
/// Everything that can be refused is refused before `simulate` is called, but for faults further down in a
/// trace.
///
/// # Errors
/// What is wrong with the arguments, the scenario, the trace or the output, and what `simulate` fails with.
pub fn execute(
    args: &RunArgs,
    simulate: impl FnOnce(&Plan, Workload, Rc<RefCell<dyn Observer>>) -> Result<RunEnd, Failure>,
) -> Result<Executed, Failure> {
    let plan = args.scenario()?.plan()?;
    let workload = plan.workload.open(plan.seed)?;
    let files = args.out.as_deref().map(Files::create).transpose()?;
    let report = Rc::new(RefCell::new(Report::new(files, Progress::on_terminal(workload.remaining()))));
    let end = simulate(&plan, workload, Rc::clone(&report) as Rc<RefCell<dyn Observer>>)?;
    // Whoever still watched a run that is over has nothing more to say.
    let report = report.replace(Report::new(None, Progress::hidden()));
    let interrupted = end.interrupted;
    let finished = report.finish(plan.seed, end);
    let subject = Subject {
        workload: plan.workload.describe(),
        cluster: plan.groups.iter().map(|group| group.describe()).collect::<Vec<_>>().join(", "),
        router: plan.router.describe(),
        repeat: args.repeat(plan.seed),
    };
    let screen = Screen { subject: &subject, finished: &finished }.to_string();
    Ok(Executed { screen, unwritten: finished.unwritten, interrupted })
}

/// Measures how long a run takes on the wall: it is printed, and nothing depends on it.
struct WallClock(std::time::Instant);

impl WallClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the wall time of a whole run, for the reader of its screen"
    )]
    fn start() -> Self {
        WallClock(std::time::Instant::now())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the wall time of a whole run, for the reader of its screen"
    )]
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

impl RouterSource {
    /// Returns what the router is built from.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub(super) fn config(&self) -> Result<RouterConfig, Failure> {
        Ok(match self {
            RouterSource::BuiltIn => RouterConfig::new("built-in configuration", ""),
            RouterSource::File(path) => {
                let what = "the router's configuration";
                let text = input_file::read_text(path, what, "an EndpointPickerConfig file")?;
                RouterConfig::new(path.display().to_string(), text)
            }
            RouterSource::Inline { file, config } => RouterConfig::inline(file.clone(), config.value.clone()),
        })
    }

    /// Describes the source in a few words.
    fn describe(&self) -> String {
        match self {
            RouterSource::BuiltIn => "built-in default".to_owned(),
            RouterSource::File(path) => path.display().to_string(),
            RouterSource::Inline { file, .. } => format!("inline in {file}"),
        }
    }
}

impl WorkloadSpec {
    /// Ends the workload behind `requests` requests.
    fn limit(&mut self, requests: NonZeroU64) {
        self.requests = Some(requests);
        if let WorkloadSource::Synthetic(synthetic) = &mut self.source {
            synthetic.requests = requests;
        }
    }

    /// Describes the workload in a few words.
    pub(super) fn describe(&self) -> String {
        let source = match &self.source {
            WorkloadSource::Trace(path) if self.timestamps == Timestamps::Recorded => {
                format!("{}, timestamps as recorded", path.display())
            }
            WorkloadSource::Trace(path) => path.display().to_string(),
            WorkloadSource::Synthetic(synthetic) => {
                format!("synthetic, {} requests, {} a second", synthetic.requests, synthetic.arrivals.rate)
            }
        };
        let limit = match (&self.source, self.requests) {
            (WorkloadSource::Trace(_), Some(requests)) => format!(", its first {requests} requests at most"),
            _ => String::new(),
        };
        let scale =
            if self.rate_scale == 1.0 { String::new() } else { format!(", rate x {}", self.rate_scale) };
        source + &limit + &scale
    }
}

/// A value that a flag gave.
fn flag<T>(name: &str, value: T) -> Located<T> {
    Located { value, at: None, path: name.to_owned() }
}

/// Returns the word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
