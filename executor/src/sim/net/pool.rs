//! Connections that wait for an exchange.

use hyper::client::conn::http1::SendRequest;

use super::road;
use crate::Instant;
use crate::http::{Body, Endpoint, IDLE};
use crate::sim::core::Core;

/// The client's side of an open connection.
pub(super) struct Connected {
    pub(super) sender: SendRequest<Body>,
    pub(super) number: u64,
}

/// A connection without an exchange.
pub(super) struct Idle {
    connection: Connected,
    since: Instant,
}

/// Takes the connection to `to` that was used last, of those that can be used.
pub(super) fn take(core: &Core, to: &Endpoint) -> Option<Connected> {
    let mut closed = Vec::new();
    let found = {
        let mut roads = core.roads.borrow_mut();
        let idle = roads.idle(to)?;
        loop {
            // One whose request is still being sent stays for later.
            let usable =
                |idle: &Idle| idle.connection.sender.is_ready() || idle.connection.sender.is_closed();
            let Some(place) = idle.iter().rposition(usable) else { break None };
            let Idle { connection, .. } = idle.remove(place);
            if connection.sender.is_ready() {
                break Some(connection);
            }
            closed.push(connection);
        }
    };
    // Closed ones are dropped while nothing is borrowed.
    drop(closed);
    found
}

/// Keeps a connection for the next exchange, unless it is closed.
pub(super) fn give_back(core: &Core, to: &Endpoint, connection: Connected) {
    if connection.sender.is_closed() {
        return;
    }
    let reap = {
        let mut roads = core.roads.borrow_mut();
        let Some(idle) = roads.idle(to) else { return };
        idle.push(Idle { connection, since: core.now() });
        !std::mem::replace(&mut roads.reaping, true)
    };
    if reap {
        reap_at(core, core.now() + IDLE);
    }
}

/// Closes the idle connections to `to`: its server is gone.
pub(in crate::sim) fn forget(core: &Core, to: &Endpoint) {
    let gone = core.roads.borrow_mut().idle(to).map(std::mem::take);
    drop(gone);
}

fn reap_at(core: &Core, at: Instant) {
    let id = core.id();
    road::later(core, "idle connections", at, move || id.with(reap));
}

/// Closes what has been idle for too long, and comes back when the next is.
fn reap(core: &Core) {
    let (mut expired, mut next) = (Vec::new(), None::<Instant>);
    {
        let mut roads = core.roads.borrow_mut();
        for idle in roads.all_idle() {
            let fresh = idle.iter().position(|idle| core.now() < idle.since + IDLE).unwrap_or(idle.len());
            expired.extend(idle.drain(..fresh));
            if let Some(first) = idle.first() {
                let at = first.since + IDLE;
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        roads.reaping = next.is_some();
    }
    drop(expired);
    if let Some(at) = next {
        reap_at(core, at);
    }
}
