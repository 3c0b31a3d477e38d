//! Keeps hosted code on the seam: what reaches around it, and how much of it reaches through.
//!
//! Clippy finds the uses, because it knows types: it runs with the bans of the workspace's `.clippy.toml`, to which
//! this programme adds the calls of the seam itself, and with every `allow` and `expect` overruled. Then:
//!
//! - a use of something banned must be a row of `.hosting-lint/baseline.toml`, each with a reason of its own;
//! - the lines of a module that call the seam must not be more than its cap in `.hosting-lint/budget.toml`.
//!
//! Exit status: 0 when both hold, 1 when not, 2 when they could not be examined.

mod audit;
mod baseline;
mod budget;
mod clippy;
mod failure;
mod kind;
mod source;
mod uses;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use baseline::Baseline;
use budget::{Budget, Count};
use failure::Failure;
use uses::{Side, Use};
use workspace::Workspace;

/// Checks that code which two hosts run touches the machine only where somebody accepted it.
#[derive(Parser, Debug)]
#[command(name = "hosting-lint")]
struct Args {
    /// Directory of the workspace.
    #[arg(long, default_value = ".")]
    root: PathBuf,

    /// Packages whose libraries and programmes two hosts run.
    #[arg(long = "package", short, default_values = ["router", "engines"])]
    packages: Vec<String>,

    /// Writes what is found into baseline and budget, for review; reasons are kept.
    #[arg(long)]
    update: bool,

    /// Reason of the uses that `--update` adds and that no `#[expect]` gives one.
    #[arg(long, requires = "update")]
    reason: Option<String>,

    /// Lists each use in the files under PATH, of the machine and of the seam, and checks nothing.
    #[arg(long, value_name = "PATH", conflicts_with = "update")]
    audit: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(failure) => {
            eprintln!("hosting-lint: {failure}");
            ExitCode::from(2)
        }
    }
}

/// Returns whether everything is as it was accepted.
fn run(args: &Args) -> Result<bool, Failure> {
    let workspace = Workspace::find(&args.root, &args.packages)?;
    let uses = uses::gather(&workspace)?;
    if let Some(path) = &args.audit {
        print!("{}", audit::table(&uses, path));
        return Ok(true);
    }
    let (banned, seam): (Vec<Use>, Vec<Use>) = uses.into_iter().partition(|one| one.side == Side::Around);
    let counts = Count::of(&workspace, &seam);

    let baseline = Baseline::load(&workspace.file("baseline.toml"))?;
    let budget = Budget::load(&workspace.file("budget.toml"))?;
    if args.update {
        let updated = baseline.updated(&banned, args.reason.as_deref());
        updated.store(&workspace.file("baseline.toml"))?;
        budget.updated(&counts).store(&workspace.file("budget.toml"))?;
        print!("{}", updated.without_reason());
        return Ok(updated.is_reasoned());
    }
    let difference = baseline.compare(&banned);
    let comparison = budget.compare(&counts);
    print!("{difference}{comparison}");
    let holds = difference.is_empty() && comparison.holds();
    if holds {
        println!(
            "{} accepted uses around the seam, {} calls of it, no module over budget",
            banned.len(),
            seam.len()
        );
    }
    Ok(holds)
}
