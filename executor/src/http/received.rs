//! Bodies that come over hyper's connections, and hyper's errors as ours: alike on both hosts.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::{Body, Endpoint, Kind, SendError};

/// A body that comes over a connection. Dropped before its end it closes the connection.
pub(crate) struct Received {
    body: Incoming,
    /// The endpoint that answers; `None` for a request's body.
    from: Option<Endpoint>,
}

impl Received {
    pub(crate) fn new(body: Incoming, from: Option<Endpoint>) -> Self {
        Received { body, from }
    }

    /// Returns the body of a request that came to a server.
    pub(crate) fn request(body: Incoming) -> Body {
        Received::new(body, None).into_body()
    }

    /// Returns the body of the response that `from` sent.
    pub(crate) fn response(body: Incoming, from: &Endpoint) -> Body {
        Received::new(body, Some(from.clone())).into_body()
    }

    fn into_body(self) -> Body {
        if self.is_end_stream() { Body::Empty } else { Body::stream(self) }
    }
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

/// Finds the kind in the chain of causes: the innermost error that says something decides.
pub(crate) fn classify(error: impl Error + Send + Sync + 'static, otherwise: Kind) -> SendError {
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
