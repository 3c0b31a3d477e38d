//! The short way for a client in the same process: a request for so many tokens behind a prompt, without JSON.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use executor::http::{Body, SendError};
use executor::{Instant, Rt};
use http::{Response, StatusCode};
use http_body::Frame;

use super::error::ApiError;
use super::release::Release;
use super::reply;
use crate::engine::Token;
use crate::model_server::generation::{EngineHandle, Event, Generate, Generation, Sampler, Tokens};

/// A call for tokens, an extension of its request as `Arc<InProcessCall>`.
///
/// The answer is a stream of two frames, for the router between: an event with the first token's text; then, with
/// the last token, one that has the counts, and `[DONE]`. The client reads [`InProcessCall::receipt`].
#[derive(Debug)]
pub struct InProcessCall {
    prompt: Arc<[Token]>,
    output_tokens: u32,
    receipt: Mutex<Option<Receipt>>,
}

/// What a call's client learns of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Token counts.
    pub tokens: Tokens,
    /// When the server sent the first token.
    pub first_token: Instant,
    /// When it sent the last.
    pub end: Instant,
}

impl InProcessCall {
    /// Returns a call for exactly `output_tokens` tokens behind `prompt`.
    #[must_use]
    pub fn new(prompt: Arc<[Token]>, output_tokens: u32) -> Self {
        Self { prompt, output_tokens, receipt: Mutex::new(None) }
    }

    /// Returns the receipt, which is there before the last frame of the answer.
    pub fn receipt(&self) -> Option<Receipt> {
        *self.receipt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const FIRST: &[u8] = b"data: {\"choices\":[{\"index\":0,\"text\":\"a\",\"finish_reason\":null}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

struct Answer {
    rt: Rt,
    call: Arc<InProcessCall>,
    /// `None` behind the end.
    generation: Option<Generation>,
    first_token: Option<Instant>,
    /// The last frame, where the first token was the last.
    last: Option<Bytes>,
}

/// Answers a call.
pub(super) fn answer(engine: &EngineHandle, call: Arc<InProcessCall>) -> Response<Body> {
    let generate = Generate::exactly(Arc::clone(&call.prompt), call.output_tokens, Sampler::Constant(0));
    let generation = Some(engine.generate(&generate));
    let rt = engine.rt().clone();
    let body = Body::stream(Answer { rt, call, generation, first_token: None, last: None });
    reply::with(StatusCode::OK, "text/event-stream; charset=utf-8", body)
}

impl Answer {
    fn last(&mut self, tokens: Tokens, end: Instant) -> Bytes {
        self.generation = None;
        let receipt = Receipt { tokens, first_token: self.first_token.unwrap_or(end), end };
        *self.call.receipt.lock().unwrap_or_else(PoisonError::into_inner) = Some(receipt);
        let Tokens { prompt, cached, output } = tokens;
        let total = u64::from(prompt) + u64::from(output);
        let mut event = String::with_capacity(192);
        // Writing to a String cannot fail.
        let _ = write!(
            event,
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\
             \"completion_tokens\":{output},\"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}}}\n\n{DONE}"
        );
        event.into()
    }

    fn failed(&mut self, error: &ApiError) -> Bytes {
        self.generation = None;
        [b"data: ", &*error.json(Release::V21), b"\n\n", DONE.as_bytes()].concat().into()
    }

    fn frame(&mut self, event: Option<Event>) -> Bytes {
        let now = self.rt.now();
        match event {
            Some(Event::Token { .. }) => {
                self.first_token = Some(now);
                Bytes::from_static(FIRST)
            }
            Some(Event::Finished { tokens, .. }) if self.first_token.is_none() => {
                self.last = Some(self.last(tokens, now));
                Bytes::from_static(FIRST)
            }
            Some(Event::Finished { tokens, .. } | Event::Aborted(tokens)) => self.last(tokens, now),
            Some(Event::Refused(error)) => self.failed(&ApiError::raised(error.to_string())),
            None => self.failed(&ApiError::internal()),
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let this = self.get_mut();
        if let Some(last) = this.last.take() {
            return Poll::Ready(Some(Ok(Frame::data(last))));
        }
        let Some(generation) = &mut this.generation else { return Poll::Ready(None) };
        generation.poll_next(cx).map(|event| Some(Ok(Frame::data(this.frame(event)))))
    }

    fn is_end_stream(&self) -> bool {
        self.generation.is_none() && self.last.is_none()
    }
}
