//! One router, two hosts, the same decisions: requests in a fixed order, over sockets and in simulation.
//!
//! A decision depends on what the router knows when it is taken: its own books, and the gauges that it scraped last.
//! The clients below therefore wait before each request until both are settled, which takes other times on the two
//! hosts, and the sequences of chosen engines must be equal.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use engines::engine::EngineConfig;
use executor::http::{Body, Endpoint};
use executor::{JoinHandle, Real, Rt, Sim, Stream};
use http::Request;
use http_body_util::BodyExt;
use router::attributes::InFlightLoad;
use router::data_key::{DataKey, well_known};
use router::embed::RouterConfig;
use serde_json::{Value, json};
use tests::rig::{Engine, MODEL, Router};

const REQUESTS: usize = 500;
const ENGINES: usize = 4;
const SEED: u64 = 20;

/// Time of an engine's step: with [`HELD_BLOCK`] a request stays in its first block for 15 s.
const STEP: Duration = Duration::from_millis(5);

/// How long the router may take to learn what the engines do.
const PATIENCE: Duration = Duration::from_secs(30);

/// How requests follow each other.
#[derive(Clone, Copy)]
enum Load {
    /// Each is answered before the next comes.
    Idle,
    /// This many are open, never answered to their end: an arriving one ends the oldest by its client's going.
    Held(usize),
}

/// Tokens of a KV block of engines under [`Load::Held`]: a request stays within one block.
const HELD_BLOCK: u32 = 4096;

/// Requests that an engine under [`Load::Held`] runs at a time; the others of it wait.
const HELD_RUNNING: u32 = 3;

impl Load {
    fn engine(self) -> EngineConfig {
        match self {
            Load::Idle => Engine::small(),
            Load::Held(_) => EngineConfig {
                block_size: HELD_BLOCK,
                num_gpu_blocks: 17,
                max_model_len: 16 * HELD_BLOCK,
                max_num_seqs: HELD_RUNNING,
                ..Engine::small()
            },
        }
    }
}

/// Returns which engine the router chose for each request.
async fn decisions(rt: Rt, config: &'static str, load: Load) -> Vec<String> {
    let engines = Engine::start_many(&rt, ENGINES, &load.engine(), STEP).await;
    let mut config = RouterConfig::new("parity.yaml", config);
    config.options.allow_experimental = true;
    let chosen = Rc::new(RefCell::new(Vec::new()));
    let seen = Rc::clone(&chosen);
    let router = Router::start(&rt, config, &engines, move |decided| {
        seen.borrow_mut().push((
            decided.request_id.to_owned(),
            decided.destinations.map(<[_]>::to_vec).map_err(Clone::clone),
        ));
    });
    let mut clients = Clients { rt: rt.clone(), router: router.await, engines, open: VecDeque::new() };
    let mut prompts = Prompts::new();
    let mut names = Vec::new();
    for number in 0..REQUESTS {
        if let Load::Held(open) = load
            && clients.open.len() == open
        {
            clients.leave();
        }
        clients.settle().await;
        let exchange = clients.send(number, &prompts.next(), load);
        let (id, destinations) =
            clients.until("the router decides", || chosen.borrow().get(number).cloned()).await;
        assert_eq!(id, number.to_string());
        let destinations = destinations.unwrap_or_else(|error| panic!("request {number}: {error}"));
        let engine = clients.engines.iter().position(|engine| engine.endpoint.to_string() == destinations[0]);
        let engine = engine.expect("only engines are chosen");
        names.push(clients.engines[engine].name.clone());
        match load {
            Load::Idle => exchange.task.await.expect("a client does not panic"),
            Load::Held(_) => clients.open.push_back((engine, exchange)),
        }
    }
    assert_eq!(chosen.borrow().len(), REQUESTS, "one decision a request");
    names
}

/// The clients, and the world that they talk to.
struct Clients {
    rt: Rt,
    router: Router,
    engines: Vec<Engine>,
    /// Requests under way, the oldest first, each with its engine.
    open: VecDeque<(usize, Exchange)>,
}

/// A request under way.
struct Exchange {
    task: JoinHandle<()>,
    /// Whether the first part of the answer has come.
    begun: Rc<Cell<bool>>,
}

