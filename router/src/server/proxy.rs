//! The reverse proxy: from a client's request to a model server's response.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use executor::Rt;
use executor::http::{Body, Endpoint, SendError};
use executor::sync::oneshot;
use futures::future::{Either, select};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, header, request};

use super::core::{CoreHandle, Rerouted, Route};
use super::error_response;
use super::headers;
use super::idle_limit;
use super::request_body;
use super::request_head;
use super::response_body;
use crate::director::headers::DROPPED_REASON;
use crate::director::{ForwardedBody, RequestInput};
use crate::error::{ErrorCode, InferenceError};
use crate::flow_control::eviction::EVICTED;
use crate::headers::Headers;
use crate::request::{CompletionCall, ParsedBody, ParserRegistry, Payload, RequestKind};

/// How often a request is routed until it stays where it is: an endpoint may refuse connections or fall silent.
const ATTEMPTS: usize = 3;

/// The decision in a line, on responses while decisions are explained.
const DECISION: HeaderName = HeaderName::from_static("x-lockstep-decision");

/// Limits of the proxy.
#[derive(Clone, Copy, Debug)]
pub struct ProxyOptions {
    /// Longest request body. Unit: bytes.
    pub max_body_bytes: usize,
    /// How long a model server may take to begin its response, and between two parts of it.
    pub response_timeout: Duration,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        ProxyOptions { max_body_bytes: 64 << 20, response_timeout: Duration::from_secs(15 * 60) }
    }
}

/// Serves inference requests. Cheap to clone, works on any thread of either host.
#[derive(Clone, Debug)]
pub struct Proxy {
    rt: Rt,
    core: CoreHandle,
    parsers: ParserRegistry,
    options: ProxyOptions,
}

impl Proxy {
    /// Returns a proxy before `core`, whose bodies `parsers` read.
    pub fn new(rt: Rt, core: CoreHandle, parsers: ParserRegistry, options: ProxyOptions) -> Self {
        Proxy { rt, core, parsers, options }
    }

    /// Answers one request. Dropping the future, or the response's body, aborts the model server's work.
    pub async fn handle(self, request: Request<Body>) -> Response<Body> {
        let (head, body) = request.into_parts();
        if let Some(refusal) = request_head::refusal(&head) {
            return refusal;
        }
        let seen = headers::for_director(&head);
        if let Some(call) = head.extensions.get::<Arc<CompletionCall>>() {
            let parsed = in_process(call);
            return self.forward(head, seen, Some((parsed, 0))).await;
        }
        if http_body::Body::is_end_stream(&body) {
            return self.forward(head, seen, None).await;
        }
        let limit = self.options.max_body_bytes;
        let awaits_leave = head.headers.contains_key(header::EXPECT);
        let bytes = match request_body::collect(&self.rt, body, limit, awaits_leave).await {
            Ok(bytes) => bytes,
            Err(refused) => return error_response::body_error(&refused, limit),
        };
        let size = bytes.len();
        match self.parsers.parse(&seen, bytes) {
            Ok((parsed, _)) => self.forward(head, seen, Some((parsed, size))).await,
            Err(error) => error_response::bad_request(&error.to_string()),
        }
    }

    /// Routes and sends. The request is routed anew where no connection to the chosen endpoint can be made, so
    /// that nothing was sent, and where the endpoint falls silent before it begins to answer.
    async fn forward(
        self,
        head: request::Parts,
        seen: Headers,
        body: Option<(ParsedBody, usize)>,
    ) -> Response<Body> {
        let mut attempt = 1;
        let repeatable = match &body {
            Some((body, _)) => body.kind != RequestKind::None,
            None => head.method.is_safe(),
        };
        loop {
            let routed = match &body {
                Some((body, size_bytes)) => {
                    let (headers, body) = (seen.clone(), body.clone());
                    self.core
                        .route(RequestInput { headers, body, size_bytes: *size_bytes, ..Default::default() })
                        .await
                }
                None => self.core.route_bodyless(seen.clone()).await,
            };
            let route = match routed {
                Ok(route) => route,
                Err(error) => return error_response::inference_error(&error),
            };
            let endpoint = route.endpoint.clone();
            match self.send(&head, route, repeatable && attempt < ATTEMPTS).await {
                Ok(response) => return response,
                Err(Failure::Send(error)) if error.is_connect() || error.is_refused() => {
                    self.core.rerouted(&endpoint, Rerouted::Refused);
                    if attempt == ATTEMPTS {
                        return error_response::send_error(&error);
                    }
                    attempt += 1;
                }
                Err(Failure::Send(error)) => return error_response::send_error(&error),
                Err(Failure::Silent) => {
                    self.core.rerouted(&endpoint, Rerouted::Silent);
                    attempt += 1;
                }
                Err(Failure::Late) => return self.late(&endpoint),
                Err(Failure::Evicted) => return error_response::inference_error(&evicted()),
            }
        }
    }

