use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use clap::Args;
use executor::{Interrupt, Signal};
use router::embed::RouterConfig;

use super::source::{SourceArgs, flag};
use super::{Failure, HostArgs, print};
use crate::InputError;
use crate::cluster;
use crate::input_file;
use crate::recording::{Recording, Setup};
use crate::report::{Files, Observer, Progress, Report, RunEnd, Screen, Subject};
use crate::scenario::{Plan, RouterSource, Scenario};
use crate::workload::Workload;

/// The arguments of `lockstep run`; a flag overrides what the scenario says.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct RunArgs {
    /// The scenario, and what arrives.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Configure the router with this EndpointPickerConfig
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Let plugins of Alpha stability run
    #[arg(long)]
    pub allow_experimental_plugins: bool,
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
    /// Write requests.csv, decisions.jsonl and summary.json into this folder
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Write the reason of each decision into decisions.jsonl: for `lockstep explain`
    #[arg(long, requires = "out")]
    pub explain: bool,
    /// Write a journal of the run into this folder: for `lockstep replay`, `diff` and `trace`
    #[arg(long, value_name = "DIR")]
    pub record: Option<PathBuf>,
    /// How it is hosted.
    #[command(flatten)]
    pub host: HostArgs,
}

impl RunArgs {
    /// Returns the scenario with the flags laid over it.
    ///
    /// # Errors
    /// Everything that is wrong in the scenario's file, and `--engines` for a cluster of several groups.
    pub fn scenario(&self) -> Result<Scenario, Failure> {
        let mut scenario = self.source.scenario()?;
        if let Some(config) = &self.config {
            scenario.router = RouterSource::File(config.clone());
        }
        scenario.allow_experimental_plugins |= self.allow_experimental_plugins;
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
        let (mut unrecorded, mut sound) = (None, true);
        let done = execute(self, |plan, workload, observer| {
            let config = plan.router.config()?;
            let clock = WallClock::start();
            let sim = self.host.builder().interrupt(interrupt.clone()).replay(self.repeat(plan.seed));
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
            sound = end.clean;
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
            (None, None) if self.host.check && !sound => {
                Err(Failure::differing("the watchdog found what `--check` does not let pass"))
            }
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
        let files = [&self.source.scenario, &self.source.trace, &self.config].into_iter().flatten();
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
        let source = &self.source;
        words.extend(source.scenario.as_ref().map(path));
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                words.extend([name.to_owned(), value]);
            }
        };
        add("--trace", source.trace.as_ref().map(path));
        add("--config", self.config.as_ref().map(path));
        add("--engines", self.engines.map(|n| n.to_string()));
        add("--model", self.model.clone());
        add("--gpu", self.gpu.clone());
        add("--tp", self.tp.map(|n| n.to_string()));
        add("--timestamps", source.timestamps.clone());
        add("--rate-scale", source.rate_scale.map(|factor| factor.to_string()));
        add("--requests", source.requests.map(|n| n.to_string()));
        add("--seed", Some(seed.to_string()));
        if self.allow_experimental_plugins {
            words.push("--allow-experimental-plugins".to_owned());
        }
        words.extend(self.host.words());
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
    let files = files.map(|files| files.explaining(args.explain));
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

/// Returns the word as a shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
