//! `POST /inference/v1/generate`: tokens in, tokens out (model-server spec 1.8).

use std::sync::Arc;

use executor::http::Body;
use http::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::choices::{Choices, Counts, Delta, End};
use super::error::ApiError;
use super::events::{self, Events, Outbox};
use super::fields::{self, Fields, Sampling};
use super::logprobs::ChatLogprobs;
use super::prompts::{self, Prompt};
use super::usage::{Told, Usage};
use super::{Asked, Inner, lax, reply};
use crate::engine::Token;

#[derive(Debug, Deserialize)]
struct Own {
    token_ids: Vec<Token>,
    sampling_params: Value,
}

/// Members of `sampling_params` that completions have in their bodies.
#[derive(Debug, Deserialize)]
struct Limits {
    #[serde(default, deserialize_with = "lax::int")]
    max_tokens: Option<i64>,
    #[serde(default, deserialize_with = "lax::int")]
    logprobs: Option<i64>,
}

#[derive(Serialize)]
struct Answer<'a> {
    request_id: &'a str,
    choices: Vec<AnswerChoice<'a>>,
    prompt_logprobs: (),
    kv_transfer_params: (),
}

#[derive(Serialize)]
struct AnswerChoice<'a> {
    index: u32,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<&'static str>,
    token_ids: &'a [Token],
}

/// Answers with the tokens behind the given ones.
pub(super) async fn answer(
    server: &Arc<Inner>,
    asked: Asked<'_>,
    body: &Value,
) -> Result<Response<Body>, ApiError> {
    let own: Own = fields::read(body)?;
    let fields = Fields::read(body)?;
    if !own.sampling_params.is_object() {
        return Err(ApiError::shape("sampling_params must be an object"));
    }
    let sampling: Sampling = fields::read(&own.sampling_params)?;
    let limits: Limits = fields::read(&own.sampling_params)?;
    let adapter = server.adapter(fields.model.as_deref(), true)?;
    fields.check_simulated(&sampling)?;
    let max_tokens = match own.sampling_params.get("max_tokens") {
        None => Some(16),
        Some(_) => limits.max_tokens,
    };
    let prompts = prompts::tokenize(vec![Prompt::Tokens(own.token_ids)], server, max_tokens, None)?;
    let length = prompts.first().map_or(0, |prompt| u32::try_from(prompt.len()).unwrap_or(u32::MAX));
    let plan = sampling.plan(&fields, server, adapter, max_tokens, limits.logprobs, length)?;
    let top = limits.logprobs.and_then(|top| usize::try_from(top).ok());
    let engine = server.engine(asked.rank)?;
    let id = server.request_id(asked.request_id, fields.request_id.as_deref());
    let mut choices = Choices::start(server, engine, plan, &prompts);
    if fields.stream {
        let told = Told::new(server, fields.stream_options);
        let id = format!("generate-tokens-{id}");
        return Ok(events::stream(
            Stream { server: Arc::clone(server), id, top, told },
            choices,
            asked.ticket,
        ));
    }
    let wholes = choices.collect().await?;
    let answers = (0..).zip(&wholes).map(|(index, whole)| AnswerChoice {
        index,
        logprobs: top.map(|top| ChatLogprobs::of(&whole.tokens, top, &server.tokenizer)),
        finish_reason: Some(whole.end.reason()),
        token_ids: &whole.tokens,
    });
    let choices = answers.collect();
    Ok(reply::json(&Answer { request_id: &id, choices, prompt_logprobs: (), kv_transfer_params: () }))
}

struct Stream {
    server: Arc<Inner>,
    id: String,
    top: Option<usize>,
    told: Told,
}

#[derive(Serialize)]
struct Chunk<'a> {
    request_id: &'a str,
    choices: &'a [AnswerChoice<'a>],
    usage: Option<Usage>,
}

impl Events for Stream {
    fn delta(&mut self, delta: &Delta, _: &Choices, out: &mut Outbox) {
        let choice = AnswerChoice {
            index: delta.index,
            logprobs: self.top.map(|top| ChatLogprobs::of(&delta.tokens, top, &self.server.tokenizer)),
            finish_reason: delta.end.as_ref().map(End::reason),
            token_ids: &delta.tokens,
        };
        let usage = self.told.now(delta.prompt_tokens, delta.generated);
        out.event(&Chunk { request_id: &self.id, choices: &[choice], usage });
    }

    fn end(&mut self, counts: Counts, out: &mut Outbox) {
        if let Some(usage) = self.told.last(counts) {
            out.event(&Chunk { request_id: &self.id, choices: &[], usage: Some(usage) });
        }
    }
}
