//! The command line of `lockstep`: its arguments, what they make of a scenario, and how it fails.

mod engines;
mod failure;
mod run;

pub use engines::EnginesArgs;
pub use failure::Failure;
pub use run::{RunArgs, execute};

use clap::{Parser, Subcommand};

/// Simulates a cluster of vLLM engines behind the router, or serves mock engines on sockets.
///
/// Without a command it runs the built-in scenario.
#[derive(Clone, Debug, Parser)]
#[command(name = "lockstep", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What `lockstep` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Run a scenario and print what it showed.
    Run(RunArgs),
    /// Serve simulated vLLM engines as real servers, one port each.
    Engines(EnginesArgs),
}

impl Cli {
    /// Returns the command, that of the built-in scenario where none is given.
    pub fn into_command(self) -> Command {
        self.command.unwrap_or_else(|| Command::Run(RunArgs::default()))
    }
}

#[cfg(test)]
mod tests;
