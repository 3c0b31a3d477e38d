//! What prefixes cost: reading a long prompt, naming its blocks, asking who holds them, and taking KV events in.
//!
//! `cargo bench -p router --bench prefix [-- --json FILE] [--rows parse,lookup-10]`
//!
//! Times are CPU time of the one thread; of what repeats, the median. Every row has its goal beside it.

#![expect(
    clippy::disallowed_methods,
    reason = "it is a program of its own: it reads its command line and counts what it allocates"
)]

#[path = "prefix/events.rs"]
mod events;
#[path = "prefix/lookup.rs"]
mod lookup;
#[path = "prefix/measure.rs"]
mod measure;
#[path = "prefix/prompt.rs"]
mod prompt;

use std::error::Error;
use std::path::PathBuf;

use measure::Counting;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One line of the table.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    name: &'static str,
    unit: &'static str,
    goal: Goal,
    measure: fn() -> f64,
}

/// What a figure shall be.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

impl Goal {
    fn is_met(self, figure: f64) -> bool {
        match self {
            Goal::AtMost(most) => figure <= most,
            Goal::AtLeast(least) => figure >= least,
        }
    }

    fn text(self) -> String {
        match self {
            Goal::AtMost(most) => format!("<= {most}"),
            Goal::AtLeast(least) => format!(">= {least}"),
        }
    }

    fn value(self) -> f64 {
        match self {
            Goal::AtMost(value) | Goal::AtLeast(value) => value,
        }
    }
}

struct Options {
    json: Option<PathBuf>,
    rows: Option<Vec<String>>,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { json: None, rows: None };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--json" => options.json = Some(value()?.into()),
            "--rows" => options.rows = Some(value()?.split(',').map(str::to_owned).collect()),
            // What cargo adds.
            "--bench" => {}
            _ => {
                let accepted = "--json FILE, --rows parse,lookup-10";
                return Err(format!("unknown argument {arg}: accepted are {accepted}").into());
            }
        }
    }
    Ok(options)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let mut results = Vec::new();
    println!("{:<18} {:>12} {:<12} {:>12}", "row", "figure", "unit", "goal");
    for row in [prompt::ROWS, lookup::ROWS, events::ROWS].concat() {
        if options.rows.as_ref().is_some_and(|rows| !rows.iter().any(|name| name == row.name)) {
            continue;
        }
        let figure = (row.measure)();
        let missed = if row.goal.is_met(figure) { "" } else { "  missed" };
        println!("{:<18} {figure:>12.3} {:<12} {:>12}{missed}", row.name, row.unit, row.goal.text());
        results.push(json!({
            "row": row.name,
            "figure": figure,
            "unit": row.unit,
            "goal": row.goal.value(),
            "met": row.goal.is_met(figure),
        }));
    }
    if let Some(path) = options.json {
        std::fs::write(path, serde_json::to_string_pretty(&results)?)?;
    }
    Ok(())
}
