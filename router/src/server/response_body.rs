//! A response's body on its way to the client: passed on as it comes, read for its usage.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use executor::http::{Body, SendError};
use executor::sync::oneshot;
use http_body::{Frame, SizeHint};

use super::core::{Renamed, Ticket};
use crate::director::ModelRename;
use crate::headers::Headers;
use crate::request::Parser;
use crate::request_control::Usage;

/// Most bytes that are kept of a response to read its usage: of a JSON body all of it, of a stream the line
/// that has not ended. What is longer passes all the same; its usage is not known.
const KEPT: usize = 16 << 20;

/// Returns `body`, followed: its chunks pass unchanged but for the model's name, and `ticket` is told of the
/// first chunk, of those between where `every_chunk`, and of the end.
pub(super) fn follow(
    body: Body,
    headers: Headers,
    parser: Option<Arc<dyn Parser>>,
    renamed: Option<Renamed>,
    ticket: Ticket,
    evicted: Option<oneshot::Receiver<()>>,
    every_chunk: bool,
) -> Body {
    let content_type = headers.get("content-type").unwrap_or_default();
    let streaming = content_type.to_ascii_lowercase().contains("text/event-stream");
    let usage =
        UsageReader { headers, parser, streaming, kept: BytesMut::new(), overflown: false, latest: None };
    let rename = renamed.map(|names| ModelRename::new(&names.incoming, &names.target));
    let followed = Followed { body, usage, rename, ticket: Some(ticket), evicted, every_chunk, begun: false };
    Body::stream(followed)
}

struct Followed {
    body: Body,
    usage: UsageReader,
    rename: Option<ModelRename>,
    /// `None` behind the end. Dropped before it, it tells that the response broke off.
    ticket: Option<Ticket>,
    /// Told when the response is to break off.
    evicted: Option<oneshot::Receiver<()>>,
    every_chunk: bool,
    begun: bool,
}

impl Followed {
    fn chunk(&mut self, chunk: &Bytes) {
        self.usage.chunk(chunk);
        if let Some(ticket) = &self.ticket
            && self.usage.streaming
            && (self.every_chunk || !std::mem::replace(&mut self.begun, true))
        {
            ticket.chunk(self.usage.latest);
        }
    }

    fn end(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.end(self.usage.end());
        }
    }
}

