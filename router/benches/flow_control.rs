//! What it costs a request to wait its turn: queued and let go, with many others queued, in one flow and in many.
//!
//! `cargo bench -p router --bench flow_control [-- --json FILE] [--requests N]`
//!
//! Each measured step is one arrival and one departure: the arrival's dispatch cycle lets the head of the band go, and
//! whoever waited for it takes the answer; the number of those who wait stays the same. Times are CPU time of the one
//! thread over 100 steps, divided: the 99th percentile is that of such groups. Bytes a request are what is allocated while the queues
//! are filled, by request, each of which is waited for: all that flow control and its wait keep, beside the request itself.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "it is a program of its own: it reads its command line and counts what its thread allocates"
)]

#[path = "decision/measure.rs"]
mod measure;

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use executor::{Instant, Real, Rt};
use measure::{Allocations, Counting};
use router::admission::{EndpointList, SaturationDetector};
use router::config::loader::{Options as LoadOptions, load};
use router::config::schema::Behavior;
use router::endpoint::Endpoint;
use router::flow_control::candidates::{CachedLocator, Locator};
use router::flow_control::{Ended, FlowController, FlowRequest, Outcome, Parts, Wait};
use router::plugin::Handle;
use router::request_control::Metadata;
use router::support::Registry;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Fairness policies.
const POLICIES: [&str; 3] =
    ["global-strict-fairness-policy", "round-robin-fairness-policy", "program-aware-fairness"];
/// Those who wait.
const QUEUED: [usize; 3] = [1, 1_000, 100_000];
const FLOWS: [usize; 2] = [1, 1_000];
/// Steps of a group, which is timed as one.
const GROUP: usize = 100;

struct Options {
    json: Option<PathBuf>,
    /// Steps of a row.
    requests: usize,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options { json: None, requests: 200_000 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--json" => options.json = Some(value()?.into()),
            "--requests" => options.requests = value()?.parse::<usize>()?.max(10 * GROUP),
            // What cargo adds.
            "--bench" => {}
            _ => return Err(format!("unknown argument {arg}: accepted are --json FILE, --requests N").into()),
        }
    }
    Ok(options)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let mut rows = Vec::new();
    println!(
        "{:<30} {:>7} {:>6} {:>11} {:>9} {:>15}",
        "fairness", "queued", "flows", "mean us", "p99 us", "bytes a request"
    );
    for policy in POLICIES {
        for queued in QUEUED {
            for flows in FLOWS.into_iter().filter(|flows| *flows <= queued) {
                // Its picks look at every flow: fewer tell as much.
                let is_slow = policy == "program-aware-fairness" && flows > 1;
                let requests = if is_slow { options.requests / 100 } else { options.requests };
                let row = measure(policy, queued, flows, requests)?;
                let bytes = row.bytes.map_or("-".to_owned(), |bytes| format!("{bytes:.0}"));
                println!(
                    "{policy:<30} {queued:>7} {flows:>6} {:>11.3} {:>9.3} {bytes:>15}",
                    row.mean_us, row.p99_us
                );
                rows.push(row.json(policy, queued, flows));
            }
        }
    }
    if let Some(path) = options.json {
        std::fs::write(path, serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(())
}

struct Row {
    mean_us: f64,
    p99_us: f64,
    /// `None` where too few wait to tell.
    bytes: Option<f64>,
}

impl Row {
    fn json(&self, policy: &str, queued: usize, flows: usize) -> Value {
        json!({
            "fairness": policy,
            "queued": queued,
            "flows": flows,
            "mean_us": self.mean_us,
            "p99_us": self.p99_us,
            "bytes_a_request": self.bytes,
        })
    }
}

/// A pool that is full or is not.
#[derive(Default)]
struct Valve {
    is_closed: Cell<bool>,
    pool: EndpointList,
}

impl SaturationDetector for Valve {
    fn plugin_type(&self) -> &'static str {
        "valve"
    }

    fn saturation(&self, _: &[Rc<Endpoint>], _: Instant) -> f64 {
        if self.is_closed.get() { 1.0 } else { 0.0 }
    }
}

impl Locator for Valve {
    fn locate(&self, _: &Metadata) -> EndpointList {
        Rc::clone(&self.pool)
    }
}

