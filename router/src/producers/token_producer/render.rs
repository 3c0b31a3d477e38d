//! The render backend: a vLLM server applies the chat template and tokenizes.

mod answer;
mod chat;
mod python_json;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use executor::Rt;
use executor::http::SendError;
use http::StatusCode;

use super::estimate::Estimate;
use super::parameters::VllmParameters;
use crate::error::PluginError;
use crate::outbound::{Answer, Server};
use crate::request::{Content, Input, ParsedBody, Prompt, TokenizedPrompt, json};

/// Where a server renders completions and chats.
const COMPLETIONS: &str = "/v1/completions/render";
const CHAT: &str = "/v1/chat/completions/render";

/// How much of an answer with an error status is shown. Unit: bytes.
const SHOWN: usize = 1024;

/// How often the server is asked at the start until it answers, and the pause between two attempts.
const WARM_UP_ATTEMPTS: u32 = 24;
const WARM_UP_PAUSE: Duration = Duration::from_secs(5);

/// Messages that make a server load its tokenizer, then its image processor: the image is one pixel of PNG.
const WARM_UP_TEXT: &str = r#"{"text":"warmup","type":"text"}"#;
const WARM_UP_IMAGE: &str = r#"{"image_url":{"url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="},"type":"image_url"}"#;

/// Asks a vLLM server for the token ids of prompts.
#[derive(Debug)]
pub(super) struct Render {
    rt: Rt,
    server: Server,
    model: String,
    timeout: Duration,
    mm_timeout: Duration,
    /// Whether it was told how a closed endpoint is opened.
    told: Cell<bool>,
}

/// Why a prompt has no token ids.
#[derive(Debug, thiserror::Error)]
enum RenderError {
    #[error("unsupported request body type, skipping tokenization")]
    Unsupported,
    #[error("tokenization failed: vLLM render gave no answer within {0:?}")]
    Timeout(Duration),
    #[error("tokenization failed: {0}")]
    Send(#[from] SendError),
    #[error("tokenization failed: vLLM render returned status {status}: {body}{}", remedy(*.status))]
    Status { status: u16, body: String },
    #[error("tokenization failed: cannot read the answer of vLLM render: {0}")]
    Undecodable(#[from] serde_json::Error),
    #[error("vLLM render returned empty response")]
    Empty,
}

/// Says how endpoints are opened that vLLM 0.32 and later keep closed.
fn remedy(status: u16) -> &'static str {
    match status {
        403 => " (from release 0.32 on vLLM renders only where it was started with --enable-scale-out)",
        _ => "",
    }
}

/// How a prompt comes by its token ids.
pub(super) enum Plan {
    /// The client sent them.
    Given(TokenizedPrompt),
    /// The server is asked.
    Ask(Question),
}

/// A request to the server.
pub(super) struct Question {
    path: &'static str,
    json: Vec<u8>,
    limit: Duration,
}

impl Render {
    /// Returns the backend for `model`, the name that the server knows.
    pub(super) fn new(rt: Rt, model: String, parameters: &VllmParameters) -> Result<Self, String> {
        let (server, timeout, mm_timeout) = parameters.checked()?;
        Ok(Render { rt, server, model, timeout, mm_timeout, told: Cell::new(false) })
    }

    /// Returns the most that a prompt may take.
    pub(super) fn longest(&self) -> Duration {
        self.timeout.max(self.mm_timeout)
    }

