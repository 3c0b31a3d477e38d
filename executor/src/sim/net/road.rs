//! The links in use: their connections, and the faults that strike them.

use std::collections::BTreeMap;
use std::panic::Location;
use std::rc::{Rc, Weak};
use std::time::Duration;

use http::HeaderValue;

use super::pool::Idle;
use super::{Fault, FaultKind, Link, Links, Network, When};
use crate::http::{Endpoint, GONE_AFTER, PROBE_AFTER};
use crate::sim::core::{Core, Id, Spawn};
use crate::sim::lane::{Lane, REPEATS, Shape};
use crate::sim::pipe::{Pipe, Wire};
use crate::{Class, Instant, Rt, Stream};

/// The network of a run.
#[derive(Default)]
pub(in crate::sim) struct Roads {
    /// `None`: there are no connections.
    links: Option<Links>,
    roads: BTreeMap<Endpoint, Road>,
    /// Connections opened so far.
    opened: u64,
    /// Whether the task that closes idle connections runs.
    pub(super) reaping: bool,
}

/// A link in use.
struct Road {
    link: Link,
    /// What clients call the server: `None` where that cannot stand in a header.
    host: Option<HeaderValue>,
    /// What its connections draw jitter from, each from a fork.
    jitter: Option<Stream>,
    /// Draws which exchanges meet a fault.
    chance: Option<Stream>,
    /// The connections that may be open, by number.
    live: BTreeMap<u64, Weak<Wire>>,
    /// Connections that wait for an exchange, the one used last at the end.
    idle: Vec<Idle>,
}

/// What an exchange meets, and how long after its start.
pub(super) type Chances = Vec<(FaultKind, Duration)>;

/// What somebody who opens a connection meets.
pub(super) enum Opening {
    /// It is open after this time.
    Open(Duration),
    /// It is refused after this time.
    Refused(Duration),
    /// Nothing is heard for as long as one waits.
    Silent(Duration),
}

impl Roads {
    pub(in crate::sim) fn new(network: &Network) -> Self {
        let links = match network {
            Network::Direct => None,
            Network::Wire(links) => Some(links.clone()),
        };
        Roads { links, ..Roads::default() }
    }

    /// Returns whether HTTP travels over connections.
    pub(in crate::sim) fn exist(&self) -> bool {
        self.links.is_some()
    }

    /// What clients call the server at `to`.
    pub(super) fn host(&mut self, to: &Endpoint) -> Option<HeaderValue> {
        self.road(to).host.clone()
    }

    /// The idle connections to `to`.
    pub(super) fn idle(&mut self, to: &Endpoint) -> Option<&mut Vec<Idle>> {
        self.roads.get_mut(to).map(|road| &mut road.idle)
    }

    /// All idle connections.
    pub(super) fn all_idle(&mut self) -> impl Iterator<Item = &mut Vec<Idle>> {
        self.roads.values_mut().map(|road| &mut road.idle)
    }

    fn road(&mut self, to: &Endpoint) -> &mut Road {
        self.roads.get_mut(to).expect("an exchange has taken the road")
    }

    /// Returns the two ends of a connection that belongs to no road.
    pub(in crate::sim) fn pipe(&mut self, id: Id) -> (Pipe, Pipe) {
        let [up, down] = [(), ()].map(|()| Lane::new(Shape::default()));
        Pipe::ends(id, self.number(), &Rc::new(Wire { up, down }))
    }

    /// Numbers a connection.
    fn number(&mut self) -> u64 {
        self.opened += 1;
        self.opened - 1
    }

    /// Returns what somebody meets who opens a connection to `to` now.
    pub(super) fn opening(&mut self, to: &Endpoint, now: Instant) -> Opening {
        let patience = self.links.as_ref().map_or(Duration::ZERO, |links| links.connect_timeout);
        let link = &self.road(to).link;
        let round_trip = link.latency * 2;
        if let Some(until) = link.until(now, |kind| kind == FaultKind::BlackHole) {
            let answered = if until == Instant::MAX { until } else { until + round_trip };
            return match answered.since(now) {
                wait if wait <= patience => Opening::Open(wait),
                _ => Opening::Silent(patience),
            };
        }
        if round_trip > patience {
            return Opening::Silent(patience);
        }
        match link.until(now, |kind| kind == FaultKind::Refuse) {
            Some(_) => Opening::Refused(round_trip),
            None => Opening::Open(round_trip),
        }
    }

    /// Opens a connection to `to`; returns its number and its ends, the client's first.
    pub(super) fn open(&mut self, id: Id, to: &Endpoint, now: Instant) -> (u64, Pipe, Pipe) {
        let number = self.number();
        let road = self.road(to);
        let lane = |direction| {
            let client = direction == 0;
            Lane::new(Shape {
                latency: road.link.latency,
                jitter: road.link.jitter,
                stream: road.jitter.as_ref().map(|stream| stream.fork(number * 2 + direction)),
                bandwidth: road.link.bandwidth,
                patience: if client { GONE_AFTER } else { REPEATS },
                probes: client,
            })
        };
        let (up, down) = (lane(0), lane(1));
        let wire = Rc::new(Wire { up, down });
        for fault in &road.link.faults {
            if let Some(until) = fault.until(now) {
                strike(&wire, fault.kind, now, until);
            }
        }
        if road.live.len() >= 64 && road.live.len().is_power_of_two() {
            road.live.retain(|_, wire| wire.strong_count() > 0);
        }
        road.live.insert(number, Rc::downgrade(&wire));
        let (client, server) = Pipe::ends(id, number, &wire);
        (number, client, server)
    }
}

