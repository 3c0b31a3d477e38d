//! Flow control under random scripts, in simulation: nothing is lost, no limit is exceeded, nobody is dispatched too late,
//! and leaving out idle ticks changes nothing.
//!
//! `FLOW_CONTROL_SCRIPTS` sets the number of scripts.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Real, Rt, Sim, Stream};
use router::admission::{EndpointList, SaturationDetector};
use router::config::loader::{Options, load};
use router::config::schema::Behavior;
use router::endpoint::Endpoint;
use router::flow_control::candidates::{CachedLocator, Locator};
use router::flow_control::{Ended, FlowController, FlowRequest, Outcome, Parts, Wait};
use router::plugin::Handle;
use router::request_control::Metadata;
use router::support::Registry;

/// Scripts of one run of the test.
const SCRIPTS: u64 = 60;
/// Steps of a script.
const STEPS: usize = 60;
/// Most requests that wait in a band, and in all.
const BAND_LIMIT: usize = 6;
const LIMIT: usize = 14;
/// How long a request may wait.
const TTL: Duration = Duration::from_millis(40);

const CONFIG: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- {type: round-robin-fairness-policy, name: turns}
- {type: edf-ordering-policy, name: deadlines}
- {type: priority-holdback-policy, name: holdback, parameters: {minCeiling: 0.5}}
flowControl:
  maxRequests: 14
  defaultRequestTTL: 40ms
  usageLimitPolicyPluginRef: holdback
  defaultPriorityBand: {maxRequests: 6, fairnessPolicyRef: turns}
  priorityBands:
  - {priority: 10, maxRequests: 6, fairnessPolicyRef: turns}
  - {priority: 0, maxRequests: 6, orderingPolicyRef: deadlines}
  - {priority: -5, maxRequests: 6}
";

/// How each request ended: when, its number, and what became of it.
type Log = Vec<(Instant, usize, Outcome)>;

#[derive(Default)]
struct World {
    saturation: Cell<f64>,
    endpoints: RefCell<EndpointList>,
}

impl SaturationDetector for World {
    fn plugin_type(&self) -> &'static str {
        "scripted"
    }

    fn saturation(&self, endpoints: &[Rc<Endpoint>], _: Instant) -> f64 {
        if endpoints.is_empty() { 1.0 } else { self.saturation.get() }
    }
}

impl Locator for World {
    fn locate(&self, _: &Metadata) -> EndpointList {
        Rc::clone(&self.endpoints.borrow())
    }
}

/// One run of a script.
struct Script {
    rt: Rt,
    world: Rc<World>,
    controller: FlowController,
    draws: Stream,
    /// By how much the host's timers may be late.
    rounding: Duration,
    asked: usize,
    log: Rc<RefCell<Log>>,
    /// Until when each request may wait at most.
    deadlines: Vec<Instant>,
    waiting: Vec<(usize, executor::AbortHandle)>,
}

/// Runs the script of `seed` in simulation and returns how its requests ended. The run must be without findings.
fn run(seed: u64, behavior: Behavior, elides_ticks: bool) -> Log {
    let script = move |rt: Rt| play(rt, Stream::new(seed, "script"), behavior, elides_ticks, Duration::ZERO);
    Sim::new(seed).run(script).unwrap()
}

/// Runs the script of `seed` on tokio, whose clock stands still while anything can be done.
fn run_on_tokio(seed: u64, behavior: Behavior) -> Log {
    /// What a timer of tokio's is late at most.
    const ROUNDING: Duration = Duration::from_millis(1);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let local = tokio::task::LocalSet::new();
    tokio.expect("a runtime starts").block_on(local.run_until(async move {
        play(Real::current(), Stream::new(seed, "script"), behavior, true, ROUNDING).await
    }))
}

async fn play(rt: Rt, draws: Stream, behavior: Behavior, elides_ticks: bool, rounding: Duration) -> Log {
    let mut script = Script::begin(rt, draws, behavior, elides_ticks, rounding);
    // No step meets a tick: of a tick that is left out it would find that it is over.
    script.rt.sleep(Duration::from_micros(100)).await;
    for _ in 0..STEPS {
        script.step().await;
        script.settle().await;
        script.check();
    }
    script.end().await
}

fn pool(endpoints: usize) -> EndpointList {
    Rc::new((0..endpoints).map(|_| Rc::default()).collect())
}

