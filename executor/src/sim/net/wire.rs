//! Exchanges over connections: hyper's client, and hyper's server before the service that listens.

use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::pin;
use std::time::Duration;

use futures::FutureExt;
use http::header::HOST;
use http::uri::{PathAndQuery, Uri};
use http::{Request, Response, Version};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;

use super::FaultKind;
use super::exchange;
use super::pool::{self, Connected};
use super::road::{self, Opening};
use crate::http::{Body, Endpoint, HEADER_TIMEOUT, Kind, Received, SendError, classify};
use crate::hyper::Timer;
use crate::sim::core::{Core, Id, Spawn};
use crate::sim::services::{Answer, Service};
use crate::sim::ticket;
use crate::{Class, Rt, Why};

/// Sends `request` to the service at `to`, over a connection that is idle or a new one.
pub(in crate::sim) async fn send(
    id: Id,
    to: Endpoint,
    request: Request<Body>,
    place: &'static Location<'static>,
) -> Answer {
    let chances = id.with(|core| road::begin(core, &to, place));
    let mut request = address(id, &to, request);
    let refused = chances.iter().any(|(kind, _)| *kind == FaultKind::Refuse);
    loop {
        let idle = if refused { None } else { id.with(|core| pool::take(core, &to)) };
        let reused = idle.is_some();
        let mut connection = match idle {
            Some(connection) => connection,
            // In a box: most exchanges find a connection and need no room for this.
            None => Box::pin(connect(id, &to, refused)).await.map_err(|error| error.at(&to))?,
        };
        let number = connection.number;
        if !chances.is_empty() {
            id.with(|core| strike_later(core, &to, number, &chances));
        }
        let answer = connection.sender.try_send_request(request);
        match registered(id, number, place, answer).await {
            Ok(response) => {
                let (head, incoming) = response.into_parts();
                return Ok(Response::from_parts(head, exchange::body(id, to, connection, incoming)));
            }
            Err(mut error) => match error.take_message() {
                // The connection was closed while it was idle; nothing of the request was sent.
                Some(unsent) if reused => request = unsent,
                _ => return Err(classify(error.into_error(), Kind::Closed).at(&to)),
            },
        }
    }
}

/// Has a request say what a client says on a connection to `to`.
fn address(id: Id, to: &Endpoint, request: Request<Body>) -> Request<Body> {
    let (mut head, body) = request.into_parts();
    let path = head.uri.into_parts().path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
    head.uri = Uri::from(path);
    head.version = Version::HTTP_11;
    if !head.headers.contains_key(HOST)
        && let Some(host) = id.with(|core| core.roads.borrow_mut().host(to))
    {
        head.headers.insert(HOST, host);
    }
    Request::from_parts(head, body)
}

/// Awaits `answer`, which hyper wakes, as a wait that reports know.
async fn registered<F: Future>(
    id: Id,
    number: u64,
    place: &'static Location<'static>,
    answer: F,
) -> F::Output {
    let (mut park, unpark) = ticket::pair(id, Why::about("HTTP exchange", number), place);
    let mut answer = pin!(answer);
    let answered = poll_fn(|cx| {
        id.with(Core::polls_third_party);
        let answered = answer.as_mut().poll(cx);
        if answered.is_pending() {
            // Registers; it is never ready, for `unpark` is used by nobody.
            let _ = park.poll(cx);
        }
        answered
    });
    let answered = answered.await;
    drop(unpark);
    answered
}

fn strike_later(core: &Core, to: &Endpoint, number: u64, chances: &[(FaultKind, Duration)]) {
    let id = core.id();
    for (kind, after) in chances.iter().copied() {
        let to = to.clone();
        road::later(core, "network fault", core.now() + after, move || {
            id.with(|core| road::strike_one(core, &to, number, kind));
        });
    }
}

/// Opens a connection. Takes two latencies.
async fn connect(id: Id, to: &Endpoint, refused: bool) -> Result<Connected, SendError> {
    let opening = id.with(|core| core.roads.borrow_mut().opening(to, core.now()));
    let (wait, failure) = match opening {
        Opening::Open(wait) if refused => (wait, Some(Kind::Refused)),
        Opening::Open(wait) => (wait, None),
        Opening::Refused(wait) => (wait, Some(Kind::Refused)),
        Opening::Silent(wait) => (wait, Some(Kind::ConnectTimeout)),
    };
    if !wait.is_zero() {
        let rt = Rt::sim(id);
        rt.sleep_until_in(Class::Transport, rt.now() + wait).await;
    }
    match failure {
        Some(kind) => Err(SendError::new(kind)),
        None => id.with(|core| open(core, to)).ok_or_else(SendError::refused),
    }
}

/// Opens a connection, with a task at each end. `None` when nobody listens.
fn open(core: &Core, to: &Endpoint) -> Option<Connected> {
    let id = core.id();
    let service = core.services.borrow().get(to)?;
    let (number, near, far) = core.roads.borrow_mut().open(id, to, core.now());
    daemon(core, "server connection", serve(id, far, service));
    // It is ready at once: an HTTP/1 handshake exchanges nothing.
    let (sender, connection) = client::Builder::new().handshake(near).now_or_never()?.ok()?;
    daemon(core, "client connection", connection.map(drop));
    Some(Connected { sender, number })
}

/// Serves one connection as production's server does.
fn serve(id: Id, io: crate::Pipe, service: Service) -> impl Future<Output = ()> {
    let service = service_fn(move |request: Request<Incoming>| service(request.map(Received::request)));
    server::Builder::new()
        .timer(Timer::new(&Rt::sim(id)))
        .header_read_timeout(HEADER_TIMEOUT)
        // The date would be the machine's.
        .auto_date_header(false)
        .serve_connection(io, service)
        // How it ended the client sees.
        .map(drop)
}

fn daemon(core: &Core, name: &'static str, future: impl Future<Output = ()> + 'static) {
    let how = Spawn { name, place: Location::caller(), class: Class::Transport, daemon: true };
    let word = core.spawn(how, future);
    // hyper's halves of a connection wake each other.
    core.allow_third_party(word);
    core.detach(word);
}
