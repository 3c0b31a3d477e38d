//! `POST /v1/completions` (model-server spec 1.4).

use std::sync::Arc;

use executor::http::Body;
use http::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::choices::{Choices, Counts, Delta, End};
use super::error::ApiError;
use super::events::{self, Events, Outbox};
use super::fields::{self, Fields, Plan, Sampling};
use super::logprobs::TextLogprobs;
use super::release::Release;
use super::usage::{Told, Usage};
use super::{Asked, Inner, lax, prompts, reply};
use crate::engine::Token;

const OBJECT: &str = "text_completion";

#[derive(Debug, Deserialize)]
struct Own {
    #[serde(default)]
    prompt: Option<Value>,
    #[serde(default = "sixteen", deserialize_with = "lax::int")]
    max_tokens: Option<i64>,
    #[serde(default, deserialize_with = "lax::int")]
    logprobs: Option<i64>,
    #[serde(default)]
    suffix: Option<String>,
    #[serde(default)]
    prompt_embeds: Option<Value>,
}

#[expect(clippy::unnecessary_wraps, reason = "serde wants the type of the field")]
fn sixteen() -> Option<i64> {
    Some(16)
}

/// A text completion that passed all checks.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) fields: Fields,
    pub(super) sampling: Sampling,
    pub(super) plan: Plan,
    pub(super) prompts: Vec<Arc<[Token]>>,
    /// `max_tokens` of the body, 16 where it has none; `None` where it is null.
    max_tokens: Option<i64>,
    logprobs: Option<usize>,
}

impl Request {
    pub(super) fn read(body: &Value, server: &Inner, adapters: bool) -> Result<Self, ApiError> {
        let own: Own = fields::read(body)?;
        let fields = Fields::read(body)?;
        let sampling: Sampling = fields::read(body)?;
        if own.prompt_embeds.is_some() {
            return Err(ApiError::not_simulated("prompt_embeds"));
        }
        if own.logprobs.is_some_and(|logprobs| logprobs < 0) {
            return Err(ApiError::checked("logprobs", "logprobs must not be negative").param("logprobs"));
        }
        let prompts = prompts::read(own.prompt.as_ref());
        // An empty list has the right shape: whether the model exists is looked at first.
        if let Err(error) = &prompts
            && !error.is_raised()
        {
            return Err(error.clone());
        }
        let adapter = server.adapter(fields.model.as_deref(), adapters)?;
        if own.suffix.is_some_and(|suffix| !suffix.is_empty()) {
            return Err(ApiError::refused("suffix is not supported").field_from(Release::V32, "suffix"));
        }
        fields.check_simulated(&sampling)?;
        let prompts = prompts::tokenize(prompts?, server, own.max_tokens, fields.truncate_prompt_tokens)?;
        // A prompt that is only shown costs one token.
        let max_tokens = match own.max_tokens {
            Some(0) if fields.echo => Some(1),
            max_tokens => max_tokens,
        };
        let longest = prompts.iter().map(|prompt| prompt.len()).max().unwrap_or(0);
        let longest = u32::try_from(longest).unwrap_or(u32::MAX);
        let plan = sampling.clone().plan(&fields, server, adapter, max_tokens, own.logprobs, longest)?;
        let choices = prompts.len().saturating_mul(plan.choices as usize);
        if choices > server.options.max_choices as usize {
            let most = server.options.max_choices;
            return Err(ApiError::raised(format!(
                "{choices} choices asked for; this server gives at most {most}"
            )));
        }
        let logprobs = own.logprobs.and_then(|logprobs| usize::try_from(logprobs).ok());
        Ok(Self { fields, sampling, plan, prompts, max_tokens: own.max_tokens, logprobs })
    }

