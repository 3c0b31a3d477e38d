//! The simulated network: how HTTP travels, and what goes wrong on the way.

mod exchange;
mod pool;
mod road;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::http::Endpoint;

pub(super) use pool::forget;
pub(super) use road::Roads;
pub(super) use wire::send;

/// How HTTP travels in a simulation, see [`SimBuilder::network`](crate::SimBuilder::network).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Network {
    /// A request is a call of the service that listens at its endpoint. Costs least; nothing fails on the way.
    #[default]
    Direct,
    /// HTTP/1.1 over simulated connections, between hyper's client and hyper's server. Extensions of requests and
    /// responses do not travel.
    Wire(Links),
}

/// The links of a [`Network::Wire`].
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// How long opening a connection may take. Default: 5 s, as in production.
    pub connect_timeout: Duration,
    /// Links of their own, by the endpoint they lead to.
    pub named: BTreeMap<Endpoint, Link>,
    /// The link to every other endpoint.
    pub other: Link,
}

impl Default for Links {
    /// Returns links on which nothing takes time and nothing goes wrong.
    fn default() -> Self {
        Links { connect_timeout: Duration::from_secs(5), named: BTreeMap::new(), other: Link::default() }
    }
}

/// The way to an endpoint and back.
///
/// # Determinism
/// Jitter and chance draw from the run's stream `network` and the endpoint; a link without either draws nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link {
    /// Time one way. Opening a connection takes it twice.
    pub latency: Duration,
    /// Added to the latency of each write, drawn uniformly from zero to this. Order is kept.
    pub jitter: Duration,
    /// Each way. Unit: bytes a second; `None` is without limit.
    pub bandwidth: Option<u64>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
}

/// Something that goes wrong on a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// When.
    pub when: When,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Nobody accepts new connections.
    Refuse,
    /// What is sent is lost. Senders repeat it, so that it arrives when the hole ends, or give up: clients after 60 s,
    /// servers, as Linux does by default, after 924.6 s.
    BlackHole,
    /// Connections are closed in order, by neither end.
    Drop,
    /// Connections are broken off: both ends learn at once.
    Reset,
    /// The server forgets its connections, as a machine does that restarts. The client learns when it writes, or 30 s
    /// later, when it asks.
    HalfOpen,
    /// The client reads slowly, and makes the server wait.
    SlowReader {
        /// Unit: bytes a second.
        rate: u64,
    },
}

/// When something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// At an instant: to connections that are open then and, where the kind lasts ([`FaultKind::lasts`]), that are
    /// opened until its end.
    At {
        /// Time since the start of the run.
        start: Duration,
        /// How long, for a kind that lasts; `None` is for ever.
        length: Option<Duration>,
    },
    /// By chance, to the connection that an exchange uses; what lasts does so as long as the connection.
    Exchange {
        /// How likely an exchange meets it, from 0 to 1.
        probability: f64,
        /// It happens at a time after the exchange's start that is drawn uniformly from zero to this.
        within: Duration,
    },
}

impl FaultKind {
    /// Returns whether it goes on for a time, or happens once.
    pub fn lasts(self) -> bool {
        matches!(self, FaultKind::Refuse | FaultKind::BlackHole | FaultKind::SlowReader { .. })
    }
}
