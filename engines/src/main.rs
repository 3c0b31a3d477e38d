//! `lockstep`: simulate a cluster, or serve mock engines.

use std::process::ExitCode;

use clap::Parser;
use engines::cli::{Cli, Command, print_failure};

/// A simulation makes and drops messages by the million, and none outlives its request.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Cli::parse().into_command() {
        Command::Run(args) => args.run(),
        Command::Engines(args) => args.run(),
        Command::Explain(args) => args.run(),
        Command::Workload(args) => args.run(),
        Command::Replay(args) => args.run(),
        Command::Diff(args) => args.run(),
        Command::Explore(args) => args.run(),
        Command::Trace(args) => args.run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            print_failure(&failure);
            failure.exit_code()
        }
    }
}
