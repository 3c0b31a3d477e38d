use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value};

use super::message::{Answer, Answers, Event, Field, Message, Outgoing};
use crate::director::headers::{DESTINATION, DESTINATION_SCORES, DROPPED_REASON, is_system_owned};
use crate::director::{Director, ForwardedBody, ModelRename, RequestInput, ResponseTracker, Routed};
use crate::error::{ErrorCode, InferenceError, PluginError};
use crate::flow_control::eviction::{EVICTED, Signal};
use crate::headers::Headers;
use crate::request::{ParseError, Parser, ParserRegistry};
use crate::request_control::{Metadata, Usage};

/// The longest piece of a body in one message. Unit: bytes.
const CHUNK: usize = 62_000;

/// Namespace of the metadata that names the chosen endpoint.
const DESTINATION_NAMESPACE: &str = "envoy.lb";

/// What an evicted client is told: too many requests.
const EVICTED_STATUS: u16 = 429;

/// Set on every response that was seen.
const SEEN: &str = "x-went-into-resp-headers";

/// One stream: one request and its response.
///
/// Dropped early (the client or the proxy went away), it gives back what the request held.
#[derive(Debug)]
pub struct Exchange {
    director: Rc<Director>,
    parsers: ParserRegistry,
    /// Most bytes of a request's or a buffered response's body.
    body_limit: usize,
    headers: Headers,
    request_body: BytesMut,
    /// Whether the client asked for a stream, or the model server answers with one.
    streaming: bool,
    /// `None` before the decision and behind the end of the response.
    tracker: Option<ResponseTracker>,
    /// Fires when the stream is to break off; `None` where it cannot be evicted.
    eviction: Option<Signal>,
    rename: Option<ModelRename>,
    parser: Option<Arc<dyn Parser>>,
    response_headers: Headers,
    response_body: BytesMut,
    /// Answers to a body that came before its head; `None` once the head has come.
    before_head: Option<Vec<Outgoing>>,
    /// Whether the response's last chunk has come: nothing follows it.
    complete: bool,
}

/// A stream that cannot go on: it ends with a gRPC error of the code `Unknown`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to handle request: {0}")]
pub struct Failed(pub String);

impl Exchange {
    /// Returns a stream before its first message. Bodies are held up to `body_limit` bytes.
    pub fn new(director: Rc<Director>, parsers: ParserRegistry, body_limit: usize) -> Self {
        Exchange {
            director,
            parsers,
            body_limit,
            headers: Headers::new(),
            request_body: BytesMut::new(),
            streaming: false,
            tracker: None,
            eviction: None,
            rename: None,
            parser: None,
            response_headers: Headers::new(),
            response_body: BytesMut::new(),
            before_head: Some(Vec::new()),
            complete: false,
        }
    }

    /// Takes a message and returns what it is answered with.
    ///
    /// # Errors
    /// A failure without a status for the client.
    ///
    /// # Cancel safety
    /// Dropping the future is a client that went away; the stream is over then.
    pub async fn take(&mut self, message: Message) -> Result<Answers, Failed> {
        match message.event {
            Event::RequestHeaders { headers, end_of_stream: false } => {
                self.headers = headers.iter().map(|field| (field.key.to_lowercase(), field.text())).collect();
                Ok(Answers::default())
            }
            Event::RequestHeaders { headers, end_of_stream: true } => self.bodyless(&headers),
            Event::RequestBody { chunk, end_of_stream } => {
                if self.request_body.len() + chunk.len() > self.body_limit {
                    let message = format!("the request body is longer than {} bytes", self.body_limit);
                    return immediate(&InferenceError::new(ErrorCode::BadRequest, message));
                }
                self.request_body.extend_from_slice(&chunk);
                if !end_of_stream {
                    return Ok(Answers::default());
                }
                match self.route(message.metadata).await {
                    Ok(answers) => Ok(answers),
                    Err(PluginError::Inference(error)) => immediate(&error),
                    Err(error) => Err(Failed(error.to_string())),
                }
            }
            Event::RequestTrailers => Ok(Answers::default()),
            Event::ResponseHeaders { headers } => {
                let mut answers = self.response_head(&headers, message.metadata);
                answers.outgoing.extend(self.before_head.take().into_iter().flatten());
                Ok(answers)
            }
            Event::ResponseBody { .. } if self.complete => Ok(Answers::default()),
            Event::ResponseBody { chunk, end_of_stream } => {
                self.complete = end_of_stream;
                let mut answers = self.response_chunk(chunk, end_of_stream);
                if let Some(held) = &mut self.before_head {
                    held.append(&mut answers.outgoing);
                }
                Ok(answers)
            }
            Event::ResponseTrailers => {
                if let Some(tracker) = self.tracker.take() {
                    tracker.end(None);
                }
                Ok(Answers::one(Answer::ResponseTrailers))
            }
        }
    }

