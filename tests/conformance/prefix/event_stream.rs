//! `event_stream.jsonl`: frames, the registry of subscriptions, and one subscription over a scripted transport.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use executor::{Rt, Sim};
use router::metrics::Registry;
use router::prefix::kv_events::{
    KvBatch, KvEventSink, LiveSocket, Message, RegistryAction, ReplaySlots, ReplaySocket, SubscriberRegistry,
    SubscriberSpec, Subscribers, Subscription, SubscriptionMetrics, Transport, TransportError, split_topic,
};
use serde_json::{Value, json};
use tests::compare::Rules;

use super::{given, unhex};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = case["given"].clone();
    let answer = if let Some(frames) = given.get("frames_hex") {
        frame(frames)
    } else if given.get("filter").is_some() {
        let run = Sim::new(1).run(move |rt| async move { Script::new(rt, &given).run().await });
        run.unwrap()
    } else {
        registry(&given["steps"])
    };
    Rules::exact().outcome(&case["then"], &answer)
}

fn frames(hex: &Value) -> Vec<Bytes> {
    hex.as_array().into_iter().flatten().map(|frame| unhex(frame).into()).collect()
}

fn frame(hex: &Value) -> Value {
    match Message::of(&frames(hex)) {
        None => json!({"error": {"kind": "malformed-frames"}}),
        Some(message) => json!({
            "topic": message.topic,
            "sequence": message.sequence.to_string(),
            "payload_hex": message.payload.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        }),
    }
}

fn registry(steps: &Value) -> Value {
    let mut registry = SubscriberRegistry::<()>::default();
    let steps = steps.as_array().into_iter().flatten().map(|step| {
        let text = |key: &str| given::text(&step[key]);
        let action = match step["op"].as_str() {
            Some("ensure") => {
                let spec = SubscriberSpec {
                    id: text("id"),
                    source: text("source"),
                    endpoint: text("endpoint"),
                    replay: text("replay"),
                    ..SubscriberSpec::default()
                };
                registry.ensure(spec, |_| ())
            }
            Some("remove") => registry.remove(&text("id")),
            other => panic!("unknown step {other:?}"),
        };
        let active: serde_json::Map<String, Value> =
            registry.active().map(|spec| (spec.id.clone(), json!(spec.endpoint))).collect();
        let action = match action {
            RegistryAction::None => "none",
            RegistryAction::Created => "created",
            RegistryAction::Replaced => "replaced",
            RegistryAction::Removed => "removed",
        };
        json!({"action": action, "active": active})
    });
    json!({"steps": steps.collect::<Vec<Value>>()})
}

/// What the engine's replay socket answers.
#[derive(Default)]
struct Engine {
    topic: String,
    buffer: Vec<u64>,
    answers: String,
    stop_after: usize,
    asked: Vec<u64>,
}

impl Engine {
    fn set(&mut self, step: &Value) {
        self.buffer = step["buffer"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        self.answers = given::text(&step["answers"]);
        self.stop_after = step["stop_after"].as_u64().unwrap_or(0) as usize;
    }

    fn ask(&mut self, start: u64) -> VecDeque<Vec<Bytes>> {
        self.asked.push(start);
        let numbers: Vec<u64> = self.buffer.iter().copied().filter(|number| *number >= start).collect();
        let most = match self.answers.as_str() {
            "ok" | "two-frames" | "no-end" => usize::MAX,
            "stop" => self.stop_after,
            _ => 0,
        };
        let mut replies: VecDeque<_> =
            numbers.iter().take(most).map(|number| self.reply(*number, payload(*number))).collect();
        // Stopped is who had more to say.
        let ends = match self.answers.as_str() {
            "stop" => numbers.len() < most,
            answers => matches!(answers, "ok" | "two-frames"),
        };
        if ends {
            replies.push_back(self.reply(u64::MAX, Bytes::new()));
        }
        replies
    }

    fn reply(&self, number: u64, payload: Bytes) -> Vec<Bytes> {
        let mut frames = vec![Bytes::new()];
        if self.answers != "two-frames" {
            frames.push(match payload.is_empty() {
                true => Bytes::new(),
                false => self.topic.clone().into(),
            });
        }
        frames.extend([number.to_be_bytes().to_vec().into(), payload]);
        frames
    }
}

/// The batch of a number, told apart from others by it.
fn payload(number: u64) -> Bytes {
    number.to_be_bytes().to_vec().into()
}

struct Scripted(Rc<RefCell<Engine>>);

struct Replaying {
    engine: Rc<RefCell<Engine>>,
    replies: VecDeque<Vec<Bytes>>,
}

/// The script plays the live socket itself.
struct NoSocket;

impl Transport for Scripted {
    type Live = NoSocket;
    type Replay = Replaying;

    async fn connect(&mut self, _: &SubscriberSpec) -> Result<NoSocket, TransportError> {
        Ok(NoSocket)
    }