impl Clients {
    fn send(&self, number: usize, prompt: &str, load: Load) -> Exchange {
        let (path, body) = message(number, prompt, load);
        let request = Request::post(path).header("content-type", "application/json");
        let request = request.header("x-request-id", number.to_string());
        let request = request.body(Body::from(body.to_string())).expect("a request");
        let begun = Rc::new(Cell::new(false));
        let exchange = exchange(self.rt.clone(), self.router.endpoint.clone(), request, Rc::clone(&begun));
        Exchange { task: self.rt.spawn_local("client", exchange), begun }
    }

    /// Lets the client of the oldest request go away.
    fn leave(&mut self) {
        let (_, exchange) = self.open.pop_front().expect("a request is open");
        assert!(!exchange.task.is_finished(), "a held request is never answered to its end");
        exchange.task.abort();
    }

    /// Waits until engines and router have taken note of everything that the clients did.
    async fn settle(&self) {
        self.until("engines and router know of all that the clients did", || {
            let settled = (0..self.engines.len()).all(|engine| self.is_settled(engine));
            settled.then_some(())
        })
        .await;
    }

    /// Returns whether an engine has its open requests and no others, has begun to answer those that it runs, has
    /// published that, and the router has scraped it and holds the same requests in flight.
    fn is_settled(&self, engine: usize) -> bool {
        let open = self.open.iter().filter(|(at, _)| *at == engine);
        let begun = open.clone().filter(|(_, exchange)| exchange.begun.get()).count();
        let open = open.count();
        let running = open.min(HELD_RUNNING as usize);
        let published = self.engines[engine].handle.published().lock().clone();
        let known = &self.router.datastore.endpoints().snapshot()[engine];
        assert_eq!(known.metadata.name, self.engines[engine].name, "endpoints have one order on both hosts");
        let in_flight = known.attributes.get::<InFlightLoad>(&in_flight_load());
        let scraped = &known.metrics;
        let blocks = f64::from(published.num_gpu_blocks - 1);
        begun == running
            && published.gauges.running == running
            && published.waiting() == (open - running) as u64
            && (published.gauges.usage * blocks).round() == running as f64
            && scraped.update_time.is_some()
            && scraped.running_requests_size == running as i64
            && scraped.waiting_queue_size == published.waiting() as i64
            && scraped.kv_cache_usage_percent == published.gauges.usage
            && in_flight.is_none_or(|load| load.requests.get() == open as i64)
    }

    async fn until<T>(&self, what: &str, mut come: impl FnMut() -> Option<T>) -> T {
        let wait = async {
            loop {
                if let Some(come) = come() {
                    return come;
                }
                self.rt.sleep(Duration::from_millis(1)).await;
            }
        };
        self.rt.timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("in {PATIENCE:?}, not once: {what}"))
    }
}

fn in_flight_load() -> DataKey {
    DataKey::new(well_known::IN_FLIGHT_LOAD.0, "inflight-load-producer")
}

async fn exchange(rt: Rt, router: Endpoint, request: Request<Body>, begun: Rc<Cell<bool>>) {
    let response = rt.http().send(&router, request).await.expect("the router answers");
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let mut read = Vec::new();
    while let Some(frame) = body.frame().await {
        read.extend(frame.expect("the answer is whole").into_data().unwrap_or_default());
        begun.set(true);
    }
    let text = String::from_utf8(read).expect("text");
    assert!(text.starts_with('{') || text.ends_with("data: [DONE]\n\n"), "{text}");
}

/// A request: under [`Load::Idle`] each endpoint of the interface by turns, streaming and not.
fn message(number: usize, prompt: &str, load: Load) -> (&'static str, Value) {
    let (stream, tokens) = match load {
        Load::Idle => (number.is_multiple_of(2), 3),
        Load::Held(_) => (true, 50_000),
    };
    match number % 4 {
        0 | 1 => {
            let body = json!({"model": MODEL, "prompt": prompt, "max_tokens": tokens, "ignore_eos": true,
                "stream": stream});
            ("/v1/completions", body)
        }
        _ => {
            let messages = json!([{"role": "user", "content": prompt}]);
            let body = json!({"model": MODEL, "messages": messages, "max_tokens": tokens, "ignore_eos": true,
                "stream": stream});
            ("/v1/chat/completions", body)
        }
    }
}

