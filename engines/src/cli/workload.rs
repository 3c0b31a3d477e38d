use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::source::SourceArgs;
use super::{Failure, print};
use crate::InputError;
use crate::report::{Percentiles, grouped, plain_table};
use crate::workload::{Described, Description, MooncakeRow, Workload};

/// The arguments of `lockstep workload`.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct WorkloadArgs {
    /// What to do with it.
    #[command(subcommand)]
    pub command: WorkloadCommand,
}

/// What can be done with a workload without running it.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum WorkloadCommand {
    /// Print its numbers: rates, lengths, and what its prompts share
    Describe(SourceArgs),
    /// Write it as Mooncake JSONL: scaled, cut, or drawn
    Convert(ConvertArgs),
}

/// The arguments of `lockstep workload convert`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct ConvertArgs {
    /// Which workload is meant.
    #[command(flatten)]
    pub source: SourceArgs,
    /// Write this file instead of standard output; it is there once it is whole
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl WorkloadArgs {
    /// Does what was asked.
    ///
    /// # Errors
    /// What is wrong with the arguments, the scenario or the trace, and an output that cannot be written.
    pub fn run(&self) -> Result<(), Failure> {
        match &self.command {
            WorkloadCommand::Describe(source) => print(&describe(source)?),
            WorkloadCommand::Convert(convert) => convert.run(),
        }
    }
}

/// Opens the workload; returns it with a few words about it.
fn open(source: &SourceArgs) -> Result<(String, Workload), Failure> {
    let scenario = source.scenario()?;
    Ok((scenario.workload.describe(), scenario.workload.open(scenario.seed)?))
}

/// Returns the numbers of the workload as text.
fn describe(source: &SourceArgs) -> Result<String, Failure> {
    let (name, workload) = open(source)?;
    let mut numbers = Description::default();
    for request in workload {
        numbers.add(&request?);
    }
    Ok(Text { name: &name, numbers: &numbers.finish() }.to_string())
}

impl ConvertArgs {
    fn run(&self) -> Result<(), Failure> {
        let (_, workload) = open(&self.source)?;
        let Some(path) = &self.out else {
            return match write(workload, io::stdout().lock()) {
                Err(Broken::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                Err(Broken::Output(error)) => {
                    Err(Failure::lost_output(format!("cannot write to standard output: {error}")))
                }
                Err(Broken::Workload(error)) => Err(error.into()),
                Ok(()) => Ok(()),
            };
        };
        let part = path.with_added_extension("part");
        let unwritable = |error: &io::Error| {
            let error = InputError::new(format!("cannot write: {error}"));
            error.accepted("a file that can be written, for --out").in_source(path.display().to_string())
        };
        let file = File::create(&part).map_err(|error| unwritable(&error))?;
        let written = write(workload, file).and_then(|()| fs::rename(&part, path).map_err(Broken::Output));
        let failure = match written {
            Ok(()) => return Ok(()),
            Err(Broken::Output(error)) => Failure::lost_output(unwritable(&error)),
            Err(Broken::Workload(error)) => error.into(),
        };
        remove(&part);
        Err(failure)
    }
}

/// Removes a file that is not whole; that it was to be there is told by another error.
fn remove(part: &Path) {
    let _ = fs::remove_file(part);
}

/// Why a workload was not written to its end.
enum Broken {
    Workload(InputError),
    Output(io::Error),
}

fn write(workload: Workload, output: impl Write) -> Result<(), Broken> {
    let mut output = BufWriter::with_capacity(1 << 16, output);
    for request in workload {
        let request = request.map_err(Broken::Workload)?;
        writeln!(output, "{}", MooncakeRow(&request)).map_err(Broken::Output)?;
    }
    output.flush().map_err(Broken::Output)
}

/// The numbers of a workload; displays as text.
struct Text<'a> {
    name: &'a str,
    numbers: &'a Described,
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = self.numbers;
        let span = numbers.span.as_secs_f64();
        writeln!(f, "workload     {}", self.name)?;
        write!(f, "requests     {} over {span:.3} s", grouped(numbers.requests))?;
        if span > 0.0 {
            let rate = |count: u64| count as f64 / span;
            write!(f, ": {:.2} a second, ", rate(numbers.requests))?;
            write!(f, "{} prompt and ", grouped(rate(numbers.prompt_tokens).round() as u64))?;
            write!(f, "{} output tokens a second", grouped(rate(numbers.output_tokens).round() as u64))?;
        }
        writeln!(f, "\n")?;
        let mut table = plain_table(&["", "mean", "p50", "p90", "p99", "max"]);
        for (name, percentiles, unit) in [
            ("prompt tokens", numbers.prompts, 1.0),
            ("output tokens", numbers.outputs, 1.0),
            ("gap ms", numbers.gaps, 1e6),
        ] {
            let decimals = if unit > 1.0 { 2 } else { 0 };
            let cells = percentiles.map_or_else(Vec::new, |percentiles: Percentiles| {
                let Percentiles { mean, p50, p90, p99, largest } = percentiles;
                let whole = [p50, p90, p99, largest].map(|number| number as f64);
                [format!("{:.2}", mean / unit)]
                    .into_iter()
                    .chain(whole.map(|number| format!("{:.decimals$}", number / unit)))
                    .collect()
            });
            let cells = if cells.is_empty() { vec!["-".to_owned(); 5] } else { cells };
            table.add_row(std::iter::once(name.to_owned()).chain(cells));
        }
        writeln!(f, "{}\n", table.trim_fmt())?;
        let share = 100.0 * numbers.shared_tokens as f64 / (numbers.prompt_tokens as f64).max(1.0);
        let least = if numbers.at_least { "at least " } else { "" };
        writeln!(
            f,
            "shared       {least}{share:.1} % of {} prompt tokens stand in a prefix of an earlier prompt",
            grouped(numbers.prompt_tokens)
        )
    }
}
