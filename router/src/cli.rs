//! The command line of `lockstep-router`.
//!
//! Everything in here belongs to the production host: it reads files, binds sockets, takes signals and ends the
//! process. Errors go to standard error and the process ends with 2, or with 1 where a second signal cut it short.

mod check;
mod failure;
mod serve;

pub use check::{CheckArgs, PluginsArgs, SchemaArgs};
pub use failure::Failure;
pub use serve::ServeArgs;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Routes LLM inference requests to model servers as the llm-d Router does.
#[derive(Clone, Debug, Parser)]
#[command(name = "lockstep-router", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `lockstep-router` can do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Serve as a reverse proxy.
    Serve(Box<ServeArgs>),
    /// Check a configuration file and print what it amounts to.
    Check(CheckArgs),
    /// List the plugin types of the pinned release, and which of them this build has.
    Plugins(PluginsArgs),
    /// Print the JSON Schema of the configuration file, for editors.
    Schema(SchemaArgs),
}

impl Cli {
    /// Runs the command and says on standard error why it could not.
    pub fn run(self) -> ExitCode {
        let done = match self.command {
            Command::Serve(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Plugins(args) => args.run(),
            Command::Schema(args) => args.run(),
        };
        match done {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("{failure}");
                ExitCode::from(failure.exit_code())
            }
        }
    }
}
