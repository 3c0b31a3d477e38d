//! Requests that hosted code sends: sockets are tokio's, answers are inputs.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use prost::Message;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::port::{AnyPort, Port};
use super::queue::Queue;
use crate::http::{Body, Endpoint, Kind, SendError};
use crate::real::Client;
use crate::rt::Host;
use crate::sim;
use crate::sync::oneshot;

/// Most bytes of an answer's body: it is held whole.
const LIMIT: usize = 64 << 20;

/// Port of answers.
const PORT: u32 = 0;

type Answer = Result<Response<Body>, SendError>;

/// The exchanges of a run that are under way.
pub(crate) struct Exchanges {
    /// `None` in a replay: nothing is sent.
    outside: Option<Outside>,
    next: u64,
    open: BTreeMap<u64, Exchange>,
}

struct Outside {
    tokio: Handle,
    client: Arc<Client>,
    queue: Arc<Queue>,
}

struct Exchange {
    to: Endpoint,
    answer: oneshot::Sender<Answer>,
    task: Option<AbortHandle>,
}

impl Exchanges {
    /// Returns exchanges over the sockets of `tokio`, whose answers come to `queue`.
    pub(super) fn over(tokio: Handle, connect_timeout: Duration, queue: &Arc<Queue>) -> Self {
        let client = {
            let _entered = tokio.enter();
            Arc::new(Client::new(connect_timeout))
        };
        let outside = Outside { tokio, client, queue: Arc::clone(queue) };
        Exchanges { outside: Some(outside), next: 0, open: BTreeMap::new() }
    }

    /// Returns exchanges whose answers are in a journal.
    pub(super) fn replayed() -> Self {
        Exchanges { outside: None, next: 0, open: BTreeMap::new() }
    }

    pub(super) fn port(this: &Rc<RefCell<Self>>) -> Rc<dyn AnyPort> {
        Rc::new(RefCell::new(Answers(Rc::clone(this))))
    }

    /// Begins an exchange of the run `id`.
    pub(crate) fn send(
        &mut self,
        id: sim::Id,
        to: Endpoint,
        request: Request<Body>,
        place: &'static Location<'static>,
    ) -> Sent {
        let (answer, received) = oneshot::channel(Host::Sim(id), place);
        let number = self.next;
        self.next += 1;
        let task = self.outside.as_ref().map(|outside| outside.start(number, to.clone(), request));
        self.open.insert(number, Exchange { to: to.clone(), answer, task });
        Sent { id, number, to, received }
    }

    /// Takes an exchange out.
    fn close(&mut self, number: u64) -> Option<Exchange> {
        self.open.remove(&number)
    }
}

impl Outside {
    fn start(&self, number: u64, to: Endpoint, request: Request<Body>) -> AbortHandle {
        let (client, queue) = (Arc::clone(&self.client), Arc::clone(&self.queue));
        let exchange = async move {
            let arrived = match whole(client.send(&to, request).await).await {
                Ok((head, body)) => Arrived::answer(number, &head, body),
                Err(error) => Arrived::failure(number, &error),
            };
            // A run that is over does not wait for it.
            drop(queue.push(PORT, arrived));
        };
        self.tokio.spawn(exchange).abort_handle()
    }
}

async fn whole(answer: Answer) -> Result<(http::response::Parts, Bytes), SendError> {
    let (head, body) = answer?.into_parts();
    Ok((head, body.bytes(LIMIT).await?))
}

/// An exchange that hosted code awaits. Dropped before its answer it is aborted.
pub(crate) struct Sent {
    id: sim::Id,
    number: u64,
    to: Endpoint,
    received: oneshot::Receiver<Answer>,
}

impl Sent {
    pub(crate) async fn answer(mut self) -> Answer {
        // Without an answer the run is over.
        (&mut self.received).await.unwrap_or_else(|_| Err(SendError::closed().at(&self.to)))
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let exchanges = self.id.find(|core| core.world().map(|world| Rc::clone(world.exchanges())));
        let closed = exchanges.flatten().and_then(|exchanges| exchanges.borrow_mut().close(self.number));
        if let Some(Exchange { task: Some(task), .. }) = closed {
            task.abort();
        }
    }
}

/// The port of answers.
struct Answers(Rc<RefCell<Exchanges>>);

impl Port for Answers {
    type Input = Arrived;

    fn record(&mut self, input: &mut Arrived, out: &mut Vec<u8>) {
        input.encode(out).expect("a vector grows");
    }

    fn replay(&mut self, recorded: &[u8]) -> Result<Arrived, String> {
        Arrived::decode(recorded).map_err(|error| format!("an answer cannot be read: {error}"))
    }

    fn take(&mut self, arrived: Arrived) {
        let exchange = self.0.borrow_mut().close(arrived.number);
        // Whoever asked may have gone meanwhile.
        if let Some(Exchange { to, answer, .. }) = exchange {
            drop(answer.send(arrived.into_answer(&to)));
        }
    }
}

/// An answer as it is journalled: hosted code gets nothing else of it.
#[derive(Clone, PartialEq, Message)]
struct Arrived {
    /// Number of the exchange, from 0.
    #[prost(uint64, tag = "1")]
    number: u64,
    /// Status; zero for a failure.
    #[prost(uint32, tag = "2")]
    status: u32,
    #[prost(message, repeated, tag = "3")]
    headers: Vec<Header>,
    #[prost(bytes = "bytes", tag = "4")]
    body: Bytes,
    /// Of a failure: its kind.
    #[prost(uint32, tag = "5")]
    kind: u32,
    /// Of a failure: its cause.
    #[prost(string, tag = "6")]
    cause: String,
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// The kinds of failures, in the order of their numbers in a journal.
const KINDS: [Kind; 7] = [
    Kind::Closed,
    Kind::Refused,
    Kind::Reset,
    Kind::ConnectTimeout,
    Kind::Connect,
    Kind::Protocol,
    Kind::Body,
];

impl Arrived {
    fn answer(number: u64, head: &http::response::Parts, body: Bytes) -> Self {
        let header = |(name, value): (&HeaderName, &HeaderValue)| Header {
            name: name.to_string(),
            value: Bytes::copy_from_slice(value.as_bytes()),
        };
        let headers = head.headers.iter().map(header).collect();
        Arrived { number, status: head.status.as_u16().into(), headers, body, ..Arrived::default() }
    }

    fn failure(number: u64, error: &SendError) -> Self {
        let kind = KINDS.iter().position(|kind| *kind == error.kind()).unwrap_or(0) as u32;
        let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        Arrived { number, kind, cause, ..Arrived::default() }
    }

    fn into_answer(self, from: &Endpoint) -> Answer {
        let status = u16::try_from(self.status).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let Some(status) = status else {
            let kind = KINDS.get(self.kind as usize).copied().unwrap_or(Kind::Closed);
            let error = SendError::new(kind).at(from);
            return Err(if self.cause.is_empty() { error } else { error.because(self.cause) });
        };
        let mut headers = HeaderMap::with_capacity(self.headers.len());
        for Header { name, value } in self.headers {
            if let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::from_maybe_shared(value))
            {
                headers.append(name, value);
            }
        }
        let mut response = Response::new(Body::Full(self.body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }
}
