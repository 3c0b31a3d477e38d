use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{Request, Response, Version};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::http::{Body, Endpoint, Kind, SendError};

/// How long an idle connection is kept. Below the 75 s after which common servers close it themselves.
const IDLE: Duration = Duration::from_secs(60);

/// The pooled HTTP/1.1 client.
pub(crate) struct Client(legacy::Client<HttpConnector, Body>);

impl Client {
    pub(crate) fn new(connect_timeout: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(connect_timeout));
        Client(
            legacy::Client::builder(TokioExecutor::new())
                .timer(TokioTimer::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE)
                .build(connector),
        )
    }

    pub(crate) async fn send(
        &self,
        to: &Endpoint,
        request: Request<Body>,
    ) -> Result<Response<Body>, SendError> {
        let (mut head, body) = request.into_parts();
        head.uri = target(to, head.uri).map_err(|error| SendError::protocol(error).at(to))?;
        head.version = Version::HTTP_11;
        match self.0.request(Request::from_parts(head, body)).await {
            Ok(response) => {
                let (head, body) = response.into_parts();
                Ok(Response::from_parts(head, received(body, to)))
            }
            Err(error) => Err(client_error(error).at(to)),
        }
    }
}

fn target(to: &Endpoint, uri: Uri) -> Result<Uri, http::Error> {
    let authority = Authority::try_from(to.to_string())?;
    let path = uri.into_parts().path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
    Uri::builder().scheme(Scheme::HTTP).authority(authority).path_and_query(path).build()
}

fn received(body: Incoming, from: &Endpoint) -> Body {
    match http_body::Body::is_end_stream(&body) {
        true => Body::Empty,
        false => Body::stream(Received { body, from: Some(from.clone()) }),
    }
}

/// The body of a request that came to a [`Server`](super::Server).
pub(super) fn arrived(body: Incoming) -> Body {
    match http_body::Body::is_end_stream(&body) {
        true => Body::Empty,
        false => Body::stream(Received { body, from: None }),
    }
}

/// A body that comes over a connection. Dropped before its end it closes the connection.
struct Received {
    body: Incoming,
    /// The endpoint that answers; `None` for a request's body.
    from: Option<Endpoint>,
}

impl http_body::Body for Received {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        frame.map_err(|error| {
            let error = classify(error, Kind::Closed);
            match &self.from {
                Some(from) => error.at(from),
                None => error,
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn client_error(error: legacy::Error) -> SendError {
    let otherwise = if error.is_connect() { Kind::Connect } else { Kind::Closed };
    classify(error, otherwise)
}

/// Finds the kind in the chain of causes: the innermost error that says something decides.
fn classify(error: impl Error + Send + Sync + 'static, otherwise: Kind) -> SendError {
    let connecting = otherwise == Kind::Connect;
    let mut kind = otherwise;
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if error.is::<SendError>() {
            kind = Kind::Body;
        } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
            if error.is_parse() {
                kind = Kind::Protocol;
            }
        } else if let Some(error) = error.downcast_ref::<io::Error>() {
            kind = match error.kind() {
                io::ErrorKind::ConnectionRefused => Kind::Refused,
                io::ErrorKind::TimedOut if connecting => Kind::ConnectTimeout,
                io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Kind::Reset,
                _ => kind,
            };
        }
        cause = error.source();
    }
    SendError::new(kind).because(error)
}