impl http_body::Body for Followed {
    type Data = Bytes;
    type Error = SendError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SendError>>> {
        let this = &mut *self;
        if let Some(evicted) = &mut this.evicted
            && let Poll::Ready(told) = Pin::new(evicted).poll(cx)
        {
            this.evicted = None;
            if told.is_ok() && this.ticket.take().is_some() {
                // Dropped unread, the model server's response is closed, and the model server stops.
                this.body = Body::Empty;
                let why = "the request was evicted by flow control";
                return Poll::Ready(Some(Err(SendError::body(why))));
            }
        }
        match std::task::ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                let frame = match frame.into_data() {
                    Ok(chunk) => {
                        this.chunk(&chunk);
                        Frame::data(this.rename.as_ref().map_or_else(|| chunk.clone(), |r| r.apply(&chunk)))
                    }
                    Err(trailers) => trailers,
                };
                // Whoever knows that nothing follows does not ask again.
                if this.body.is_end_stream() {
                    this.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => {
                drop(this.ticket.take());
                Poll::Ready(Some(Err(error)))
            }
            None => {
                this.end();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // An empty body ends when it is polled, so that its end is told.
        self.ticket.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        if self.rename.is_some() { SizeHint::default() } else { self.body.size_hint() }
    }
}

/// Reads the usage that a response reports.
struct UsageReader {
    headers: Headers,
    parser: Option<Arc<dyn Parser>>,
    streaming: bool,
    kept: BytesMut,
    overflown: bool,
    latest: Option<Usage>,
}

impl UsageReader {
    fn chunk(&mut self, chunk: &Bytes) {
        if self.parser.is_none() || self.overflown {
            return;
        }
        if !self.streaming {
            return self.keep(chunk);
        }
        // Lines that have ended are read; the rest waits for the next chunk.
        let Some(end) = memchr::memrchr(b'\n', chunk).map(|newline| newline + 1) else {
            return self.keep(chunk);
        };
        if self.kept.is_empty() {
            self.read(&chunk[..end]);
        } else {
            self.keep(&chunk[..end]);
            let lines = self.kept.split();
            self.read(&lines);
        }
        self.keep(&chunk[end..]);
    }

    fn end(&mut self) -> Option<Usage> {
        let rest = self.kept.split();
        if !rest.is_empty() {
            self.read(&rest);
        }
        self.latest
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.kept.len() + bytes.len() > KEPT {
            tracing::warn!(limit = KEPT, "a response is too long to read its usage");
            self.overflown = true;
            self.kept = BytesMut::new();
        } else {
            self.kept.extend_from_slice(bytes);
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        let Some(parser) = &self.parser else { return };
        match parser.parse_response(&self.headers, bytes) {
            Ok(Some(usage)) => self.latest = Some(usage),
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "the usage of a response could not be read"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::{AnthropicParser, OpenAiParser};

    fn reader(content_type: &str) -> UsageReader {
        UsageReader {
            streaming: content_type.contains("event-stream"),
            headers: [("content-type", content_type)].into_iter().collect(),
            parser: Some(Arc::new(OpenAiParser)),
            kept: BytesMut::new(),
            overflown: false,
            latest: None,
        }
    }

    #[test]
    fn usage_is_read_wherever_the_stream_is_cut() {
        let stream = b"data: {\"choices\":[{\"text\":\"a\"}]}\n\n: a comment\r\n\
            data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5,\"total_tokens\":8}}\n\ndata: [DONE]\n\n";
        for cut in 0..stream.len() {
            let mut reader = reader("text/event-stream; charset=utf-8");
            reader.chunk(&Bytes::copy_from_slice(&stream[..cut]));
            reader.chunk(&Bytes::copy_from_slice(&stream[cut..]));
            let usage = reader.end().unwrap_or_else(|| panic!("cut at {cut}"));
            assert_eq!((usage.prompt_tokens, usage.completion_tokens), (3, 5), "cut at {cut}");
        }
    }

    /// Lines of a stream, each without its end; what they say of usage, where they say anything.
    fn lines() -> impl Strategy<Value = (String, Option<(i64, i64)>)> {
        prop_oneof![
            Just(("data: {\"choices\":[{\"text\":\"a\"}]}".to_owned(), None)),
            Just(("data: [DONE]".to_owned(), None)),
            Just((": usage of a comment".to_owned(), None)),
            Just(("event: usage".to_owned(), None)),
            Just((String::new(), None)),
            // Wrong types, a wrong prefix and what is no JSON say nothing.
            Just(("data: {\"usage\":7}".to_owned(), None)),
            Just(("data: {\"usage\":{\"prompt_tokens\":\"3\"}}".to_owned(), None)),
            Just(("data: {\"usage\":{\"prompt_tokens\":1.5}}".to_owned(), None)),
            Just(("data: {\"usage\"".to_owned(), None)),
            Just(("data:{\"usage\":{\"prompt_tokens\":9}}".to_owned(), None)),
            Just(("data: {\"usage\":null}".to_owned(), None)),
            (0i64..1000, 0i64..1000).prop_map(|(prompt, completion)| {
                let usage = format!(
                    "data: {{\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion}}}}}"
                );
                (usage, Some((prompt, completion)))
            }),
        ]
    }

    proptest! {
        /// A stream that reports its usage in one line, wherever it is cut, however its lines end, whatever else it says.
        #[test]
        fn a_stream_says_its_usage_once_and_is_understood(
            before in proptest::collection::vec(lines().prop_filter("no usage", |line| line.1.is_none()), 0..6),
            usage in lines().prop_filter("usage", |line| line.1.is_some()),
            ends in proptest::collection::vec(prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n")], 7),
            cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..8),
        ) {
            let mut stream = String::new();
            for ((line, _), end) in before.iter().chain([&usage]).zip(&ends) {
                stream.push_str(line);
                stream.push_str(end);
            }
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            places.extend([0, stream.len()]);
            places.sort_unstable();
            let mut reader = reader("text/event-stream");
            for part in places.windows(2) {
                reader.chunk(&Bytes::copy_from_slice(&stream.as_bytes()[part[0]..part[1]]));
            }
            let found = reader.end().map(|usage| (usage.prompt_tokens, usage.completion_tokens));
            prop_assert_eq!(found, usage.1, "{:?} cut at {:?}", stream, places);
        }

        #[test]
        fn any_stream_is_read(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..6),
            anthropic in any::<bool>(),
        ) {
            let mut reader = reader("text/event-stream");
            if anthropic {
                reader.parser = Some(Arc::new(AnthropicParser));
            }
            for part in parts {
                reader.chunk(&Bytes::from(part));
            }
            reader.end();
        }
    }

    #[test]
    fn a_json_body_is_read_whole() {
        let mut reader = reader("application/json");
        for part in [&b"{\"usage\":{\"prompt_tok"[..], b"ens\":7}}"] {
            reader.chunk(&Bytes::copy_from_slice(part));
        }
        assert_eq!(reader.end().map(|usage| usage.prompt_tokens), Some(7));
    }

    #[test]
    fn a_body_that_is_too_long_passes_without_usage() {
        let mut reader = reader("application/json");
        let chunk = Bytes::from(vec![b'x'; KEPT / 2 + 1]);
        reader.chunk(&chunk);
        reader.chunk(&chunk);
        assert!(reader.overflown && reader.kept.capacity() < KEPT);
        assert_eq!(reader.end(), None);
    }
}