    /// Decides how a prompt comes by its token ids, without its cache salt.
    ///
    /// # Errors
    /// A body of a kind that the server does not render.
    pub(super) fn plan(&self, body: &ParsedBody, prompt: &Prompt<'_>) -> Result<Plan, PluginError> {
        // Room for the other members and for what is escaped.
        let forwarded = || {
            let fields = body.fields()?;
            let size = fields.values().filter_map(|value| Some(value.as_str()?.len())).sum::<usize>();
            Some(json::encode_object_with(fields, "model", &self.model, size + size / 16 + 512))
        };
        let ask = |path, json: Option<Vec<u8>>, has_media| match json {
            Some(json) => Ok(Plan::Ask(Question { path, json, limit: self.limit(has_media) })),
            None => Err(PluginError::other(RenderError::Unsupported.to_string())),
        };
        match prompt {
            Prompt::Completions(completions) => match &completions.prompt {
                Input::Tokens(tokens) => {
                    let prompts = vec![tokens.as_slice().into()];
                    Ok(Plan::Given(TokenizedPrompt { prompts, ..TokenizedPrompt::default() }))
                }
                Input::Text(_) | Input::Texts(_) => ask(COMPLETIONS, forwarded(), false),
            },
            Prompt::Generate(generate) => Ok(Plan::Given(Estimate::generate(generate))),
            Prompt::Chat(chat) => {
                let has_media = chat
                    .messages
                    .iter()
                    .any(|message| matches!(&message.content, Content::Blocks(blocks) if !blocks.is_empty()));
                ask(CHAT, forwarded(), has_media)
            }
            Prompt::Messages(messages) => {
                let (json, has_media) = chat::rebuild(messages, &self.model);
                ask(CHAT, Some(json), has_media)
            }
            _ => Err(PluginError::other(RenderError::Unsupported.to_string())),
        }
    }

    fn limit(&self, has_media: bool) -> Duration {
        if has_media { self.mm_timeout } else { self.timeout }
    }

    /// Asks the server, and returns the prompt without its cache salt.
    ///
    /// # Errors
    /// No answer in time, one of another status than 2xx, or one that cannot be read.
    pub(super) async fn ask(&self, question: Question) -> Result<TokenizedPrompt, PluginError> {
        let path = question.path;
        let asked = async {
            let answer = self.send(question).await?;
            match path {
                COMPLETIONS => answer::completions(&answer.body)?.ok_or(RenderError::Empty),
                _ => Ok(answer::chat(&answer.body)?),
            }
        };
        asked.await.map_err(|error: RenderError| PluginError::other(error.to_string()))
    }

    async fn send(&self, question: Question) -> Result<Answer, RenderError> {
        let Question { path, json, limit } = question;
        if limit.is_zero() {
            return Err(RenderError::Timeout(limit));
        }
        let answer = self.rt.timeout(limit, self.server.post(&self.rt, path, json)).await;
        let answer = answer.map_err(|_| RenderError::Timeout(limit))??;
        if answer.status.is_success() {
            return Ok(answer);
        }
        let shown = &answer.body[..answer.body.len().min(SHOWN)];
        let error = RenderError::Status {
            status: answer.status.as_u16(),
            body: String::from_utf8_lossy(shown).into_owned(),
        };
        if answer.status == StatusCode::FORBIDDEN && !self.told.replace(true) {
            tracing::error!(server = ?self.server, "the token producer gets no tokens: {error}");
        }
        Err(error)
    }

    /// Has the server warmed up beside requests.
    pub(super) fn start_warm_up(self: &Rc<Self>) {
        let render = Rc::clone(self);
        drop(self.rt.daemon("render warm-up", async move { render.warm_up().await }));
    }

    /// Asks the server for something of no interest until it answers, so that it is ready for the first request.
    async fn warm_up(&self) {
        for attempt in 1..=WARM_UP_ATTEMPTS {
            let Err(error) = self.send(self.warm_up_question(WARM_UP_TEXT)).await else {
                let image = self.warm_up_question(&format!("{WARM_UP_TEXT},{WARM_UP_IMAGE}"));
                if let Err(error) = self.send(image).await {
                    tracing::info!(server = ?self.server, %error, "the token producer's server renders no images");
                }
                return;
            };
            match attempt {
                WARM_UP_ATTEMPTS => {
                    tracing::warn!(server = ?self.server, %error, "the token producer's server is not ready");
                }
                _ => self.rt.sleep(WARM_UP_PAUSE).await,
            }
        }
    }

    fn warm_up_question(&self, content: &str) -> Question {
        let mut json =
            format!(r#"{{"messages":[{{"content":[{content}],"role":"user"}}],"model":"#).into_bytes();
        json::write_text(&mut json, &self.model);
        json.push(b'}');
        Question { path: CHAT, json, limit: self.mm_timeout }
    }
}

#[cfg(test)]
mod tests;
