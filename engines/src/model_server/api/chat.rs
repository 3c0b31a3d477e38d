//! `POST /v1/chat/completions` (model-server spec 1.5).

use std::sync::Arc;

use executor::http::Body;
use http::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::choices::{Choices, Counts, Delta, End};
use super::error::ApiError;
use super::events::{self, Events, Outbox};
use super::fields::{self, Fields, Plan, Sampling};
use super::logprobs::ChatLogprobs;
use super::prompts::{self, Prompt};
use super::release::Release;
use super::usage::{Told, Usage};
use super::{Asked, Inner, lax, reply};
use crate::engine::Token;
use crate::model_server::generation::EngineHandle;
use crate::model_server::tokenizer::{Ending, Message};

#[derive(Debug, Deserialize)]
struct Own {
    #[serde(default, deserialize_with = "lax::int")]
    max_tokens: Option<i64>,
    #[serde(default, deserialize_with = "lax::int")]
    max_completion_tokens: Option<i64>,
    #[serde(default, deserialize_with = "lax::truth")]
    logprobs: bool,
    #[serde(default, deserialize_with = "lax::int")]
    top_logprobs: Option<i64>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    tool_choice: Option<Value>,
}

/// A conversation, in requests that are put through the chat template.
#[derive(Debug, Deserialize)]
pub(super) struct Conversation {
    #[serde(default)]
    messages: Vec<RawMessage>,
    #[serde(default, deserialize_with = "lax::maybe_truth")]
    add_generation_prompt: Option<bool>,
    #[serde(default, deserialize_with = "lax::truth")]
    continue_final_message: bool,
}

#[derive(Clone, Debug, Deserialize)]
struct RawMessage {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    content: Option<Content>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Clone, Debug, Deserialize)]
struct Part {
    r#type: String,
    #[serde(default)]
    text: Option<String>,
}

impl Conversation {
    /// Reads the conversation of a body: every message has a role.
    pub(super) fn read(body: &Value) -> Result<Self, ApiError> {
        let conversation: Self = fields::read(body)?;
        match conversation.messages.iter().position(|message| message.role.is_none()) {
            None => Ok(conversation),
            Some(place) => {
                // vLLM tells of the first of the forms that a message may have.
                let field = format!("body.messages.{place}.ChatCompletionDeveloperMessageParam.role");
                Err(ApiError::shape("a message needs a role").field(field))
            }
        }
    }

    /// Returns the messages, and what stands behind the last.
    pub(super) fn template(self) -> Result<(Vec<Message>, Ending), ApiError> {
        let add = self.add_generation_prompt.unwrap_or(true);
        let ending = match (add, self.continue_final_message) {
            (true, true) => {
                let message = "continue_final_message needs add_generation_prompt: false";
                return Err(ApiError::raised(message));
            }
            (true, false) => Ending::GenerationPrompt,
            (false, true) => Ending::Continue,
            (false, false) => Ending::Closed,
        };
        if self.messages.is_empty() {
            return Err(ApiError::raised("messages must not be empty"));
        }
        let messages: Result<_, _> = self.messages.into_iter().map(RawMessage::read).collect();
        Ok((messages?, ending))
    }
}

