//! The command line of `lockstep-router`.
//!
//! Everything in here belongs to the production host: it reads files, binds sockets, takes signals and ends the
//! process. Errors go to standard error and the process ends with 2.

mod failure;
mod serve;

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
    Serve(ServeArgs),
}

impl Cli {
    /// Runs the command and says on standard error why it could not.
    pub fn run(self) -> ExitCode {
        let Command::Serve(args) = self.command;
        match args.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("{failure}");
                ExitCode::from(2)
            }
        }
    }
}