    /// Answers the head of a request that has no body: any endpoint will do, and no header is set anew.
    fn bodyless(&mut self, headers: &[Field]) -> Result<Answers, Failed> {
        let mut kept = Headers::new();
        // An id that is there needs not be set, one that is made must be.
        let named = headers.iter().rfind(|field| field.key.eq_ignore_ascii_case("x-request-id"));
        let id = named.map(Field::text).filter(|id| !id.is_empty());
        if let Some(id) = &id {
            kept.insert("x-request-id", id.as_str());
        }
        let (destination, tracker) = match self.director.handle_bodyless(&mut kept) {
            Ok(picked) => picked,
            Err(PluginError::Inference(error)) => return immediate(&error),
            Err(error) => return Err(Failed(error.to_string())),
        };
        self.tracker = Some(tracker);
        let mut set = vec![(DESTINATION.to_owned(), destination.clone())];
        if id.is_none() {
            set.extend(kept.iter().map(|(name, value)| (name.to_owned(), value.to_owned())));
        }
        let dynamic_metadata = destination_metadata(&destination, None);
        Ok(Answers::one(Outgoing { answer: Answer::RequestHeaders(set), dynamic_metadata }))
    }

    /// Decides where the request goes, now that its body is whole.
    async fn route(&mut self, metadata: Metadata) -> Result<Answers, PluginError> {
        let body = self.request_body.split().freeze();
        let size_bytes = body.len();
        let headers = std::mem::take(&mut self.headers);
        let (body, parser) = self.parsers.parse(&headers, body).map_err(bad_request)?;
        self.parser = Some(Arc::clone(parser));
        let input = RequestInput { headers, body, size_bytes, metadata, received: None };
        let routed = self.director.handle_request(input).await.map_err(|refused| refused.error)?;
        self.streaming = routed.stream;
        let answers = answers(&routed);
        let Routed { skip_response_processing, incoming_model, response, eviction, .. } = routed;
        if skip_response_processing {
            // Dropped, the tracker gives back what the request holds at once.
            return Ok(Answers { closes: true, ..answers });
        }
        let request = response.request();
        let target = request.map(|request| request.target_model.as_str()).unwrap_or_default();
        if !target.is_empty() && !incoming_model.is_empty() && target != incoming_model {
            self.rename = Some(ModelRename::new(&incoming_model, target));
        }
        self.tracker = Some(response);
        self.eviction = eviction;
        Ok(answers)
    }

    /// Returns what fires when the stream is to break off, once the request is routed; then [`evict`](Self::evict) is to
    /// be called.
    pub fn eviction(&self) -> Option<&Signal> {
        self.eviction.as_ref()
    }

    /// Breaks the stream off for another request, unless its response is complete (flow-control spec 13.3).
    pub fn evict(&mut self) -> Option<Answers> {
        drop(self.tracker.take()?);
        let headers = vec![(DROPPED_REASON.to_owned(), EVICTED.to_owned())];
        let body = "request evicted by flow control".to_owned();
        let answer = Answer::Immediate { status: EVICTED_STATUS, headers, body };
        Some(Answers { closes: true, ..Answers::one(answer) })
    }

    fn response_head(&mut self, headers: &[Field], metadata: Metadata) -> Answers {
        let streams = |field: &Field| {
            field.key == "content-type"
                && memchr::memmem::find(&field.raw_value, b"text/event-stream").is_some()
        };
        self.streaming |= headers.iter().any(streams);
        let mut seen = Headers::new();
        for field in headers {
            seen.insert_as_sent(&field.key, field.text());
        }
        let seen = match &mut self.tracker {
            Some(tracker) => tracker.head(seen, metadata).clone(),
            None => seen,
        };
        let for_client = seen.iter().filter(|(name, _)| !is_system_owned(name));
        let mut set: Vec<_> = for_client.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        set.push((SEEN.to_owned(), "true".to_owned()));
        self.response_headers = seen;
        Answers::one(Answer::ResponseHeaders(set))
    }