impl RawMessage {
    fn read(self) -> Result<Message, ApiError> {
        let content = match self.content {
            None => String::new(),
            Some(Content::Text(text)) => text,
            Some(Content::Parts(parts)) => {
                let texts: Option<Vec<String>> =
                    parts.into_iter().map(|part| part.text.filter(|_| part.r#type == "text")).collect();
                texts.ok_or_else(|| ApiError::not_simulated("a content part other than text"))?.join("\n")
            }
        };
        Ok(Message { role: self.role.unwrap_or_default(), content })
    }
}

/// A chat completion that passed all checks.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) fields: Fields,
    pub(super) sampling: Sampling,
    pub(super) plan: Plan,
    pub(super) prompt: Arc<[Token]>,
    /// The likeliest tokens to tell of each place; `None` tells none.
    top_logprobs: Option<usize>,
    /// Who speaks in the answer.
    role: String,
    /// The text of the last message, where it is shown before the answer.
    echo: String,
}

impl Request {
    pub(super) fn read(body: &Value, server: &Inner, adapters: bool) -> Result<Self, ApiError> {
        let own: Own = fields::read(body)?;
        let fields = Fields::read(body)?;
        let sampling: Sampling = fields::read(body)?;
        let conversation = Conversation::read(body)?;
        if body.get("messages").is_none() {
            return Err(ApiError::shape("messages is required").field("body.messages"));
        }
        let top = own.top_logprobs.unwrap_or(0);
        if top < 0 || top > 0 && !own.logprobs {
            let message = "top_logprobs needs logprobs: true";
            return Err(ApiError::checked("top_logprobs", message).param("top_logprobs"));
        }
        let choice = own.tool_choice.as_ref().filter(|choice| !choice.is_null());
        let has_tools = own.tools.is_some_and(|tools| !tools.is_empty());
        let wants_tools = choice.map_or(has_tools, |choice| choice.as_str() != Some("none"));
        if wants_tools && !has_tools {
            return Err(ApiError::checked("tool_choice", "tool_choice needs tools"));
        }
        let adapter = server.adapter(fields.model.as_deref(), adapters)?;
        match choice.map(Value::as_str) {
            _ if !wants_tools => {}
            None | Some(Some("auto")) => {
                return Err(ApiError::refused("tool_choice auto needs a server with a tool parser"));
            }
            Some(_) => return Err(ApiError::not_simulated("a tool choice that forces a call")),
        }
        fields.check_simulated(&sampling)?;
        let (messages, ending) = conversation.template()?;
        let max_tokens = own.max_completion_tokens.or(own.max_tokens);
        let tokens = server.tokenizer.encode_chat(&messages, ending);
        let prompts = prompts::tokenize(
            vec![Prompt::Tokens(tokens)],
            server,
            max_tokens,
            fields.truncate_prompt_tokens,
        )?;
        let prompt = prompts.into_iter().next().unwrap_or_default();
        let length = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
        let logprobs = own.logprobs.then_some(top);
        let plan = sampling.clone().plan(&fields, server, adapter, max_tokens, logprobs, length)?;
        let last = messages.into_iter().next_back();
        let role = match (ending, &last) {
            (Ending::GenerationPrompt, _) | (_, None) => "assistant".to_owned(),
            (_, Some(message)) => message.role.clone(),
        };
        let echo = last.filter(|message| fields.echo && message.role == role).map(|message| message.content);
        let top_logprobs = logprobs.and_then(|top| usize::try_from(top).ok());
        Ok(Self { fields, sampling, plan, prompt, top_logprobs, role, echo: echo.unwrap_or_default() })
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
    choices: Vec<AnswerChoice<'a>>,
    service_tier: (),
    system_fingerprint: &'a str,
    usage: Usage,
    prompt_logprobs: (),
    prompt_token_ids: Option<&'a [Token]>,
    prompt_text: (),
    kv_transfer_params: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    ec_transfer_params: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<()>,
}

#[derive(Serialize)]
struct AnswerChoice<'a> {
    index: usize,
    message: AnswerMessage<'a>,
    logprobs: Option<ChatLogprobs>,
    finish_reason: &'static str,
    stop_reason: End,
    token_ids: Option<Vec<Token>>,
    routed_experts: (),
}

#[derive(Serialize)]
struct AnswerMessage<'a> {
    role: &'a str,
    content: String,
    refusal: (),
    annotations: (),
    audio: (),
    function_call: (),
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[(); 0]>,
    reasoning: (),
}

/// Answers a chat completion.
pub(super) async fn answer(
    server: &Arc<Inner>,
    asked: Asked<'_>,
    body: &Value,
) -> Result<Response<Body>, ApiError> {
    let request = Request::read(body, server, true)?;
    let engine = server.engine(asked.rank)?;
    let id =
        format!("chatcmpl-{}", server.request_id(asked.request_id, request.fields.request_id.as_deref()));
    let model = server.answering_model(request.plan.adapter.as_ref());
    let created = server.rt.wall().unix_secs();
    let prompts = std::slice::from_ref(&request.prompt);
    let mut choices = Choices::start(server, engine, request.plan.clone(), prompts);
    if request.fields.stream {
        let told = Told::new(server, request.fields.stream_options);
        let stream = Stream { server: Arc::clone(server), id, model, created, request, told, begun: false };
        return Ok(events::stream(stream, choices, asked.ticket));
    }
    let wholes = choices.collect().await?;
    let ids = request.fields.return_token_ids;
    let answers = wholes.into_iter().enumerate().map(|(index, whole)| AnswerChoice {
        index,
        message: AnswerMessage {
            role: &request.role,
            content: request.echo.clone() + &whole.text,
            refusal: (),
            annotations: (),
            audio: (),
            function_call: (),
            tool_calls: (server.release < Release::V27).then_some([]),
            reasoning: (),
        },
        logprobs: request.top_logprobs.map(|top| ChatLogprobs::of(&whole.tokens, top, &server.tokenizer)),
        finish_reason: whole.end.reason(),
        stop_reason: whole.end,
        token_ids: ids.then_some(whole.tokens),
        routed_experts: (),
    });
    Ok(reply::json(&Answer {
        id: &id,
        object: "chat.completion",
        created,
        prompt_routed_experts: server.null(..Release::V27),
        model: &model,
        choices: answers.collect(),
        service_tier: (),
        system_fingerprint: &server.fingerprint,
        usage: Usage::whole(server, choices.counts(), Some(created_cache_tokens(engine, choices.counts()))),
        prompt_logprobs: (),
        prompt_token_ids: ids.then_some(&*request.prompt),
        prompt_text: (),
        kv_transfer_params: (),
        ec_transfer_params: server.null(Release::V27..),
        metrics: server.null(Release::V27..),
    }))
}