fn measure(policy: &str, queued: usize, flows: usize, requests: usize) -> Result<Row, Box<dyn Error>> {
    let runtime = Real::builder().current_thread().seed(1).build()?;
    runtime.run(async |rt| {
        let valve = Rc::new(Valve { is_closed: Cell::new(true), pool: Rc::new(vec![Rc::default()]) });
        let controller = controller(&rt, policy, Rc::clone(&valve))?;
        let ids: Vec<String> = (0..flows).map(|flow| format!("tenant-{flow:04}")).collect();
        let mut ids = ids.iter().map(String::as_str).cycle();
        let mut next = || ids.next().ok_or("there is a flow");
        let mut waiters = Waiters::new(queued);
        let before = Allocations::now();
        for _ in 0..queued {
            waiters.wait(enqueue(&rt, &controller, next()?))?;
        }
        let asked = Allocations::now() - before;
        let kept = asked.bytes - asked.freed;
        valve.is_closed.set(false);
        let mut groups = Vec::with_capacity(requests / GROUP);
        for group in 0..requests / GROUP + 1 {
            let start = measure::cpu_ns();
            for _ in 0..GROUP {
                waiters.step(enqueue(&rt, &controller, next()?))?;
            }
            // The first group warms up.
            if group > 0 {
                groups.push(measure::cpu_ns() - start);
            }
        }
        groups.sort_unstable();
        let us = |ns: u64| ns as f64 / GROUP as f64 / 1000.0;
        let mean = groups.iter().sum::<u64>() as f64 / groups.len() as f64;
        valve.is_closed.set(true);
        Ok(Row {
            mean_us: mean / GROUP as f64 / 1000.0,
            p99_us: us(groups[(groups.len() - 1) * 99 / 100]),
            bytes: (queued >= 1_000).then(|| kept as f64 / queued as f64 + size_of::<Wait>() as f64),
        })
    })
}

thread_local! {
    /// Places whose wait has ended.
    static WOKEN: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Notes that the wait at a place has ended, as an executor does of the task that waits.
struct Place(usize);

impl Wake for Place {
    fn wake(self: Arc<Self>) {
        WOKEN.with_borrow_mut(|woken| woken.push(self.0));
    }
}

/// Those who wait, each at a place of its own.
struct Waiters {
    waits: Vec<Option<Wait>>,
    wakers: Vec<Waker>,
    free: Vec<usize>,
}

impl Waiters {
    fn new(queued: usize) -> Self {
        // One more than wait between two steps.
        let places = 0..=queued;
        Waiters {
            waits: places.clone().map(|_| None).collect(),
            wakers: places.clone().map(|place| Arc::new(Place(place)).into()).collect(),
            free: places.collect(),
        }
    }

    /// Takes in a request that has to wait.
    fn wait(&mut self, asked: Result<Ended, Wait>) -> Result<(), Box<dyn Error>> {
        let mut wait = match asked {
            Err(wait) => wait,
            Ok(ended) => return Err(format!("a request of a full pool is told {}", ended.outcome).into()),
        };
        let place = self.free.pop().ok_or("there is a place")?;
        let mut cx = Context::from_waker(&self.wakers[place]);
        if Pin::new(&mut wait).poll(&mut cx).is_ready() {
            return Err("it waits".into());
        }
        self.waits[place] = Some(wait);
        Ok(())
    }

    /// Takes in a request, and lets the one go that was told to: it may be the same.
    fn step(&mut self, asked: Result<Ended, Wait>) -> Result<(), Box<dyn Error>> {
        if let Ok(ended) = asked {
            return check(&ended);
        }
        self.wait(asked)?;
        let place = WOKEN.with_borrow_mut(Vec::pop).ok_or("an arrival lets one go")?;
        let wait = self.waits[place].as_mut().ok_or("who was woken waited")?;
        match Pin::new(wait).poll(&mut Context::from_waker(&self.wakers[place])) {
            Poll::Ready(ended) => check(&ended)?,
            Poll::Pending => return Err("who was woken is told".into()),
        }
        self.waits[place] = None;
        self.free.push(place);
        Ok(())
    }
}

fn check(ended: &Ended) -> Result<(), Box<dyn Error>> {
    match ended.outcome {
        Outcome::Dispatched => Ok(()),
        other => Err(format!("a request of a pool with room is told {other}").into()),
    }
}

fn controller(rt: &Rt, policy: &str, valve: Rc<Valve>) -> Result<FlowController, Box<dyn Error>> {
    let config = format!(
        "featureGates: [flowControl]\nplugins: [{{type: {policy}}}]\nflowControl:\n  defaultRequestTTL: 1h\n  \
         defaultPriorityBand: {{fairnessPolicyRef: {policy}, maxRequests: 1000000}}\n"
    );
    let handle = Handle::new(rt.clone());
    let options = LoadOptions { allow_experimental: true, ..LoadOptions::default() };
    let assembly = load("bench", &config, &Registry::default(), &handle, &options)?;
    let parts = Parts {
        settings: assembly.flow_control.ok_or("the gate is on")?,
        detector: Rc::clone(&valve) as Rc<dyn SaturationDetector>,
        pool: Rc::new(CachedLocator::new(rt.clone(), valve, Duration::ZERO)),
        evictor: None,
        metrics: handle.metrics().clone(),
        pool_name: "pool".to_owned(),
        behavior: Behavior::Parity,
        elides_ticks: true,
    };
    Ok(FlowController::start(rt, parts))
}

fn enqueue(rt: &Rt, controller: &FlowController, id: &str) -> Result<Ended, Wait> {
    controller.enqueue(&FlowRequest {
        fairness_id: id,
        priority: 0,
        bytes: 1_000,
        received: rt.wall(),
        headers: None,
        model: "m",
        target_model: "m",
        deadline: None,
    })
}
