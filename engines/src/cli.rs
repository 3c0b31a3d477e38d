//! The command line of `lockstep`: its arguments, what they make of a scenario, and how it fails.

mod diff;
mod engines;
mod explain;
mod explore;
mod failure;
mod host;
mod output;
mod replay;
mod run;
mod source;
mod trace;
mod workload;

pub use diff::DiffArgs;
pub use engines::{EnginesArgs, ServerArgs};
pub use explain::ExplainArgs;
pub use explore::ExploreArgs;
pub use failure::Failure;
pub use host::HostArgs;
pub use output::{print, print_failure};
pub use replay::ReplayArgs;
pub use run::{RunArgs, execute};
pub use source::SourceArgs;
pub use trace::TraceArgs;
pub use workload::{ConvertArgs, WorkloadArgs, WorkloadCommand};

use clap::{Parser, Subcommand};

/// Simulates a cluster of vLLM engines behind the router, or serves mock engines on sockets.
///
/// Without a command it runs the built-in scenario.
#[derive(Clone, Debug, Parser)]
#[command(name = "lockstep", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done; 1 a result could not be written; 2 wrong arguments or input; \
3 a replay, a journal or a schedule differs, or `--check` found something; \
130 interrupted by SIGINT, 143 by SIGTERM";

/// What `lockstep` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run a scenario and print what it showed.
    Run(RunArgs),
    /// Serve simulated vLLM engines as real servers, one port each.
    Engines(EnginesArgs),
    /// Tell why a request of a run went where it went.
    Explain(ExplainArgs),
    /// Look at a workload, or write it as a trace, without running it.
    Workload(WorkloadArgs),
    /// Run a recorded run again, as it was or under another policy, and compare.
    Replay(ReplayArgs),
    /// Name the first difference of two recorded runs, and what led to it.
    Diff(DiffArgs),
    /// Run a scenario under other orders of what is due at one instant: does any decision depend on them?
    Explore(ExploreArgs),
    /// Turn a recorded run into a trace to look at.
    Trace(TraceArgs),
}

impl Cli {
    /// Returns the command, that of the built-in scenario where none is given.
    pub fn into_command(self) -> Command {
        self.command.unwrap_or_else(|| Command::Run(RunArgs::default()))
    }
}

#[cfg(test)]
mod tests;