/// Tokens of the prompt that were added to the prefix cache: those of its full blocks that were not there.
fn created_cache_tokens(engine: &EngineHandle, counts: Counts) -> u64 {
    let block_size = u64::from(engine.published().lock().block_size.max(1));
    (counts.prompt / block_size * block_size).saturating_sub(counts.cached.into())
}

/// Writes the events of a chat completion.
struct Stream {
    server: Arc<Inner>,
    id: String,
    model: String,
    created: u64,
    request: Request,
    told: Told,
    /// Whether the events that name the speaker are written.
    begun: bool,
}

/// An event; members that are `None` are left out, those that are `Some(None)` are null.
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
    prompt_token_ids: Option<Option<&'a [Token]>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_text: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_fingerprint: Option<&'a str>,
}

#[derive(Serialize)]
struct ChunkChoice<'a> {
    index: u32,
    delta: ChunkDelta<'a>,
    logprobs: Option<ChatLogprobs>,
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_reason: Option<&'a End>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<Option<&'a [Token]>>,
}

#[derive(Serialize)]
struct ChunkDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    content: &'a str,
}

impl<'a> ChunkChoice<'a> {
    fn says(index: u32, role: Option<&'a str>, content: &'a str) -> Self {
        let delta = ChunkDelta { role, content };
        Self { index, delta, logprobs: None, finish_reason: None, stop_reason: None, token_ids: None }
    }
}

impl Stream {
    fn chunk<'a>(&'a self, choices: &'a [ChunkChoice<'a>], usage: Option<Usage>, last: bool) -> Chunk<'a> {
        Chunk {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.created,
            model: &self.model,
            choices,
            usage,
            prompt_token_ids: None,
            prompt_text: None,
            system_fingerprint: last.then_some(&*self.server.fingerprint),
        }
    }

    /// Names the speaker of each choice, and repeats what the last message said.
    fn begin(&self, choices: &Choices, prompt_tokens: u32, out: &mut Outbox) {
        let count = u32::try_from(choices.len()).unwrap_or(u32::MAX);
        let usage = self.told.now(prompt_tokens, 0);
        for index in 0..count {
            let choice = ChunkChoice::says(index, Some(&self.request.role), "");
            let ids = self.request.fields.return_token_ids.then_some(&*self.request.prompt);
            let choice = [choice];
            out.event(&Chunk {
                prompt_token_ids: Some(ids),
                prompt_text: Some(()),
                ..self.chunk(&choice, usage, false)
            });
        }
        for index in (0..count).filter(|_| !self.request.echo.is_empty()) {
            out.event(&self.chunk(&[ChunkChoice::says(index, None, &self.request.echo)], usage, false));
        }
    }
}

impl Events for Stream {
    fn delta(&mut self, delta: &Delta, choices: &Choices, out: &mut Outbox) {
        if !std::mem::replace(&mut self.begun, true) {
            self.begin(choices, delta.prompt_tokens, out);
        }
        let tokenizer = &self.server.tokenizer;
        let choice = ChunkChoice {
            logprobs: self.request.top_logprobs.map(|top| ChatLogprobs::of(&delta.tokens, top, tokenizer)),
            finish_reason: delta.end.as_ref().map(End::reason),
            stop_reason: delta.end.as_ref(),
            token_ids: Some(self.request.fields.return_token_ids.then_some(&delta.tokens)),
            ..ChunkChoice::says(delta.index, None, &delta.text)
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