    fn response_chunk(&mut self, chunk: Bytes, end_of_stream: bool) -> Answers {
        let chunk = match self.streaming {
            true => chunk,
            // Whoever sends more than fits gets it back as it is.
            false if self.response_body.len() + chunk.len() > self.body_limit => {
                let mut held = self.response_body.split();
                held.extend_from_slice(&chunk);
                self.streaming = true;
                held.freeze()
            }
            false => {
                self.response_body.extend_from_slice(&chunk);
                if !end_of_stream {
                    return Answers::default();
                }
                self.response_body.split().freeze()
            }
        };
        let usage = self.usage(&chunk);
        let dynamic_metadata = match (end_of_stream, self.tracker.take()) {
            (true, Some(tracker)) => tracker.end(usage),
            (false, Some(mut tracker)) => {
                tracker.chunk(usage);
                self.tracker = Some(tracker);
                Metadata::new()
            }
            (_, None) => Metadata::new(),
        };
        let chunk = self.rename.as_ref().map_or_else(|| chunk.clone(), |rename| rename.apply(&chunk));
        let last = |chunk, end_of_stream| Answer::ResponseBody { chunk, end_of_stream };
        let mut outgoing: Vec<Outgoing> = pieces(chunk, end_of_stream, last);
        if let Some(end) = outgoing.last_mut() {
            end.dynamic_metadata = dynamic_metadata;
        }
        Answers { outgoing, closes: false }
    }

    /// Reads the usage of a chunk; one that does not read has none (request-control spec 13.3).
    fn usage(&mut self, chunk: &Bytes) -> Option<Usage> {
        self.tracker.as_ref()?;
        if self.parser.is_none() {
            // A request without a body counts as one for completions.
            let path: Headers = [(":path", "/v1/completions")].into_iter().collect();
            self.parser = self.parsers.resolve(&path).ok().cloned();
        }
        self.parser.as_ref()?.parse_response(&self.response_headers, chunk).ok().flatten()
    }
}

/// Returns the answers that send a routed request on its way.
fn answers(routed: &Routed) -> Answers {
    let destination = routed.destination_header();
    let body = match &routed.body {
        ForwardedBody::Bytes(bytes) => bytes.clone(),
        // A call that stays in the process never crosses a proxy.
        ForwardedBody::InProcess(_) => Bytes::new(),
    };
    let mut set = vec![(DESTINATION.to_owned(), destination.clone())];
    if !body.is_empty() {
        set.push(("Content-Length".to_owned(), body.len().to_string()));
    }
    set.extend(routed.headers().map(|(name, value)| (name.to_owned(), value.to_owned())));
    let dynamic_metadata = destination_metadata(&destination, routed.scores.as_deref());
    let mut outgoing = vec![Outgoing { answer: Answer::RequestHeaders(set), dynamic_metadata }];
    let piece = |chunk, end_of_stream| Answer::RequestBody { chunk, end_of_stream };
    outgoing.extend(pieces(body, true, piece));
    Answers { outgoing, closes: false }
}

/// Cuts a body into messages, at least one.
fn pieces(body: Bytes, end_of_stream: bool, answer: impl Fn(Bytes, bool) -> Answer) -> Vec<Outgoing> {
    let mut rest = body;
    let mut outgoing = Vec::with_capacity(rest.len() / CHUNK + 1);
    while rest.len() > CHUNK {
        outgoing.push(answer(rest.split_to(CHUNK), false).into());
    }
    outgoing.push(answer(rest, end_of_stream).into());
    outgoing
}

fn destination_metadata(destination: &str, scores: Option<&[(String, f64)]>) -> Metadata {
    let mut fields = Map::new();
    fields.insert(DESTINATION.to_owned(), destination.into());
    if let Some(scores) = scores {
        let scores: Map<String, Value> =
            scores.iter().map(|(at, score)| (at.clone(), (*score).into())).collect();
        fields.insert(DESTINATION_SCORES.to_owned(), scores.into());
    }
    [(DESTINATION_NAMESPACE.to_owned(), fields)].into()
}

fn bad_request(error: ParseError) -> PluginError {
    InferenceError::new(ErrorCode::BadRequest, error.to_string()).into()
}

/// Returns the answer that ends a stream with an error for the client.
fn immediate(error: &InferenceError) -> Result<Answers, Failed> {
    let Some(status) = error.code.http_status() else { return Err(Failed(error.to_string())) };
    let answer = Answer::Immediate { status, headers: error.headers.clone(), body: error.to_string() };
    Ok(Answers { closes: true, ..Answers::one(answer) })
}
