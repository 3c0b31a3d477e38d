//! The clients of a workload.

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use executor::http::{Body, Endpoint};
use executor::sync::watch;
use executor::{Instant, Rt};
use futures::future::{Either, select};
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use router::request::{CompletionCall, TokenizedPrompt};

use super::watch::{REQUEST_ID, Watch};
use crate::engine::Token;
use crate::model_server::InProcessCall;
use crate::report::{Outcome, RequestEnd};
use crate::workload;

/// Sends requests to the router and reports what became of them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Client {
    rt: Rt,
    router: Endpoint,
    model: Arc<str>,
    watch: Rc<Watch>,
}

impl Client {
    pub(super) fn new(rt: &Rt, router: Endpoint, model: &str, watch: Rc<Watch>) -> Self {
        Client { rt: rt.clone(), router, model: model.into(), watch }
    }

    /// Sends one request, reads its answer to the end and reports it. When `give_up` ends first, the client goes
    /// away and the request counts as failed; dropped before its end, it counts as cancelled.
    pub(super) async fn exchange(self, request: workload::Request, mut give_up: watch::Receiver<bool>) {
        let prompt = request.prompt.to_token_ids();
        let call = Arc::new(InProcessCall::new(Arc::clone(&prompt), request.output_tokens));
        let mut open = Open::new(&self, &request, Arc::clone(&call));
        let sent = pin!(self.send(&request, prompt, &call, &mut open.first_token));
        let given_up = pin!(give_up.changed());
        open.end = Some(match select(sent, given_up).await {
            Either::Left((sent, _)) => sent,
            Either::Right(_) => Err("the run made no progress any more".to_owned()),
        });
    }

    async fn send(
        &self,
        request: &workload::Request,
        prompt: Arc<[Token]>,
        call: &Arc<InProcessCall>,
        first_token: &mut Option<Instant>,
    ) -> Result<(), String> {
        let completion = CompletionCall {
            model: Arc::clone(&self.model),
            prompt: Arc::new(TokenizedPrompt { prompts: vec![prompt], ..TokenizedPrompt::default() }),
            output_tokens: u64::from(request.output_tokens),
        };
        let mut message = Request::post("/v1/completions").body(Body::Empty).expect("a path and no headers");
        message.headers_mut().insert(REQUEST_ID, HeaderValue::from(request.index));
        message.extensions_mut().insert(Arc::new(completion));
        message.extensions_mut().insert(Arc::clone(call));
        let response = self.rt.http().send(&self.router, message).await.map_err(|error| error.to_string())?;
        if !response.status().is_success() {
            return Err(refusal(response).await);
        }
        let mut body = response.into_body();
        let mut last = Bytes::new();
        while let Some(frame) = body.frame().await {
            last = frame.map_err(|error| error.to_string())?.into_data().unwrap_or_default();
            first_token.get_or_insert(self.rt.now());
        }
        match call.receipt() {
            Some(_) => Ok(()),
            None => {
                *first_token = None;
                Err(broken_stream(&last))
            }
        }
    }
}

/// A request under way; reports what became of it when it is dropped.
struct Open {
    rt: Rt,
    watch: Rc<Watch>,
    request: u64,
    arrival: Instant,
    prompt_tokens: u32,
    call: Arc<InProcessCall>,
    first_token: Option<Instant>,
    /// How it ended, or why it failed.
    end: Option<Result<(), String>>,
}

impl Open {
    fn new(client: &Client, request: &workload::Request, call: Arc<InProcessCall>) -> Self {
        client.watch.request_begun(request.prompt.tokens());
        Open {
            rt: client.rt.clone(),
            watch: Rc::clone(&client.watch),
            request: request.index,
            arrival: client.rt.now(),
            prompt_tokens: request.prompt.tokens(),
            call,
            first_token: None,
            end: None,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let tokens = self.call.receipt().map(|receipt| receipt.tokens).unwrap_or_default();
        self.watch.request_ended(&RequestEnd {
            request: self.request,
            arrival: self.arrival,
            endpoint: None,
            prompt_tokens: self.prompt_tokens,
            output_tokens: tokens.output,
            prefix_hit_tokens: tokens.cached,
            first_token: self.first_token,
            end: self.rt.now(),
            outcome: match &self.end {
                Some(Ok(())) => Outcome::Done,
                Some(Err(why)) => Outcome::Failed(why),
                None => Outcome::Cancelled,
            },
        });
    }
}

/// The message of an error response, or its status.
async fn refusal(response: Response<Body>) -> String {
    let status = response.status().as_u16();
    let body = response.into_body().bytes(1 << 16).await.unwrap_or_default();
    match message(&body) {
        Some(message) => format!("{status}: {message}"),
        None => format!("status {status}"),
    }
}

/// The message of the error event that a stream ended with.
fn broken_stream(event: &[u8]) -> String {
    let data = event.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"data: "));
    data.and_then(message).unwrap_or_else(|| "the answer ended before its last token".to_owned())
}

fn message(json: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(json).ok()?;
    Some(body["error"]["message"].as_str()?.to_owned())
}
