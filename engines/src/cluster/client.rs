//! The clients of a workload.

mod json;

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
use router::director::headers::{FAIRNESS_ID, OBJECTIVE};
use router::request::{CompletionCall, TokenizedPrompt};

use super::watch::{REQUEST_ID, Watch};
use crate::model_server::{InProcessCall, Tokens};
use crate::report::{Outcome, RequestEnd};
use crate::workload::{self, Tenant};

/// Sends requests to the router and reports what became of them. Cheap to clone.
#[derive(Clone)]
pub(super) struct Client {
    rt: Rt,
    router: Endpoint,
    model: Arc<str>,
    form: Form,
    watch: Rc<Watch>,
}

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With typed values beside the message: it never leaves the process.
    Typed,
    /// With a body of JSON.
    Json,
}

/// What a client has seen of an answer.
#[derive(Clone, Copy, Default)]
struct Seen {
    first_token: Option<Instant>,
    tokens: Tokens,
}

impl Client {
    pub(super) fn new(rt: &Rt, router: Endpoint, model: &str, form: Form, watch: Rc<Watch>) -> Self {
        Client { rt: rt.clone(), router, model: model.into(), form, watch }
    }

    /// Where it reports to.
    pub(super) fn watch(&self) -> Rc<Watch> {
        Rc::clone(&self.watch)
    }

    /// Sends one request, reads its answer to the end and reports it. When `give_up` ends first, the client goes
    /// away and the request counts as failed; dropped before its end, it counts as cancelled.
    pub(super) async fn exchange(self, request: workload::Request, mut give_up: watch::Receiver<bool>) {
        let mut open = Open::new(&self, &request);
        let sent = pin!(self.send(&request, &mut open.seen));
        let given_up = pin!(give_up.changed());
        open.end = Some(match select(sent, given_up).await {
            Either::Left((sent, _)) => sent,
            Either::Right(_) => Err("the run was given up".to_owned()),
        });
    }

    async fn send(&self, request: &workload::Request, seen: &mut Seen) -> Result<(), String> {
        match self.form {
            Form::Typed => self.call(request, seen).await,
            Form::Json => self.post(request, seen).await,
        }
    }

    /// Asks with typed values, and learns from them what came.
    async fn call(&self, request: &workload::Request, seen: &mut Seen) -> Result<(), String> {
        let prompt = request.prompt.to_token_ids();
        let call = Arc::new(InProcessCall::new(Arc::clone(&prompt), request.output_tokens));
        let completion = CompletionCall {
            model: Arc::clone(&self.model),
            prompt: Arc::new(TokenizedPrompt { prompts: vec![prompt], ..TokenizedPrompt::default() }),
            output_tokens: u64::from(request.output_tokens),
        };
        let mut message = Request::post("/v1/completions").body(Body::Empty).expect("a path and no headers");
        message.extensions_mut().insert(Arc::new(completion));
        message.extensions_mut().insert(Arc::clone(&call));
        let mut body = self.open(request, message).await?;
        let mut last = Bytes::new();
        while let Some(frame) = body.frame().await {
            last = frame.map_err(|error| error.to_string())?.into_data().unwrap_or_default();
            seen.first_token.get_or_insert(self.rt.now());
        }
        match call.receipt() {
            Some(receipt) => {
                seen.tokens = receipt.tokens;
                Ok(())
            }
            None => {
                seen.first_token = None;
                Err(broken_stream(&last))
            }
        }
    }

    /// Asks with a body of JSON, and reads the events of the answer.
    async fn post(&self, request: &workload::Request, seen: &mut Seen) -> Result<(), String> {
        let prompt = request.prompt.to_token_ids();
        let message = json::request(&self.model, &prompt, request.output_tokens);
        let mut body = self.open(request, message).await?;
        let mut events = json::Events::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| error.to_string())?;
            events.take(&frame.into_data().unwrap_or_default());
            if events.begun {
                seen.first_token.get_or_insert(self.rt.now());
            }
        }
        match (events.error, events.tokens) {
            (None, Some(tokens)) if events.done => {
                seen.tokens = tokens;
                Ok(())
            }
            (error, _) => {
                seen.first_token = None;
                Err(error.unwrap_or_else(|| CUT_SHORT.to_owned()))
            }
        }
    }

    /// Sends `message`; returns the body of the answer, if it is a success.
    async fn open(&self, request: &workload::Request, mut message: Request<Body>) -> Result<Body, String> {
        let headers = message.headers_mut();
        headers.insert(REQUEST_ID, HeaderValue::from(request.index));
        if let Some(tenant) = &request.tenant {
            let text =
                |text: &str| HeaderValue::from_str(text).expect("names of tenants can stand in a header");
            headers.insert(FAIRNESS_ID[0], text(&tenant.name));
            headers.insert(OBJECTIVE[0], text(&objective(tenant.priority)));
        }
        let response = self.rt.http().send(&self.router, message).await.map_err(|error| error.to_string())?;
        if response.status().is_success() { Ok(response.into_body()) } else { Err(refusal(response).await) }
    }
}

/// The name of the objective that stands for a priority.
pub(super) fn objective(priority: i32) -> String {
    format!("priority-{priority}")
}

/// The failure of an answer that ends early.
const CUT_SHORT: &str = "the answer ended before its last token";
/// A request under way; reports what became of it when it is dropped.
struct Open {
    rt: Rt,
    watch: Rc<Watch>,
    request: u64,
    arrival: Instant,
    prompt_tokens: u32,
    tenant: Option<Rc<Tenant>>,
    seen: Seen,
    /// How it ended, or why it failed.
    end: Option<Result<(), String>>,
}

impl Open {
    fn new(client: &Client, request: &workload::Request) -> Self {
        client.watch.request_begun(request.prompt.tokens());
        Open {
            rt: client.rt.clone(),
            watch: Rc::clone(&client.watch),
            request: request.index,
            arrival: client.rt.now(),
            prompt_tokens: request.prompt.tokens(),
            tenant: request.tenant.clone(),
            seen: Seen::default(),
            end: None,
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Seen { first_token, tokens } = self.seen;
        self.watch.request_ended(&RequestEnd {
            request: self.request,
            arrival: self.arrival,
            endpoint: None,
            prompt_tokens: self.prompt_tokens,
            output_tokens: tokens.output,
            prefix_hit_tokens: tokens.cached,
            first_token,
            end: self.rt.now(),
            outcome: match &self.end {
                Some(Ok(())) => Outcome::Done,
                Some(Err(why)) => Outcome::Failed(why),
                None => Outcome::Cancelled,
            },
            decided: None,
            tenant: self.tenant.as_deref(),
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
    data.and_then(message).unwrap_or_else(|| CUT_SHORT.to_owned())
}

fn message(json: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(json).ok()?;
    Some(body["error"]["message"].as_str()?.to_owned())
}