    async fn open_replay(&mut self, _: &SubscriberSpec) -> Result<Replaying, TransportError> {
        Ok(Replaying { engine: Rc::clone(&self.0), replies: VecDeque::new() })
    }
}

impl LiveSocket for NoSocket {
    async fn receive(&mut self) -> Result<Vec<Bytes>, TransportError> {
        Err(TransportError::new("recv", "the script hands messages over itself"))
    }
}

impl ReplaySocket for Replaying {
    async fn ask(&mut self, start: u64) -> Result<(), TransportError> {
        self.replies = self.engine.borrow_mut().ask(start);
        Ok(())
    }

    async fn receive(&mut self) -> Result<Vec<Bytes>, TransportError> {
        match self.replies.pop_front() {
            Some(frames) => Ok(frames),
            // Silence, which the subscription's own clock ends.
            None => Ok(std::future::pending().await),
        }
    }
}

/// Notes what reaches the index.
#[derive(Default)]
struct Notes {
    topic: String,
    delivered: RefCell<Vec<Value>>,
}

impl KvEventSink for Notes {
    fn subscribe_with(&self, _: Box<dyn Subscribers>) {}

    fn has_own_socket(&self) -> bool {
        false
    }

    fn ingest(&self, _: &str, topic: &str, payload: &[u8]) {
        let number = u64::from_be_bytes(payload.try_into().expect("a number"));
        let mut note = json!({"event": number});
        if topic != self.topic {
            note["topic"] = json!(topic);
        }
        self.delivered.borrow_mut().push(note);
    }

    fn ingest_batch(&self, _: &str, _: &str, _: &KvBatch) {}

    fn reset(&self, source: &str, topic: &str) {
        let pod = if source.is_empty() { split_topic(topic).0 } else { source };
        self.delivered.borrow_mut().push(json!({"reset": pod}));
    }

    fn clear_endpoint(&self, _: &str) {}
}

struct Script<'a> {
    rt: Rt,
    given: &'a Value,
    engine: Rc<RefCell<Engine>>,
    notes: Rc<Notes>,
    subscription: Subscription<Scripted>,
}

impl<'a> Script<'a> {
    fn new(rt: Rt, given: &'a Value) -> Self {
        let topic = given::text(&given["topic"]);
        let engine = Rc::new(RefCell::new(Engine { topic: topic.clone(), ..Engine::default() }));
        let notes = Rc::new(Notes { topic, ..Notes::default() });
        let spec = SubscriberSpec {
            id: "ns/a".to_owned(),
            source: given::text(&given["source"]),
            endpoint: "tcp://engine:5557".to_owned(),
            replay: if given["replay"] == true { "tcp://engine:5558".to_owned() } else { String::new() },
            filter: given::text(&given["filter"]),
            dial: true,
        };
        let metrics = SubscriptionMetrics::new(&Registry::default());
        let transport = Scripted(Rc::clone(&engine));
        let subscription =
            Subscription::new(&rt, spec, transport, notes.clone(), ReplaySlots::default(), &metrics);
        Script { rt, given, engine, notes, subscription }
    }

    async fn run(mut self) -> Value {
        let steps = self.given["steps"].as_array().map_or(&[][..], Vec::as_slice);
        if let Some(first) = steps.first().filter(|step| step["op"] == "engine") {
            self.engine.borrow_mut().set(first);
        }
        self.subscription.connected().await;
        let on_connect = self.answer();
        let mut answers = Vec::new();
        for step in steps {
            answers.push(self.step(step).await);
        }
        json!({"on_connect": on_connect, "steps": answers})
    }

    async fn step(&mut self, step: &Value) -> Value {
        match step["op"].as_str().unwrap_or_default() {
            "engine" => {
                self.engine.borrow_mut().set(step);
                json!({})
            }
            "cooldown_over" => {
                self.rt.sleep(Duration::from_secs(31)).await;
                json!({})
            }
            "live" => {
                let number = step["seq"].as_u64().expect("a number");
                let topic = step["topic"].as_str().unwrap_or(&self.notes.topic).to_owned();
                // The socket filters by the start of the topic.
                if topic.starts_with(self.given["filter"].as_str().unwrap_or_default()) {
                    let number = number.to_be_bytes().to_vec().into();
                    let payload = payload(step["seq"].as_u64().expect("a number"));
                    self.subscription.received(&[topic.into(), number, payload]).await;
                }
                self.answer()
            }
            "malformed" => {
                self.subscription.received(&frames(&step["frames_hex"])).await;
                self.answer()
            }
            other => panic!("unknown step {other}"),
        }
    }

    fn answer(&self) -> Value {
        let delivered = self.notes.delivered.take();
        if self.given["replay"] != true {
            return json!({"delivered": delivered});
        }
        json!({
            "delivered": delivered,
            "replay_requests": std::mem::take(&mut self.engine.borrow_mut().asked),
            "last_seq": self.subscription.last_sequence(),
            "cooling_down": self.subscription.cools_down(),
        })
    }
}
