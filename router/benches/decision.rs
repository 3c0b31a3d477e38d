//! What a whole decision costs: the director with its producers, a parsed body in, the routed request out.
//!
//! `cargo bench -p router --bench decision [-- --json FILE] [--decisions N] [--rows default,pd-1000] [--prompt BYTES]`
//!
//! Times are CPU time of the one thread, each decision by itself, so what other processes do does not count; the
//! two readings of the clock (some 0.2 us) are part of each. Allocations are calls of the allocator within a
//! decision. What a decision leaves behind (the routed request) is dropped later and not counted. A prompt has 1,000
//! bytes unless told otherwise: half of it shared with others, half of its own.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "it is a program of its own: it reads its command line and counts what its thread allocates"
)]

#[path = "decision/measure.rs"]
mod measure;
#[path = "decision/setup.rs"]
mod setup;

use std::collections::VecDeque;
use std::error::Error;
use std::path::PathBuf;

use executor::Real;
use futures::FutureExt;
use measure::{Allocations, Counting};
use serde_json::{Value, json};
use setup::{PROFILES, Profile, Requests};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sizes of the pool.
const ENDPOINTS: [usize; 3] = [10, 100, 1000];

/// Decisions before the first one that counts: tables have grown by then, and the index knows the prompts.
const WARM_UP: usize = 2_000;

/// Requests whose responses are open at a time.
const IN_FLIGHT: usize = 64;

struct Options {
    json: Option<PathBuf>,
    decisions: usize,
    /// Profiles, or profiles with a number of endpoints.
    rows: Option<Vec<String>>,
    /// Length of a prompt. Unit: bytes.
    prompt: usize,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { json: None, decisions: 20_000, rows: None, prompt: 1_000 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--json" => options.json = Some(value()?.into()),
            "--decisions" => options.decisions = value()?.parse::<usize>()?.max(100),
            "--rows" => options.rows = Some(value()?.split(',').map(str::to_owned).collect()),
            "--prompt" => options.prompt = value()?.parse()?,
            // What cargo adds.
            "--bench" => {}
            _ => {
                return Err(format!(
                    "unknown argument {arg}: accepted are --json FILE, --decisions N, --rows default,pd-1000, \
                     --prompt BYTES"
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
    println!(
        "{:<9} {:>9} {:>9} {:>9} {:>12} {:>9}",
        "profile", "endpoints", "p50 us", "p99 us", "allocations", "bytes"
    );
    for profile in PROFILES {
        for endpoints in ENDPOINTS {
            let names = [profile.name.to_owned(), row(profile, endpoints)];
            if options.rows.as_ref().is_some_and(|rows| !rows.iter().any(|name| names.contains(name))) {
                continue;
            }
            let figures = measure(profile, endpoints, &options)?;
            println!(
                "{:<9} {:>9} {:>9.2} {:>9.2} {:>12.1} {:>9.0}",
                profile.name, endpoints, figures.p50_us, figures.p99_us, figures.allocations, figures.bytes
            );
            results.push(figures.json(profile, endpoints, &options));
        }
    }
    if let Some(path) = options.json {
        std::fs::write(path, serde_json::to_string_pretty(&results)?)?;
    }
    Ok(())
}

fn row(profile: &Profile, endpoints: usize) -> String {
    format!("{}-{endpoints}", profile.name)
}

/// Figures of a decision.
struct Figures {
    p50_us: f64,
    p99_us: f64,
    /// The mean.
    allocations: f64,
    /// The mean.
    bytes: f64,
}

impl Figures {
    fn json(&self, profile: &Profile, endpoints: usize, options: &Options) -> Value {
        json!({
            "row": row(profile, endpoints),
            "profile": profile.name,
            "endpoints": endpoints,
            "decisions": options.decisions,
            "prompt_bytes": options.prompt,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "allocations": self.allocations,
            "bytes": self.bytes,
        })
    }
}

fn measure(profile: &Profile, endpoints: usize, options: &Options) -> Result<Figures, Box<dyn Error>> {
    let decisions = options.decisions;
    let runtime = Real::builder().current_thread().seed(1).build()?;
    runtime.run(async |rt| {
        let director = setup::director(&rt, profile, endpoints)?;
        let mut requests = Requests::new(options.prompt);
        let mut open = VecDeque::with_capacity(IN_FLIGHT + 1);
        let mut times = Vec::with_capacity(decisions);
        let mut counted = Allocations::default();
        for round in 0..WARM_UP + decisions {
            let input = requests.next()?;
            let (allocations, start) = (Allocations::now(), measure::cpu_ns());
            let decision = director.handle_request(input).now_or_never();
            let (end, allocated) = (measure::cpu_ns(), Allocations::now() - allocations);
            open.push_back(decision.ok_or("the decision waits for something")??);
            if open.len() > IN_FLIGHT {
                open.pop_front();
            }
            if round >= WARM_UP {
                times.push(end - start);
                counted += allocated;
            }
        }
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize] as f64 / 1000.0;
        let mean = |sum: u64| sum as f64 / decisions as f64;
        Ok(Figures {
            p50_us: at(0.5),
            p99_us: at(0.99),
            allocations: mean(counted.calls),
            bytes: mean(counted.bytes),
        })
    })
}
