//! One server's KV events, each once and in order: what was missed is replayed, what comes twice is passed over, and a
//! server that starts anew is noticed (request-control spec 15.5).

mod replay;
mod telemetry;

pub use replay::ReplaySlots;
pub use telemetry::SubscriptionMetrics;

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use executor::{Instant, Rt};

use super::message::Message;
use super::{KvEventSink, SubscriberSpec};
use telemetry::Telemetry;

/// How long a subscription waits before it connects again.
const RECONNECT: Duration = Duration::from_secs(5);

/// How long nothing is replayed after a replay has failed.
const COOLDOWN: Duration = Duration::from_secs(30);

/// How a subscription reaches its server. Frames are those of ZeroMQ's messages.
pub trait Transport {
    /// A socket on which batches come as they are published.
    type Live: LiveSocket;
    /// A socket on which batches come that were published before.
    type Replay: ReplaySocket;

    /// Subscribes.
    ///
    /// # Errors
    /// No connection can be had.
    fn connect(&mut self, spec: &SubscriberSpec) -> impl Future<Output = Result<Self::Live, TransportError>>;

    /// Opens a socket to what was published before.
    ///
    /// # Errors
    /// No connection can be had.
    fn open_replay(
        &mut self,
        spec: &SubscriberSpec,
    ) -> impl Future<Output = Result<Self::Replay, TransportError>>;
}

/// A socket on which batches come as they are published.
pub trait LiveSocket {
    /// Waits for the next message. A dropped future loses none.
    ///
    /// # Errors
    /// The connection is lost.
    fn receive(&mut self) -> impl Future<Output = Result<Vec<Bytes>, TransportError>>;
}

/// A socket on which batches come that were published before.
pub trait ReplaySocket {
    /// Asks for all batches from the number `start` on.
    ///
    /// # Errors
    /// The connection is lost.
    fn ask(&mut self, start: u64) -> impl Future<Output = Result<(), TransportError>>;

    /// Waits for the next message.
    ///
    /// # Errors
    /// The connection is lost.
    fn receive(&mut self) -> impl Future<Output = Result<Vec<Bytes>, TransportError>>;
}

/// What a transport could not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {message}")]
pub struct TransportError {
    /// What was tried, as the metric `zmq_errors_total` names it.
    pub operation: &'static str,
    /// What went wrong.
    pub message: String,
}

impl TransportError {
    /// Returns the error of an operation.
    pub fn new(operation: &'static str, message: impl ToString) -> Self {
        TransportError { operation, message: message.to_string() }
    }
}

/// The subscription to one server.
pub struct Subscription<T> {
    rt: Rt,
    spec: SubscriberSpec,
    transport: T,
    sink: Rc<dyn KvEventSink>,
    slots: ReplaySlots,
    telemetry: Telemetry,
    /// The latest batch that was passed on; `None` = not known.
    last: Option<u64>,
    /// The latest batch that came by itself.
    last_live: Option<u64>,
    /// When a replay failed.
    failed: Option<Instant>,
}

impl<T: Transport> Subscription<T> {
    /// Returns a subscription that hands its batches to `sink`. It does nothing before it [runs](Self::run).
    pub fn new(
        rt: &Rt,
        spec: SubscriberSpec,
        transport: T,
        sink: Rc<dyn KvEventSink>,
        slots: ReplaySlots,
        metrics: &SubscriptionMetrics,
    ) -> Self {
        let telemetry = metrics.of(&spec.id);
        Subscription {
            rt: rt.clone(),
            spec,
            transport,
            sink,
            slots,
            telemetry,
            last: None,
            last_live: None,
            failed: None,
        }
    }

    /// Follows the server for ever: connects, and connects anew where the connection is lost.
    pub async fn run(mut self) {
        loop {
            let Err(error) = self.follow().await;
            self.telemetry.failed(&error);
            self.rt.sleep(RECONNECT).await;
            self.telemetry.reconnected();
        }
    }

    async fn follow(&mut self) -> Result<std::convert::Infallible, TransportError> {
        let mut live = self.transport.connect(&self.spec).await?;
        self.connected().await;
        loop {
            let frames = live.receive().await?;
            self.received(&frames).await;
        }
    }

    /// Asks for what was published before the connection, unless it is known.
    pub async fn connected(&mut self) {
        if self.replays() && self.last.is_none() && !self.cools_down() {
            self.replay(0).await;
        }
    }

    /// Takes a message that came by itself. What was missed before it is replayed first.
    pub async fn received(&mut self, frames: &[Bytes]) {
        self.telemetry.received();
        let Some(message) = Message::of(frames) else { return self.telemetry.malformed() };
        if !self.replays() || self.is_next(&message).await {
            self.pass_on(&message);
        }
    }

    /// Returns the number of the latest batch that was passed on; `None` = not known.
    pub fn last_sequence(&self) -> Option<u64> {
        self.last
    }

    /// Returns whether nothing is replayed, since a replay has failed.
    pub fn cools_down(&self) -> bool {
        self.failed.is_some_and(|failed| self.rt.now() - failed < COOLDOWN)
    }

    fn replays(&self) -> bool {
        !self.spec.replay.is_empty()
    }

    /// Returns whether a batch is the one to pass on now; replays what is missing before it.
    async fn is_next(&mut self, message: &Message) -> bool {
        let (sequence, mut tried) = (message.sequence, false);
        if self.last_live.is_some_and(|latest| sequence < latest) {
            // Numbers that go back are those of a server that has started anew.
            self.reset(&message.topic);
            self.failed = None;
            tried = true;
            self.replay(0).await;
        }
        if self.last_live.replace(sequence) == Some(sequence) {
            return false;
        }
        let missing_from = match self.last {
            Some(last) if sequence <= last => return false,
            Some(last) if sequence - last > 1 => Some(last + 1),
            None if sequence > 0 => Some(0),
            _ => None,
        };
        if let Some(start) = missing_from {
            // Where a new server's batches were asked for just now, they are not asked for again.
            let has_asked = tried && start == 0;
            if has_asked || self.cools_down() || !self.replay(start).await {
                return false;
            }
        }
        self.last.is_none_or(|last| last.checked_add(1) == Some(sequence))
    }

    fn pass_on(&mut self, message: &Message) {
        self.last = Some(message.sequence);
        self.sink.ingest(&self.spec.source, &message.topic, &message.payload);
    }

    /// Forgets what the server's pod holds, and which batches of it are known. Where no address names the pod, `topic`
    /// does.
    fn reset(&mut self, topic: &str) {
        self.last = None;
        self.sink.reset(&self.spec.source, topic);
    }
}

impl<T> std::fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("spec", &self.spec)
            .field("last", &self.last)
            .field("last_live", &self.last_live)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
