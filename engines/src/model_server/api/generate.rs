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
use super::release::Release;
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
    #[serde(flatten)]
    later: Option<Later<'a>>,
}

/// Members of answers from 0.32 on.
#[derive(Serialize)]
struct Later<'a> {
    model: &'a str,
    created: u64,
    usage: Usage,
    prompt_token_id_logprobs: (),
    prompt_token_ids: (),
    mm_placeholders: (),
    metrics: (),
    ec_transfer_params: (),
    output_mode: &'static str,
}

#[derive(Serialize)]
struct AnswerChoice<'a> {
    index: u32,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<&'static str>,
    token_ids: &'a [Token],
    #[serde(skip_serializing_if = "Option::is_none")]
    routed_experts: Option<()>,
    #[serde(flatten)]
    later: Option<LaterChoice<'a>>,
}

/// Members of choices of whole answers from 0.32 on.
#[derive(Serialize)]
struct LaterChoice<'a> {
    stop_reason: &'a End,
    sampling_mask: (),
    weight_versions: [WeightVersion; 1],
}

/// Which tokens which weights wrote: ours are never exchanged.
#[derive(Serialize)]
struct WeightVersion {
    version: &'static str,
    start: u32,
    end: usize,
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
        let error = ApiError::shape("sampling_params must be an object");
        return Err(error.field("body.sampling_params"));
    }
    if own.token_ids.is_empty() && server.release >= Release::V27 {
        return Err(ApiError::shape("token_ids must not be empty").field("body.token_ids"));
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
    let model = server.answering_model(adapter.as_ref());
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
    let last = server.release >= Release::V32;
    let later = last.then(|| Later {
        model: &model,
        created: server.rt.wall().unix_secs(),
        usage: Usage::whole(server, choices.counts(), None),
        prompt_token_id_logprobs: (),
        prompt_token_ids: (),
        mm_placeholders: (),
        metrics: (),
        ec_transfer_params: (),
        output_mode: "tokens",
    });
    let answers = (0..).zip(&wholes).map(|(index, whole)| AnswerChoice {
        index,
        logprobs: top.map(|top| ChatLogprobs::of(&whole.tokens, top, &server.tokenizer)),
        finish_reason: Some(whole.end.reason()),
        token_ids: &whole.tokens,
        routed_experts: server.null(Release::V32..),
        later: last.then_some(LaterChoice {
            stop_reason: &whole.end,
            sampling_mask: (),
            weight_versions: [WeightVersion { version: "default", start: 0, end: whole.tokens.len() }],
        }),
    });
    let choices = answers.collect();
    let request_id = if last { format!("generate-tokens-{id}") } else { id };
    Ok(reply::json(&Answer {
        request_id: &request_id,
        choices,
        prompt_logprobs: (),
        kv_transfer_params: (),
        later,
    }))
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
            routed_experts: self.server.null(Release::V27..),
            later: None,
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
