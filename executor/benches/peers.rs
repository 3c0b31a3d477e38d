//! What the simulation's executor costs beside tokio's, in one run on one thread.
//!
//! `cargo bench -p executor --bench peers [-- --json FILE] [--reps N] [--rows a1,b3]`
//!
//! Figures are thread CPU time an operation, the median of the repetitions. tokio runs as current_thread with a
//! paused clock, which is its own form of simulated time (to the millisecond).

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "it measures tokio, by the clock and the allocator of the machine"
)]

#[path = "peers/measure.rs"]
mod measure;
#[path = "peers/peer.rs"]
mod peer;
#[path = "peers/rows.rs"]
mod rows;

use std::error::Error;
use std::path::PathBuf;

use measure::Counting;
use serde_json::json;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Options {
    json: Option<PathBuf>,
    reps: usize,
    rows: Option<Vec<String>>,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { json: None, reps: 5, rows: None };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--json" => options.json = Some(value()?.into()),
            "--reps" => options.reps = value()?.parse::<usize>()?.max(1),
            "--rows" => options.rows = Some(value()?.split(',').map(str::to_owned).collect()),
            // What cargo adds.
            "--bench" => {}
            _ => {
                return Err(format!(
                    "unknown argument {arg}: accepted are --json FILE, --reps N, --rows A,B"
                )
                .into());
            }
        }
    }
    Ok(options)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let mut results = Vec::new();
    println!("{:<4} {:<46} {:>8} {:>9} {:>9} {:>7}", "row", "what", "unit", "ours", "tokio", "ratio");
    for row in rows::all() {
        if options.rows.as_ref().is_some_and(|rows| !rows.iter().any(|name| name == row.name)) {
            continue;
        }
        let ours = (row.ours)(options.reps);
        let tokio = row.tokio.map(|tokio| tokio(options.reps));
        let (shown, ratio) = match tokio {
            Some(tokio) if tokio > 0.0 => (format!("{tokio:.1}"), format!("{:.2}", ours / tokio)),
            Some(tokio) => (format!("{tokio:.1}"), String::new()),
            None => Default::default(),
        };
        println!("{:<4} {:<46} {:>8} {:>9.1} {:>9} {:>7}", row.name, row.what, row.unit, ours, shown, ratio);
        let peers = tokio.map_or(json!({}), |tokio| json!({ "tokio": tokio }));
        results.push(
            json!({ "row": row.name, "what": row.what, "unit": row.unit, "ours": ours, "peers": peers }),
        );
    }
    if let Some(path) = options.json {
        std::fs::write(path, serde_json::to_string_pretty(&results)?)?;
    }
    Ok(())
}
