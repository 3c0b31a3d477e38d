//! `lockstep-router`: the router as a server.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    router::cli::Cli::parse().run()
}
