//! KV events over real sockets, from the libraries that vLLM publishes with.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use executor::{Real, Rt};
use router::config::schema::{Behavior, Compat};
use router::data_layer::{EndpointEvent, EndpointListener as _};
use router::endpoint::{EndpointId, EndpointMetadata};
use router::plugin::{Handle, Instance, Parameters, Roles};
use router::producers::PrecisePrefixCacheProducer;
use router::server::subscribe_to_kv_events;
use serde_json::json;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/publisher.py");

/// How long a batch may be on its way: reconnecting takes up to seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A process that publishes; killed when dropped.
struct Publisher {
    process: Child,
    ports: [u16; 2],
}

impl Publisher {
    fn start(batches: u32, ports: Option<[u16; 2]>) -> Self {
        let mut process = Command::new("python3")
            .args([SCRIPT, &batches.to_string()])
            .args(ports.iter().flatten().map(u16::to_string))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("Python is there");
        let lines = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        let ports: Vec<u16> =
            lines.take(2).map(|line| line.expect("text").parse().expect("a port")).collect();
        Publisher { process, ports: ports.try_into().expect("two ports") }
    }

    fn tell(&mut self, command: &str) {
        let stdin = self.process.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{command}").expect("it reads");
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn has_libraries() -> bool {
    let tried = Command::new("python3").args(["-c", "import zmq, msgspec"]).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

struct Subscribed {
    rt: Rt,
    plugins: Handle,
    producer: Rc<PrecisePrefixCacheProducer>,
}

impl Subscribed {
    fn to(rt: &Rt, [port, replay]: [u16; 2]) -> Self {
        let plugins = Handle::new(rt.clone());
        plugins.set_compat(Compat { kv_events: Behavior::Fixed, ..Compat::default() });
        let discovery = json!({"socketPort": port, "replaySocketPort": replay});
        let parameters = Parameters::new(json!({"kvEventsConfig": {"podDiscoveryConfig": discovery}}));
        let producer = PrecisePrefixCacheProducer::build("p", &parameters, &plugins).expect("parameters");
        let roles = Roles { kv_events: Some(producer.clone()), ..Roles::default() };
        plugins.add("p", Instance::new(PrecisePrefixCacheProducer::TYPE, "p", roles));
        subscribe_to_kv_events(rt, &plugins);
        let this = Subscribed { rt: rt.clone(), plugins, producer };
        this.producer.on_event(&EndpointEvent::AddOrUpdate(this.endpoint()), None);
        this
    }

    fn endpoint(&self) -> Rc<EndpointMetadata> {
        Rc::new(EndpointMetadata {
            id: EndpointId::new("ns", "a"),
            address: "127.0.0.1".to_owned(),
            port: "8000".to_owned(),
            ..EndpointMetadata::default()
        })
    }

    /// Waits until the index holds so many blocks.
    async fn hold(&self, blocks: usize) {
        let reached = async {
            while self.producer.with_index(|index| index.len()) != blocks {
                self.rt.sleep(Duration::from_millis(10)).await;
            }
        };
        if self.rt.timeout(PATIENCE, reached).await.is_err() {
            let held = self.producer.with_index(|index| index.len());
            panic!("{held} blocks instead of {blocks}\n{}", self.plugins.metrics().text());
        }
    }

    fn count(&self, name: &str, labels: &[&str]) -> Option<f64> {
        let name = format!("llm_d_router_epp_kv_cache_events_{name}");
        self.plugins.metrics().metric(&name).value(labels)
    }
}

/// Request-control spec 15.5.
#[test]
fn a_late_start_a_gap_and_a_restart_are_made_up_for() {
    if !has_libraries() {
        eprintln!("skipped: python3 with pyzmq and msgspec is not there");
        return;
    }
    let real = Real::builder().current_thread().seed(1).build().expect("a runtime");
    real.run(|rt| async move {
        let mut publisher = Publisher::start(3, None);
        let subscribed = Subscribed::to(&rt, publisher.ports);
        // What was published before.
        subscribed.hold(3).await;
        publisher.tell("live");
        subscribed.hold(4).await;
        publisher.tell("lost");
        publisher.tell("live");
        subscribed.hold(6).await;
        assert_eq!(subscribed.count("messages_received_total", &["ns/a"]), Some(2.0));

        let ports = publisher.ports;
        drop(publisher);
        let mut publisher = Publisher::start(0, Some(ports));
        publisher.tell("live");
        // The new process holds its one block, and none of the old one's.
        subscribed.hold(1).await;
        publisher.tell("live");
        subscribed.hold(2).await;
        assert_eq!(subscribed.count("active_subscribers", &[]), Some(1.0));

        subscribed.producer.on_event(&EndpointEvent::Delete(subscribed.endpoint()), None);
        subscribed.hold(0).await;
        assert_eq!(subscribed.count("active_subscribers", &[]), Some(0.0));
    });
}