    /// Sends to the chosen endpoint; with `may_move` only for as long as that is not silent.
    async fn send(
        &self,
        head: &request::Parts,
        mut route: Route,
        may_move: bool,
    ) -> Result<Response<Body>, Failure> {
        let mut request = Request::new(Body::Empty);
        *request.method_mut() = head.method.clone();
        *request.uri_mut() = head.uri.clone();
        *request.headers_mut() = head.headers.clone();
        *request.extensions_mut() = head.extensions.clone();
        headers::for_model_server(request.headers_mut(), &route.headers);
        if let Ok(value) = route.destination_header.parse() {
            request.headers_mut().insert(crate::director::headers::DESTINATION, value);
        }
        if let Some(ForwardedBody::Bytes(bytes)) = &route.body {
            headers::set_length(request.headers_mut(), bytes.len());
            *request.body_mut() = Body::from(Bytes::clone(bytes));
        }
        let exchange = self.rt.http().send(&route.endpoint, request);
        let exchange = self.rt.timeout(self.options.response_timeout, exchange);
        let sent = if may_move || route.evicted.is_some() {
            let broken_off = self.broken_off(&route.endpoint, may_move, route.evicted.as_mut());
            match select(pin!(exchange), pin!(broken_off)).await {
                Either::Left((sent, _)) => sent,
                // Dropping the request closes the connection, and the model server stops.
                Either::Right((failure, _)) => return Err(failure),
            }
        } else {
            exchange.await
        };
        let response = sent.map_err(|_| Failure::Late)?.map_err(Failure::Send)?;
        Ok(self.answer(route, response).await)
    }

    /// Waits until a request that has no response yet is to be given up.
    async fn broken_off(
        &self,
        endpoint: &Endpoint,
        may_move: bool,
        evicted: Option<&mut oneshot::Receiver<()>>,
    ) -> Failure {
        let silent = async {
            match may_move {
                true => self.core.falls_silent(endpoint).await,
                false => pending().await,
            }
        };
        match select(pin!(silent), pin!(told(evicted))).await {
            Either::Left(_) => Failure::Silent,
            Either::Right(_) => Failure::Evicted,
        }
    }

    /// Turns the model server's response into the client's.
    async fn answer(&self, route: Route, response: Response<Body>) -> Response<Body> {
        let (mut head, body) = response.into_parts();
        if let Some(decision) = route.decision.as_ref().and_then(|line| HeaderValue::try_from(line).ok()) {
            head.headers.insert(DECISION, decision);
        }
        let body = idle_limit::limited(&self.rt, body, self.options.response_timeout);
        headers::strip_hop_by_hop(&mut head.headers);
        let seen = response_headers(&head.headers);
        if let Some(left) = self.core.head(&route.ticket, || seen.clone()).await {
            headers::apply(&mut head.headers, &left);
        }
        if route.skip_response_processing {
            return Response::from_parts(head, body);
        }
        if route.renamed.is_some() {
            // A renamed model may be longer or shorter.
            head.headers.remove(header::CONTENT_LENGTH);
        }
        let parser = self.parsers.resolve(&route.headers).ok().cloned();
        let body = response_body::follow(
            body,
            seen,
            parser,
            route.renamed,
            route.ticket,
            route.evicted,
            self.core.watches_chunks(),
        );
        Response::from_parts(head, body)
    }

    fn late(&self, endpoint: &Endpoint) -> Response<Body> {
        let limit = self.options.response_timeout.as_secs();
        let message = format!("the model server at {endpoint} did not begin its response within {limit} s");
        error_response::json_error(504, "UpstreamTimeout", &message)
    }
}

enum Failure {
    Send(SendError),
    Silent,
    Late,
    Evicted,
}

/// Waits until a request is evicted. One whose evictor is gone never is.
async fn told(evicted: Option<&mut oneshot::Receiver<()>>) {
    match evicted {
        None => pending().await,
        Some(evicted) => {
            poll_fn(|cx| match Pin::new(&mut *evicted).poll(cx) {
                Poll::Ready(Ok(())) => Poll::Ready(()),
                _ => Poll::Pending,
            })
            .await;
        }
    }
}

/// The failure of a request that made room for another (flow-control spec 13.3).
fn evicted() -> InferenceError {
    InferenceError::new(ErrorCode::ResourceExhausted, "request evicted by flow control")
        .with_header(DROPPED_REASON, EVICTED)
}

/// The body of a request that never was text.
fn in_process(call: &Arc<CompletionCall>) -> ParsedBody {
    ParsedBody {
        kind: RequestKind::Completions,
        model: call.model.to_string(),
        stream: true,
        tokenized_prompt: Some(Arc::clone(&call.prompt)),
        max_output_tokens: Some(call.output_tokens),
        payload: Payload::InProcess(Arc::clone(call)),
        ..ParsedBody::default()
    }
}

fn response_headers(headers: &HeaderMap) -> Headers {
    headers.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes()))).collect()
}
