//! The body of a response that comes over a connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;

use super::pool::{self, Connected};
use crate::http::{Body, Endpoint, Received, SendError};
use crate::sim::core::{Core, Id};
use crate::sim::waker;

/// Returns the response's body; at its end `connection` is free for the next exchange.
pub(super) fn body(id: Id, from: Endpoint, connection: Connected, incoming: Incoming) -> Body {
    let body = Received::new(incoming, Some(from.clone()));
    let mut exchange = Exchange { id, from, body, connection: Some(connection) };
    if http_body::Body::is_end_stream(&exchange.body) {
        exchange.end();
        return Body::Empty;
    }
    Body::stream(exchange)
}

/// A body under way. Dropped before its end it closes the connection.
struct Exchange {
    id: Id,
    from: Endpoint,
    body: Received,
    connection: Option<Connected>,
}

impl Exchange {
    fn end(&mut self) {
        if let Some(connection) = self.connection.take() {
            waker::with(self.id, |core| pool::give_back(core, &self.from, connection));
        }
    }
}

impl http_body::Body for Exchange {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        waker::with(self.id, Core::polls_third_party);
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        match &frame {
            Poll::Ready(None) => self.end(),
            Poll::Ready(Some(Ok(_))) if self.body.is_end_stream() => self.end(),
            Poll::Ready(Some(Err(_))) => self.connection = None,
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