    /// Only the prompt is shown of each choice.
    fn shows_prompt_only(&self) -> bool {
        self.fields.echo && self.max_tokens == Some(0)
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_routed_experts: Option<()>,
    model: &'a str,
    choices: Vec<AnswerChoice>,
    service_tier: (),
    system_fingerprint: &'a str,
    usage: Usage,
    kv_transfer_params: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    ec_transfer_params: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<()>,
}

#[derive(Serialize)]
struct AnswerChoice {
    index: usize,
    text: String,
    logprobs: Option<TextLogprobs>,
    finish_reason: &'static str,
    stop_reason: End,
    token_ids: Option<Vec<Token>>,
    prompt_logprobs: (),
    prompt_token_ids: Option<Arc<[Token]>>,
    routed_experts: (),
}

/// Answers a text completion.
pub(super) async fn answer(
    server: &Arc<Inner>,
    asked: Asked<'_>,
    body: &Value,
) -> Result<Response<Body>, ApiError> {
    let request = Request::read(body, server, true)?;
    let engine = server.engine(asked.rank)?;
    let id = format!("cmpl-{}", server.request_id(asked.request_id, request.fields.request_id.as_deref()));
    let model = server.answering_model(request.plan.adapter.as_ref());
    let created = server.rt.wall().unix_secs();
    let mut choices = Choices::start(server, engine, request.plan.clone(), &request.prompts);
    if request.fields.stream {
        let told = Told::new(server, request.fields.stream_options);
        let begun = vec![(false, 0); choices.len()];
        let stream = Stream { server: Arc::clone(server), id, model, created, request, told, begun };
        return Ok(events::stream(stream, choices, asked.ticket));
    }
    let wholes = choices.collect().await?;
    if request.max_tokens.is_none() && server.release == Release::V21 {
        // It fails only once the whole answer is there (model-server spec 1.2).
        return Err(ApiError::internal());
    }
    let tokenizer = &server.tokenizer;
    let answers = wholes.into_iter().enumerate().map(|(index, whole)| {
        let prompt = choices.prompt(u32::try_from(index).unwrap_or(u32::MAX));
        let only_prompt = request.shows_prompt_only();
        let mut text = if request.fields.echo { tokenizer.decode(prompt) } else { String::new() };
        let tokens = if only_prompt { prompt.to_vec() } else { whole.tokens };
        let logprobs =
            request.logprobs.map(|n| TextLogprobs::of(&tokens, n, tokenizer, &mut text.chars().count()));
        if !only_prompt {
            text.push_str(&whole.text);
        }
        let ids = request.fields.return_token_ids;
        AnswerChoice {
            index,
            text,
            logprobs,
            finish_reason: whole.end.reason(),
            stop_reason: whole.end,
            token_ids: ids.then_some(tokens),
            prompt_logprobs: (),
            prompt_token_ids: ids.then(|| Arc::clone(prompt)),
            routed_experts: (),
        }
    });
    let choices_json = answers.collect();
    Ok(reply::json(&Answer {
        id: &id,
        object: OBJECT,
        created,
        prompt_routed_experts: server.null(..Release::V27),
        model: &model,
        choices: choices_json,
        service_tier: (),
        system_fingerprint: &server.fingerprint,
        usage: Usage::whole(server, choices.counts(), None),
        kv_transfer_params: (),
        ec_transfer_params: server.null(Release::V27..),
        metrics: server.null(Release::V27..),
    }))
}

/// Writes the events of a text completion.
struct Stream {
    server: Arc<Inner>,
    id: String,
    model: String,
    created: u64,
    request: Request,
    told: Told,
    /// Whether each choice has begun, and its characters so far.
    begun: Vec<(bool, usize)>,
}

#[derive(Serialize)]
struct Chunk<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: &'a [ChunkChoice<'a>],
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<&'a str>,
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: u32,
    text: &'a str,
    logprobs: Option<TextLogprobs>,
    finish_reason: Option<&'static str>,
    stop_reason: Option<&'a End>,
    prompt_token_ids: Option<&'a [Token]>,
    token_ids: Option<&'a [Token]>,
}

impl Stream {
    fn chunk<'a>(&'a self, choices: &'a [ChunkChoice<'a>], usage: Option<Usage>, last: bool) -> Chunk<'a> {
        Chunk {
            id: &self.id,
            object: OBJECT,
            created: self.created,
            model: &self.model,
            choices,
            usage,
            system_fingerprint: last.then_some(&*self.server.fingerprint),
        }
    }
}

impl Events for Stream {
    fn delta(&mut self, delta: &Delta, choices: &Choices, out: &mut Outbox) {
        let fields = &self.request.fields;
        let tokenizer = &self.server.tokenizer;
        let prompt = choices.prompt(delta.index);
        let only_prompt = self.request.shows_prompt_only();
        let (begun, characters) = &mut self.begun[delta.index as usize];
        let first = !std::mem::replace(begun, true);
        let mut text = if first && fields.echo { tokenizer.decode(prompt) } else { String::new() };
        *characters += text.chars().count();
        let tokens: &[Token] = if only_prompt { prompt } else { &delta.tokens };
        if !only_prompt {
            text.push_str(&delta.text);
        }
        let logprobs = self.request.logprobs.map(|n| TextLogprobs::of(tokens, n, tokenizer, characters));
        let choice = ChunkChoice {
            index: delta.index,
            text: &text,
            logprobs,
            finish_reason: delta.end.as_ref().map(End::reason),
            stop_reason: delta.end.as_ref(),
            prompt_token_ids: (first && (fields.echo || fields.return_token_ids)).then_some(prompt),
            token_ids: fields.return_token_ids.then_some(tokens),
        };
        let usage = self.told.now(delta.prompt_tokens, delta.generated);
        out.event(&self.chunk(&[choice], usage, choices.ended() && !self.told.at_end));
    }

    fn end(&mut self, counts: Counts, out: &mut Outbox) {
        if let Some(usage) = self.told.last(counts) {
            out.event(&self.chunk(&[], Some(usage), true));
        }
    }
}
