//! KV events over ZeroMQ: the sockets that bring the events of model servers (request-control spec 15.2).

use std::cell::RefCell;
use std::rc::{Rc, Weak};

use bytes::Bytes;
use executor::{AbortHandle, Rt};
use zeromq::{DealerSocket, Socket, SocketRecv, SocketSend, SubSocket, ZmqMessage};

use crate::metrics::Registry;
use crate::plugin::Handle;
use crate::prefix::kv_events::{
    KvEventSink, LiveSocket, ReplaySlots, ReplaySocket, SubscriberRegistry, SubscriberSpec, Subscribers,
    Subscription, SubscriptionMetrics, Transport, TransportError,
};

/// Lets every plugin that KV events are for subscribe to model servers. To be called once, on the core's thread, before
/// the first endpoint is known.
pub fn subscribe_to_kv_events(rt: &Rt, plugins: &Handle) {
    let slots = ReplaySlots::default();
    for sink in plugins.instances().into_iter().filter_map(|instance| instance.roles.kv_events) {
        let subscribers = ZmqSubscribers::new(rt, &sink, slots.clone(), plugins.metrics());
        sink.subscribe_with(Box::new(subscribers));
    }
}

/// The subscriptions of one plugin, each a task on the core's thread. What a plugin has not taken yet waits in its
/// server: nothing is queued here.
struct ZmqSubscribers {
    rt: Rt,
    /// Weak, since the plugin owns its subscribers.
    sink: Weak<dyn KvEventSink>,
    slots: ReplaySlots,
    metrics: SubscriptionMetrics,
    registry: RefCell<SubscriberRegistry<Running>>,
}

/// A subscription that ends when this is dropped.
struct Running(AbortHandle);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ZmqSubscribers {
    fn new(rt: &Rt, sink: &Rc<dyn KvEventSink>, slots: ReplaySlots, metrics: &Registry) -> Self {
        ZmqSubscribers {
            rt: rt.clone(),
            sink: Rc::downgrade(sink),
            slots,
            metrics: SubscriptionMetrics::new(metrics),
            registry: RefCell::default(),
        }
    }

    fn count(&self) {
        self.metrics.active(self.registry.borrow().active().len());
    }
}

impl Subscribers for ZmqSubscribers {
    fn ensure(&self, spec: SubscriberSpec) {
        let Some(sink) = self.sink.upgrade() else { return };
        self.registry.borrow_mut().ensure(spec, |spec| {
            let (slots, metrics) = (self.slots.clone(), &self.metrics);
            let subscription = Subscription::new(&self.rt, spec.clone(), Zmq, sink, slots, metrics);
            Running(self.rt.daemon("kv events", subscription.run()).abort_handle())
        });
        self.count();
    }

    fn remove(&self, id: &str) {
        self.registry.borrow_mut().remove(id);
        self.count();
    }
}

struct Zmq;

impl Transport for Zmq {
    type Live = SubSocket;
    type Replay = DealerSocket;

    async fn connect(&mut self, spec: &SubscriberSpec) -> Result<SubSocket, TransportError> {
        let mut socket = SubSocket::new();
        let filter = socket.subscribe(&spec.filter).await;
        filter.map_err(|error| TransportError::new("subscribe", error))?;
        if spec.dial {
            let connected = socket.connect(&spec.endpoint).await;
            connected.map_err(|error| TransportError::new("connect", error))?;
        } else {
            // ZeroMQ writes "every address" as an asterisk.
            let bound = socket.bind(&spec.endpoint.replacen("://*:", "://0.0.0.0:", 1)).await;
            bound.map_err(|error| TransportError::new("bind", error))?;
        }
        Ok(socket)
    }

    async fn open_replay(&mut self, spec: &SubscriberSpec) -> Result<DealerSocket, TransportError> {
        let mut socket = DealerSocket::new();
        let connected = socket.connect(&spec.replay).await;
        connected.map_err(|error| TransportError::new("replay-connect", error))?;
        Ok(socket)
    }
}

impl LiveSocket for SubSocket {
    async fn receive(&mut self) -> Result<Vec<Bytes>, TransportError> {
        let message = self.recv().await;
        message.map(ZmqMessage::into_vec).map_err(|error| TransportError::new("recv", error))
    }
}

impl ReplaySocket for DealerSocket {
    async fn ask(&mut self, start: u64) -> Result<(), TransportError> {
        let mut question = ZmqMessage::from(start.to_be_bytes().to_vec());
        question.push_front(Bytes::new());
        self.send(question).await.map_err(|error| TransportError::new("replay-send", error))
    }

    async fn receive(&mut self) -> Result<Vec<Bytes>, TransportError> {
        let message = self.recv().await;
        message.map(ZmqMessage::into_vec).map_err(|error| TransportError::new("recv", error))
    }
}