impl Script {
    /// Starts flow control over a pool that is empty of load.
    fn begin(rt: Rt, draws: Stream, behavior: Behavior, elides_ticks: bool, rounding: Duration) -> Self {
        let handle = Handle::new(rt.clone());
        let options = Options { allow_experimental: true, ..Options::default() };
        let assembly = load("", CONFIG, &Registry::default(), &handle, &options);
        let mut settings = assembly.expect("the configuration loads").flow_control.expect("the gate is on");
        settings.registry.flow_gc_timeout = Duration::from_millis(70);
        settings.registry.priority_band_gc_timeout = Duration::from_millis(140);
        settings.controller.expiry_cleanup_interval = Duration::from_millis(25);
        let world = Rc::new(World { endpoints: RefCell::new(pool(1)), ..World::default() });
        let parts = Parts {
            settings,
            detector: world.clone(),
            pool: Rc::new(CachedLocator::new(rt.clone(), world.clone(), Duration::ZERO)),
            evictor: None,
            metrics: handle.metrics().clone(),
            pool_name: "pool".to_owned(),
            behavior,
            elides_ticks,
        };
        let controller = FlowController::start(&rt, parts);
        Script {
            draws,
            rounding,
            rt,
            world,
            controller,
            asked: 0,
            log: Rc::default(),
            deadlines: Vec::new(),
            waiting: Vec::new(),
        }
    }

    async fn step(&mut self) {
        match self.draws.below(20) {
            0..9 => self.enqueue(),
            9..14 => {
                // Also less than a tick.
                let quarters = [0, 1, 2, 3, 4, 4, 8, 40, 200, 600][self.draws.below(10) as usize];
                self.rt.sleep(Duration::from_micros(250) * quarters).await;
            }
            14..16 => {
                let saturation = [0.0, 0.3, 0.6, 0.9, 1.0, 1.3][self.draws.below(6) as usize];
                self.world.saturation.set(saturation);
            }
            16..18 if !self.waiting.is_empty() => {
                let at = self.draws.below(self.waiting.len() as u64) as usize;
                self.waiting.swap_remove(at).1.abort();
            }
            18 => *self.world.endpoints.borrow_mut() = pool(self.draws.below(3) as usize),
            _ => {
                let desired: &[i64] = [&[][..], &[7], &[7, -9]][self.draws.below(3) as usize];
                self.controller.set_desired_priorities(desired.iter().copied());
            }
        }
    }

    /// Lets those run who have been told.
    async fn settle(&self) {
        for _ in 0..4 {
            drop(self.rt.spawn_local("step", async {}).await);
        }
    }

    fn enqueue(&mut self) {
        let now = self.rt.now();
        let own = (self.draws.below(4) == 0).then(|| now + Duration::from_millis(1 + self.draws.below(30)));
        let flow = ["a", "b", "c", "d"][self.draws.below(4) as usize];
        let priority = [10, 0, -5, 7, -9][self.draws.below(5) as usize];
        let number = self.asked;
        self.asked += 1;
        self.deadlines.push(own.unwrap_or(Instant::MAX).min(now + TTL));
        match self.ask(flow, priority, own) {
            Ok(ended) => self.log.borrow_mut().push((now, number, ended.outcome)),
            Err(wait) => self.wait(number, wait),
        }
    }

    fn ask(&mut self, flow: &str, priority: i64, deadline: Option<Instant>) -> Result<Ended, Wait> {
        self.controller.enqueue(&FlowRequest {
            fairness_id: flow,
            priority,
            bytes: self.draws.below(100),
            received: self.rt.wall(),
            headers: None,
            model: "m",
            target_model: "m",
            deadline,
        })
    }

    fn wait(&mut self, number: usize, wait: Wait) {
        assert!(wait.explain().is_some_and(|why| why.starts_with("queued in band ")));
        let (rt, log) = (self.rt.clone(), Rc::clone(&self.log));
        let task = self.rt.daemon("request", async move {
            let ended = wait.await;
            log.borrow_mut().push((rt.now(), number, ended.outcome));
        });
        self.waiting.push((number, task.abort_handle()));
        drop(task);
    }

    /// What holds at every moment.
    fn check(&mut self) {
        let log = self.log.borrow();
        self.waiting.retain(|(number, _)| !log.iter().any(|(_, ended, _)| ended == number));
        let (queued, bytes) = self.controller.queued();
        let bands = self.controller.bands();
        assert_eq!(queued, bands.iter().map(|band| band.requests).sum::<usize>());
        assert_eq!(bytes, bands.iter().map(|band| band.bytes).sum::<u64>());
        assert!(queued <= LIMIT && bands.iter().all(|band| band.requests <= BAND_LIMIT), "{bands:?}");
        assert!(bands.is_sorted_by(|a, b| a.priority > b.priority), "{bands:?}");
        assert!(self.waiting.len() <= queued, "whoever waits is queued: {:?}, {bands:?}", self.waiting);
        for (at, number, outcome) in log.iter() {
            let late = *at > self.deadlines[*number] + self.rounding;
            assert!(!late, "request {number} is told {outcome} at {at}, due {}", self.deadlines[*number]);
        }
    }

