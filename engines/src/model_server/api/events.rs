//! Answers that are streams of server-sent events (model-server spec 1.3).

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use executor::http::{Body, SendError};
use http::{Response, StatusCode};
use http_body::Frame;
use serde::Serialize;

use super::Ticket;
use super::choices::{Choices, Counts, Delta};
use super::reply;

/// How an endpoint writes its events.
pub(super) trait Events: Send + Unpin {
    /// Writes what a choice gained.
    fn delta(&mut self, delta: &Delta, choices: &Choices, out: &mut Outbox);

    /// Writes what follows the last content event.
    fn end(&mut self, counts: Counts, out: &mut Outbox);
}

/// Events that wait to be sent, each a chunk of its own.
#[derive(Debug, Default)]
pub(super) struct Outbox(VecDeque<Bytes>);

impl Outbox {
    /// Adds an event.
    pub(super) fn event(&mut self, event: &impl Serialize) {
        self.data(&reply::to_json(event));
    }

    fn data(&mut self, data: &[u8]) {
        self.0.push_back([b"data: ", data, b"\n\n"].concat().into());
    }
}

/// The body of a stream. Dropping it aborts what is not generated yet.
struct EventStream<E> {
    events: E,
    /// `None` once the stream needs no more of them.
    choices: Option<Choices>,
    outbox: Outbox,
    _ticket: Ticket,
}

/// Returns the answer that streams `choices`.
pub(super) fn stream<E: Events + 'static>(events: E, choices: Choices, ticket: Ticket) -> Response<Body> {
    let outbox = Outbox::default();
    let body = Body::stream(EventStream { events, choices: Some(choices), outbox, _ticket: ticket });
    reply::with(StatusCode::OK, "text/event-stream; charset=utf-8", body)
}

impl<E: Events> EventStream<E> {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(event) = self.outbox.0.pop_front() {
                return Poll::Ready(Some(event));
            }
            let Some(choices) = &mut self.choices else { return Poll::Ready(None) };
            match choices.poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(delta))) => {
                    self.events.delta(&delta, choices, &mut self.outbox);
                    if !choices.ended() {
                        continue;
                    }
                    self.events.end(choices.counts(), &mut self.outbox);
                }
                Poll::Ready(Some(Err(error))) => self.outbox.data(&error.json(choices.release())),
                Poll::Ready(None) => {}
            }
            self.outbox.data(b"[DONE]");
            self.choices = None;
        }
    }
}

impl<E: Events> http_body::Body for EventStream<E> {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        self.get_mut().poll_event(cx).map(|event| event.map(|event| Ok(Frame::data(event))))
    }

    fn is_end_stream(&self) -> bool {
        self.choices.is_none() && self.outbox.0.is_empty()
    }
}