impl Link {
    /// Returns when the last of the faults ends that are under way now and fit.
    fn until(&self, now: Instant, fits: impl Fn(FaultKind) -> bool) -> Option<Instant> {
        let faults = self.faults.iter().filter(|fault| fits(fault.kind));
        faults.filter_map(|fault| fault.until(now)).max()
    }
}

impl Fault {
    /// Returns when it ends, if it lasts and is under way now.
    fn until(&self, now: Instant) -> Option<Instant> {
        let When::At { start, length } = self.when else { return None };
        let start = Instant::ZERO + start;
        let until = length.map_or(Instant::MAX, |length| start + length);
        (self.kind.lasts() && start <= now && now < until).then_some(until)
    }
}

/// Begins an exchange with `to`: the first one sets the road up. Returns what chance has it meet.
pub(super) fn begin(core: &Core, to: &Endpoint, place: &'static Location<'static>) -> Chances {
    if !core.roads.borrow().roads.contains_key(to) {
        set_up(core, to, place);
    }
    let mut roads = core.roads.borrow_mut();
    let road = roads.road(to);
    let Some(chance) = &mut road.chance else { return Chances::new() };
    let mut met = Chances::new();
    for fault in &road.link.faults {
        if let When::Exchange { probability, within } = fault.when {
            // Both are drawn whether or not it happens, so that an exchange costs always the same numbers.
            let (dice, part) = (chance.unit(), chance.unit());
            if dice < probability {
                met.push((fault.kind, within.mul_f64(part)));
            }
        }
    }
    met
}

fn set_up(core: &Core, to: &Endpoint, place: &'static Location<'static>) {
    let link = match &core.roads.borrow().links {
        Some(links) => links.named.get(to).unwrap_or(&links.other).clone(),
        None => Link::default(),
    };
    let by_chance = link.faults.iter().any(|fault| matches!(fault.when, When::Exchange { .. }));
    let jitters = !link.jitter.is_zero();
    let stream = (by_chance || jitters).then(|| core.stream(&format!("network {to}"), place));
    for fault in &link.faults {
        let When::At { start, length } = fault.when else { continue };
        let start = Instant::ZERO + start;
        if start < core.now() || fault.kind == FaultKind::Refuse {
            continue;
        }
        let until = length.map_or(Instant::MAX, |length| start + length);
        let (id, to, kind) = (core.id(), to.clone(), fault.kind);
        later(core, "network fault", start, move || id.with(|core| strike_all(core, &to, kind, until)));
    }
    let road = Road {
        chance: stream.as_ref().filter(|_| by_chance).map(|stream| stream.fork(0)),
        jitter: stream.as_ref().filter(|_| jitters).map(|stream| stream.fork(1)),
        link,
        host: HeaderValue::try_from(to.to_string()).ok(),
        live: BTreeMap::new(),
        idle: Vec::new(),
    };
    core.roads.borrow_mut().roads.insert(to.clone(), road);
}

/// Does `what` at `at`, as an event of the network.
pub(super) fn later(core: &Core, name: &'static str, at: Instant, what: impl FnOnce() + 'static) {
    let rt = Rt::sim(core.id());
    let how = Spawn { name, place: Location::caller(), class: Class::Transport, daemon: true };
    let word = core.spawn(how, async move {
        rt.sleep_until_in(Class::Transport, at).await;
        what();
    });
    core.detach(word);
}

fn strike_all(core: &Core, to: &Endpoint, kind: FaultKind, until: Instant) {
    // Woken while nothing is borrowed.
    let wires: Vec<Rc<Wire>> =
        core.roads.borrow_mut().road(to).live.values().filter_map(Weak::upgrade).collect();
    for wire in wires {
        strike(&wire, kind, core.now(), until);
    }
}

/// Strikes the connection `number` to `to`, if it is still there, for as long as it lives.
pub(super) fn strike_one(core: &Core, to: &Endpoint, number: u64, kind: FaultKind) {
    let wire = core.roads.borrow_mut().road(to).live.get(&number).and_then(Weak::upgrade);
    if let Some(wire) = wire {
        strike(&wire, kind, core.now(), Instant::MAX);
    }
}

fn strike(wire: &Wire, kind: FaultKind, now: Instant, until: Instant) {
    let lanes = [&wire.up, &wire.down];
    match kind {
        FaultKind::Refuse => {}
        FaultKind::BlackHole => lanes.into_iter().for_each(|lane| lane.swallow(now, until)),
        FaultKind::Drop => lanes.into_iter().for_each(|lane| lane.finish(now)),
        FaultKind::Reset => lanes.into_iter().for_each(|lane| lane.reset(now)),
        FaultKind::HalfOpen => {
            wire.up.lose_reader(now);
            wire.down.lose_writer(now);
            // Asked whether it is there, the server says that it knows nothing of it.
            wire.down.reset(wire.up.round_trip(now + PROBE_AFTER));
        }
        FaultKind::SlowReader { rate } => wire.down.slow_down(rate, until),
    }
}