/// Prompts of which many begin alike.
struct Prompts(Stream);

impl Prompts {
    fn new() -> Self {
        Prompts(Stream::new(SEED, "prompts of the parity test"))
    }

    fn next(&mut self) -> String {
        let topic = self.0.below(12);
        let shared =
            format!("Topic {topic}: the router routes a request to the engine that holds its prefix. ");
        let own = self.0.u64();
        shared.repeat(4 + topic as usize % 4)
            + &format!("Question {own:x}")
            + &"?".repeat(self.0.below(60) as usize)
    }
}

/// Takes the decisions on both hosts; they must be equal, and each engine must have got a share.
fn assert_parity(config: &'static str, load: Load) -> Vec<String> {
    let simulated = simulated(config, load, SEED);
    let real = Real::builder().worker_threads(2).seed(SEED).build().expect("a runtime");
    let real = real.run(|rt| decisions(rt, config, load));
    let differing = real.iter().zip(&simulated).position(|(real, simulated)| real != simulated);
    if let Some(first) = differing {
        let (real, simulated) = (&real[first], &simulated[first]);
        panic!("request {first}: {real} on sockets, {simulated} in simulation");
    }
    assert_eq!(real.len(), REQUESTS);
    for engine in 0..ENGINES {
        let share = real.iter().filter(|name| **name == format!("engine-{engine}")).count();
        assert!(share > REQUESTS / ENGINES / 3, "engine-{engine} got {share} requests");
    }
    real
}

fn simulated(config: &'static str, load: Load, seed: u64) -> Vec<String> {
    Sim::builder().seed(seed).build().run(move |rt| decisions(rt, config, load)).unwrap()
}

/// The built-in policy: queue, KV cache, prefixes.
#[test]
fn the_default_policy_decides_alike_on_both_hosts() {
    assert_parity("", Load::Idle);
}

/// The built-in policy where gauges differ: requests run, and wait, while others arrive.
#[test]
fn scraped_load_decides_alike_on_both_hosts() {
    const CONFIG: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: queue-scorer
  - type: kv-cache-utilization-scorer
  - type: running-requests-size-scorer
  # The engines' blocks are larger than the prompts.
  - {type: approx-prefix-cache-producer, parameters: {autoTune: false, blockSizeTokens: 16}}
  - type: prefix-cache-scorer
schedulingProfiles:
  - name: default
    plugins:
      - {pluginRef: queue-scorer, weight: 2}
      - {pluginRef: kv-cache-utilization-scorer, weight: 2}
      - {pluginRef: running-requests-size-scorer, weight: 1}
      - {pluginRef: prefix-cache-scorer, weight: 3}
";
    assert_parity(CONFIG, Load::Held(14));
}

/// The router's own books: requests and tokens in flight.
#[test]
fn requests_in_flight_decide_alike_on_both_hosts() {
    const CONFIG: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: inflight-load-producer
  - type: active-request-scorer
  - type: token-load-scorer
schedulingProfiles:
  - name: default
    plugins:
      - {pluginRef: active-request-scorer, weight: 1}
      - {pluginRef: token-load-scorer, weight: 2}
";
    assert_parity(CONFIG, Load::Held(9));
}

/// Chance alone: the named stream of a picker.
#[test]
fn a_picker_draws_alike_on_both_hosts_whatever_its_name() {
    let [first, second] = [
        "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {type: random-picker, name: dice}
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: dice
",
        "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {type: random-picker, name: coin}
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: coin
",
    ];
    let drawn = assert_parity(first, Load::Idle);
    assert_ne!(drawn, simulated(second, Load::Idle, SEED), "another picker has other draws");
    assert_ne!(drawn, simulated(first, Load::Idle, SEED + 1), "another seed has other draws");
}

/// Chance in proportion to scores.
#[test]
fn weighted_chance_decides_alike_on_both_hosts() {
    const CONFIG: &str = "
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: queue-scorer
  - type: kv-cache-utilization-scorer
  - type: weighted-random-picker
schedulingProfiles:
  - name: default
    plugins:
      - {pluginRef: queue-scorer, weight: 1}
      - {pluginRef: kv-cache-utilization-scorer, weight: 3}
      - {pluginRef: weighted-random-picker}
";
    assert_parity(CONFIG, Load::Held(12));
}