    /// Opens the pool, lets everything go, and counts.
    async fn end(mut self) -> Log {
        self.world.saturation.set(0.0);
        *self.world.endpoints.borrow_mut() = pool(1);
        self.rt.sleep(Duration::from_secs(1)).await;
        self.check();
        assert_eq!(self.controller.queued(), (0, 0), "all have gone or are swept");
        assert!(self.waiting.is_empty());
        let log = self.log.take();
        let mut told: Vec<usize> = log.iter().map(|(_, number, _)| *number).collect();
        let count = told.len();
        told.sort_unstable();
        told.dedup();
        assert_eq!(told.len(), count, "nobody is told twice");
        log
    }
}

fn scripts() -> u64 {
    std::env::var("FLOW_CONTROL_SCRIPTS").ok().and_then(|count| count.parse().ok()).unwrap_or(SCRIPTS)
}

/// Any client can invent fairness ids.
#[test]
fn invented_flows_do_not_pile_up() {
    let run = Sim::new(1).run(|rt| async move {
        let mut script = Script::begin(rt, Stream::new(1, "script"), Behavior::Parity, true, Duration::ZERO);
        // They would be idle for too long after 70 ms; all come within ten.
        for id in 0..50_000 {
            if id % 100 == 0 {
                script.rt.sleep(Duration::from_micros(20)).await;
            }
            let told = script.ask(&format!("invented-{id}"), 0, None).expect("the pool has room");
            assert_eq!(told.outcome, Outcome::Dispatched);
        }
        let flows = script.controller.bands().iter().map(|band| band.flows.len()).max();
        script.end().await;
        flows
    });
    assert!(run.unwrap() <= Some(10_000));
}

/// Issue of every operator: why does this request not go?
#[test]
fn a_wait_says_what_it_waits_for() {
    let said = Sim::new(1).run(|rt| async move {
        let mut script = Script::begin(rt, Stream::new(1, "script"), Behavior::Parity, true, Duration::ZERO);
        script.world.saturation.set(1.04);
        let mut said = Vec::new();
        let mut waits = Vec::new();
        for (flow, priority) in
            [("tenant-a", 10), ("tenant-a", 10), ("tenant-b", 10), ("tenant-a", 10), ("tenant-a", -5)]
        {
            script.rt.sleep(Duration::from_millis(1)).await;
            let wait = script.ask(flow, priority, None).expect_err("the pool is full");
            said.extend(wait.explain());
            waits.push(wait);
        }
        script.world.saturation.set(0.25);
        // One goes at each tick: the first of each flow in turn.
        script.rt.sleep(Duration::from_millis(1)).await;
        said.extend(waits.iter().map(|wait| wait.explain().unwrap_or_else(|| "goes".to_owned())));
        drop(waits);
        script.end().await;
        said
    });
    assert_eq!(
        said.unwrap(),
        [
            "queued in band 10, flow tenant-a, behind 0, gated by saturation 1.04",
            "queued in band 10, flow tenant-a, behind 1, gated by saturation 1.04",
            "queued in band 10, flow tenant-b, behind 0, gated by saturation 1.04",
            "queued in band 10, flow tenant-a, behind 2, gated by saturation 1.04",
            "queued in band -5, flow tenant-a, behind 0, gated by saturation 1.04",
            "goes",
            "queued in band 10, flow tenant-a, behind 0, pool saturation 0.25",
            "queued in band 10, flow tenant-b, behind 0, pool saturation 0.25",
            "queued in band 10, flow tenant-a, behind 1, pool saturation 0.25",
            "queued in band -5, flow tenant-a, behind 0, pool saturation 0.25",
        ]
    );
}

#[test]
fn nothing_is_lost_and_no_limit_is_exceeded() {
    for seed in 0..scripts() {
        for behavior in [Behavior::Parity, Behavior::Fixed] {
            run(seed, behavior, true);
        }
    }
}

/// The same scripts on the host of production.
#[test]
fn nothing_is_lost_on_tokio_either() {
    for seed in 0..scripts() {
        for behavior in [Behavior::Parity, Behavior::Fixed] {
            run_on_tokio(seed, behavior);
        }
    }
}

#[test]
fn leaving_out_idle_ticks_changes_nothing() {
    for seed in 0..scripts() {
        let (elided, ticking) = (run(seed, Behavior::Parity, true), run(seed, Behavior::Parity, false));
        assert_eq!(elided, ticking, "script {seed}");
    }
}
