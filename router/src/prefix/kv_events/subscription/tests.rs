use std::cell::RefCell;
use std::collections::VecDeque;

use executor::Sim;
use serde_json::json;

use super::super::KvEventSink;
use super::*;
use crate::config::schema::{Behavior, Compat};
use crate::plugin::{Handle, Parameters};
use crate::producers::PrecisePrefixCacheProducer;

const TOPIC: &str = "kv@10.0.0.1:8000@m";

/// A server that publishes, and the replay socket before it.
#[derive(Default)]
struct Server {
    published: Vec<Bytes>,
    /// The oldest batch that is kept for replays.
    oldest: usize,
    /// Whether nothing is answered.
    silent: bool,
}

type Frames = Vec<Bytes>;

#[derive(Clone, Default)]
struct Wire(Rc<RefCell<Server>>);

struct Replies(Wire, VecDeque<Frames>);

struct NoSocket;

impl Transport for Wire {
    type Live = NoSocket;
    type Replay = Replies;

    async fn connect(&mut self, _: &SubscriberSpec) -> Result<NoSocket, TransportError> {
        Ok(NoSocket)
    }

    async fn open_replay(&mut self, _: &SubscriberSpec) -> Result<Replies, TransportError> {
        Ok(Replies(self.clone(), VecDeque::new()))
    }
}

impl LiveSocket for NoSocket {
    async fn receive(&mut self) -> Result<Frames, TransportError> {
        Err(TransportError::new("recv", "gone"))
    }
}

impl ReplaySocket for Replies {
    async fn ask(&mut self, start: u64) -> Result<(), TransportError> {
        let Replies(Wire(server), replies) = self;
        let server = server.borrow();
        if !server.silent {
            let first = server.oldest.max(start as usize);
            let delimited = |frames: Frames| std::iter::once(Bytes::new()).chain(frames).collect();
            let kept = server.published.iter().enumerate().skip(first);
            replies.extend(kept.map(|(at, batch)| delimited(frames(at as u64, batch))));
            let end = u64::MAX.to_be_bytes().to_vec().into();
            replies.push_back(delimited(vec![Bytes::new(), end, Bytes::new()]));
        }
        Ok(())
    }

    async fn receive(&mut self) -> Result<Frames, TransportError> {
        match self.1.pop_front() {
            Some(frames) => Ok(frames),
            None => Ok(std::future::pending().await),
        }
    }
}

fn frames(number: u64, batch: &Bytes) -> Frames {
    vec![TOPIC.into(), number.to_be_bytes().to_vec().into(), batch.clone()]
}

