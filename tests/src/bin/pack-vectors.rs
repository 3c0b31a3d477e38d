//! `pack-vectors SOURCE TARGET`: makes the packed copy of the golden vectors, or says that it is stale.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use tests::vectors::{self, Changes, VectorsError};

/// Packs golden vectors, one zstd-compressed tar archive a folder.
#[derive(Debug, Parser)]
struct Arguments {
    /// Folder with the vectors as plain files.
    source: PathBuf,
    /// Folder of the packed copy.
    target: PathBuf,
    /// Change nothing; exit with 1 if the packed copy differs from the source.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(changes) => {
            for (mark, paths) in [('+', &changes.added), ('~', &changes.changed), ('-', &changes.removed)] {
                for path in paths {
                    println!("{mark} {path}");
                }
            }
            conclude(&arguments, &changes)
        }
        Err(error) => {
            eprintln!("pack-vectors: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<Changes, VectorsError> {
    let source = vectors::read_folder(&arguments.source)?;
    if arguments.check {
        Ok(Changes::between(&vectors::read_packed(&arguments.target)?, &source))
    } else {
        vectors::pack(&source, &arguments.target)
    }
}

fn conclude(arguments: &Arguments, changes: &Changes) -> ExitCode {
    let (source, target) = (arguments.source.display(), arguments.target.display());
    if changes.is_empty() {
        println!("{target} equals {source}");
    } else if arguments.check {
        println!("{target} is stale: run `cargo run -p tests --bin pack-vectors -- {source} {target}`");
        return ExitCode::FAILURE;
    } else {
        println!("{target} now equals {source}");
    }
    ExitCode::SUCCESS
}
