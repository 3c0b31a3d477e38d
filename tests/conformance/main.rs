//! Runs the golden vectors: inputs of our own and what the real systems answered to them.
//!
//! Prints `folder/file: N passed, N failed, N not built` for each file, below it each failing case with its first
//! difference, and at the end the totals; exits with 1 if any case failed. [`subjects`] says which code answers
//! for which file; every other rule of the run is in `vectors/README.md`.

mod config;
mod config_data;
mod engine;
mod flow_control;
mod model_server;
mod prefix;
mod request_control;
mod scheduling;
mod subjects;

use std::io;
use std::num::NonZero;
use std::process::ExitCode;
use std::thread;

use clap::Parser;
use tests::{cases, outcome, report, run, vectors};

/// Runs the golden vectors against the code that answers for them.
#[derive(Debug, Parser)]
struct Arguments {
    /// Run only files whose `folder/file` contains one of these words.
    words: Vec<String>,
    /// Run only cases whose id contains this text.
    #[arg(long)]
    id: Option<String>,
    /// List the files, their number of cases and whether they are built; run nothing.
    #[arg(long)]
    list: bool,
    /// Number of cases to run at once [default: one a core].
    #[arg(long)]
    test_threads: Option<NonZero<usize>>,
    /// Accepted because `cargo test -- --nocapture` gives it to every test; output is never captured.
    #[arg(long, hide = true)]
    nocapture: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let files = match vectors::open().map(|files| cases::load(&files)) {
        Ok(Ok(files)) => files,
        Ok(Err(error)) => return refuse(&error),
        Err(error) => return refuse(&error.to_string()),
    };
    let chosen: Vec<_> = files
        .into_iter()
        .filter(|file| {
            arguments.words.is_empty() || arguments.words.iter().any(|word| file.name.contains(word))
        })
        .collect();
    if chosen.is_empty() {
        println!("no file of vectors has a name with {}", arguments.words.join(" or "));
    }
    let mut out = io::stdout().lock();
    if arguments.list {
        return conclude(report::list(&mut out, &chosen, subjects::of).map(|()| true));
    }
    run::keep_panics_for_verdicts();
    let threads = arguments.test_threads.map_or_else(default_threads, NonZero::get);
    let verdicts = run::run(&chosen, arguments.id.as_deref(), subjects::of, threads);
    conclude(report::report(&mut out, &chosen, &verdicts))
}

fn conclude(good: io::Result<bool>) -> ExitCode {
    match good {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => refuse(&error.to_string()),
    }
}

fn default_threads() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

fn refuse(error: &str) -> ExitCode {
    eprintln!("conformance: {error}");
    ExitCode::from(2)
}