fn hash(block: u32) -> [u8; 9] {
    let mut bytes = [0xcf; 9];
    bytes[1..].copy_from_slice(&(u64::from(block) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes
}

/// vLLM's bytes of the news that a block of 16 tokens is stored behind the block before it.
fn stored(block: u32) -> Bytes {
    let mut bytes = b"\x93\xcb\x41\xd2\x65\x80\xb4\x80\0\0\x91\x9a\xabBlockStored\x91".to_vec();
    bytes.extend(hash(block));
    match block.checked_sub(1) {
        Some(before) => bytes.extend(hash(before)),
        None => bytes.push(0xc0),
    }
    bytes.extend(b"\xdc\0\x10");
    for token in 16 * block..16 * (block + 1) {
        bytes.push(0xce);
        bytes.extend(token.to_be_bytes());
    }
    bytes.extend(b"\x10\xc0\xa3GPU\xc0\x91\xc0\0\xc0");
    bytes.into()
}

fn removed(block: u32) -> Bytes {
    let mut bytes = b"\x93\xcb\x41\xd2\x65\x80\xb4\x80\0\0\x91\x94\xacBlockRemoved\x91".to_vec();
    bytes.extend(hash(block));
    bytes.extend(b"\xa3GPU\0\xc0");
    bytes.into()
}

/// A server, a subscription to it and the index behind.
struct World {
    rt: Rt,
    plugins: Handle,
    producer: Rc<PrecisePrefixCacheProducer>,
    wire: Wire,
    replays: bool,
    subscription: Subscription<Wire>,
}

impl World {
    fn subscription(
        rt: &Rt,
        plugins: &Handle,
        wire: &Wire,
        sink: Rc<dyn KvEventSink>,
        replays: bool,
    ) -> Subscription<Wire> {
        let spec = SubscriberSpec {
            id: "ns/a".to_owned(),
            source: "10.0.0.1:8000".to_owned(),
            endpoint: "tcp://10.0.0.1:5557".to_owned(),
            replay: if replays { "tcp://10.0.0.1:5558".to_owned() } else { String::new() },
            filter: "kv@".to_owned(),
            dial: true,
        };
        let metrics = SubscriptionMetrics::new(plugins.metrics());
        Subscription::new(rt, spec, wire.clone(), sink, ReplaySlots::default(), &metrics)
    }

    /// Publishes batches, of which those arrive, in that order, whose numbers `arrive` lists.
    async fn publish(&mut self, batches: impl IntoIterator<Item = Bytes>, arrive: &[u64]) {
        self.wire.0.borrow_mut().published.extend(batches);
        for number in arrive {
            let batch = self.wire.0.borrow().published[*number as usize].clone();
            self.subscription.received(&frames(*number, &batch)).await;
        }
    }

    /// The server starts anew: it numbers its batches from zero again, and holds nothing.
    fn restart(&self) {
        self.wire.0.borrow_mut().published.clear();
    }

    async fn subscribe_anew(&mut self) {
        self.subscription =
            Self::subscription(&self.rt, &self.plugins, &self.wire, self.producer.clone(), self.replays);
        self.subscription.connected().await;
    }

    fn held(&self) -> usize {
        self.producer.with_index(|index| index.len())
    }

    fn dropped(&self, reason: &str) -> f64 {
        let metric = self.plugins.metrics().metric("lockstep_kv_cache_events_dropped_total");
        metric.value(&["p", reason]).unwrap_or(0.0)
    }

    fn errors(&self, operation: &str) -> f64 {
        let metric = self.plugins.metrics().metric("llm_d_router_epp_kv_cache_events_zmq_errors_total");
        metric.value(&["ns/a", operation]).unwrap_or(0.0)
    }

    fn suppressed(&self) -> f64 {
        let name = "llm_d_router_epp_kv_cache_events_dedup_removed_hashes_suppressed_total";
        self.plugins.metrics().metric(name).value(&[]).unwrap_or(0.0)
    }
}

fn simulate(replays: bool, test: impl AsyncFnOnce(World) + 'static) {
    let run = Sim::new(1).run(move |rt| async move {
        let plugins = Handle::new(rt.clone());
        plugins.set_compat(Compat { kv_events: Behavior::Fixed, ..Compat::default() });
        let producer = PrecisePrefixCacheProducer::build("p", &Parameters::new(json!({})), &plugins);
        let producer = producer.expect("parameters");
        let wire = Wire::default();
        let subscription = World::subscription(&rt, &plugins, &wire, producer.clone(), replays);
        let mut world = World { rt, plugins, producer, wire, replays, subscription };
        world.subscription.connected().await;
        test(world).await;
    });
    run.unwrap();
}

#[test]
fn a_lost_batch_orphans_what_stands_behind_it_unless_it_is_replayed() {
    simulate(false, async |mut world: World| {
        world.publish((0..4).map(stored), &[0, 2, 3]).await;
        assert_eq!((world.held(), world.dropped("unknown_parent")), (1, 2.0));
    });
    simulate(true, async |mut world: World| {
        world.publish((0..4).map(stored), &[0, 2, 3]).await;
        assert_eq!((world.held(), world.dropped("unknown_parent")), (4, 0.0));
    });
}

#[test]
fn a_batch_that_comes_twice_holds_back_a_removal_unless_batches_are_counted() {
    for (replays, held, suppressed) in [(false, 1, 1.0), (true, 0, 0.0)] {
        simulate(replays, async move |mut world: World| {
            world.publish([stored(0), removed(0)], &[0, 0, 1]).await;
            assert_eq!((world.held(), world.suppressed()), (held, suppressed), "replay {replays}");
        });
    }
}

#[test]
fn batches_out_of_order_end_in_the_same_index() {
    simulate(true, async |mut world: World| {
        // A number that goes back looks like a new server: all is replayed.
        world.publish((0..5).map(stored), &[0, 2, 1, 4, 3]).await;
        assert_eq!((world.held(), world.suppressed()), (5, 0.0));
        world.publish([removed(4)], &[5]).await;
        assert_eq!((world.held(), world.suppressed()), (4, 0.0));
    });
}

#[test]
fn what_cannot_be_read_is_counted_and_the_rest_is_taken() {
    simulate(false, async |mut world: World| {
        let cut = stored(1).slice(..40);
        world.publish([stored(0), cut, stored(1)], &[0, 1, 2]).await;
        assert_eq!((world.held(), world.dropped("undecodable_batch")), (2, 1.0));
        world.subscription.received(&[TOPIC.into(), Bytes::from_static(b"short"), stored(2)]).await;
        assert_eq!((world.held(), world.errors("malformed")), (2, 1.0));
    });
}

#[test]
fn a_server_that_starts_anew_in_place_holds_only_what_it_has_stored_since() {
    simulate(true, async |mut world: World| {
        world.publish((0..6).map(stored), &[0, 1, 2, 3, 4, 5]).await;
        world.restart();
        world.publish((0..2).map(stored), &[0]).await;
        assert_eq!(world.held(), 2, "the replay brings both");
        // Nothing was counted twice: one removal is enough.
        world.publish([removed(1)], &[2]).await;
        assert_eq!((world.held(), world.suppressed()), (1, 0.0));
    });
}

#[test]
fn a_replay_that_fails_empties_the_pod_until_one_succeeds() {
    simulate(true, async |mut world: World| {
        world.publish((0..2).map(stored), &[0, 1]).await;
        world.wire.0.borrow_mut().oldest = 4;
        world.publish((2..6).map(stored), &[5]).await;
        assert_eq!((world.held(), world.errors("replay-incomplete")), (0, 1.0));
        world.publish([stored(6)], &[6]).await;
        assert_eq!(world.held(), 0, "nobody knows what stands before it");
        world.wire.0.borrow_mut().oldest = 0;
        world.rt.sleep(COOLDOWN).await;
        world.publish([stored(7)], &[7]).await;
        assert_eq!(world.held(), 8);
    });
    simulate(true, async |mut world: World| {
        world.publish([stored(0)], &[0]).await;
        world.wire.0.borrow_mut().silent = true;
        let before = world.rt.now();
        world.publish((1..3).map(stored), &[2]).await;
        // Request-control spec 15.5: three attempts of 2 s, 100 ms apart.
        assert_eq!(world.rt.now() - before, Duration::from_millis(6_200));
        assert_eq!((world.held(), world.errors("replay-no-progress")), (0, 1.0));
    });
}

/// Request-control spec 8.8: a deleted endpoint's blocks go, what was counted of them stays.
#[test]
fn an_endpoint_that_leaves_and_comes_back_is_learned_anew() {
    simulate(true, async |mut world: World| {
        world.publish((0..3).map(stored), &[0, 1, 2]).await;
        world.producer.clear_endpoint("10.0.0.1:8000");
        assert_eq!(world.held(), 0);
        world.subscribe_anew().await;
        assert_eq!(world.held(), 3);
        world.publish([removed(2)], &[3]).await;
        assert_eq!((world.held(), world.suppressed()), (3, 1.0));
    });
}

#[test]
fn eight_replays_run_at_a_time() {
    simulate(true, async |world: World| {
        world.wire.0.borrow_mut().silent = true;
        let slots = ReplaySlots::default();
        let joins: Vec<_> = (0..9)
            .map(|_| {
                let World { rt, plugins, wire, producer, .. } = &world;
                let mut subscription = World::subscription(rt, plugins, wire, producer.clone(), true);
                subscription.slots = slots.clone();
                // Kept to the end: its series go with it.
                rt.spawn_local("subscription", async move {
                    subscription.connected().await;
                    subscription
                })
            })
            .collect();
        let subscriptions = futures::future::join_all(joins).await;
        assert_eq!((world.errors("replay-capacity"), world.errors("replay-no-progress")), (1.0, 8.0));
        assert!(subscriptions.iter().flatten().all(|subscription| subscription.cools_down()));
    });
}
