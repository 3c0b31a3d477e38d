//! `POST /tokenize` and `/detokenize` (model-server spec 1.10).

use executor::http::Body;
use http::Response;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chat::Conversation;
use super::error::ApiError;
use super::{Inner, fields, lax, reply};
use crate::engine::Token;

#[derive(Debug, Deserialize)]
struct Tokenize {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default, deserialize_with = "lax::truth")]
    return_token_strs: bool,
}

#[derive(Serialize)]
struct Tokens {
    count: usize,
    max_model_len: u32,
    tokens: Vec<Token>,
    token_strs: Option<Vec<String>>,
}

/// Returns the tokens of a text or, where both are there, of a conversation.
pub(super) fn tokenize(server: &Inner, body: &Value) -> Result<Response<Body>, ApiError> {
    let asked: Tokenize = fields::read(body)?;
    let conversation = Conversation::read(body)?;
    if body.get("messages").is_none() && asked.prompt.is_none() {
        return Err(ApiError::shape("prompt or messages is required").field("body.prompt"));
    }
    server.adapter(asked.model.as_deref(), true)?;
    let tokens = match asked.prompt.filter(|_| body.get("messages").is_none()) {
        Some(prompt) => server.tokenizer.encode(&prompt),
        None => {
            let (messages, ending) = conversation.template()?;
            server.tokenizer.encode_chat(&messages, ending)
        }
    };
    let pieces = || tokens.iter().map(|token| server.tokenizer.piece(*token)).collect();
    let token_strs = asked.return_token_strs.then(pieces);
    let max_model_len = server.options.max_model_len;
    Ok(reply::json(&Tokens { count: tokens.len(), max_model_len, tokens, token_strs }))
}

#[derive(Debug, Deserialize)]
struct Detokenize {
    #[serde(default)]
    model: Option<String>,
    tokens: Vec<Token>,
}

/// Returns the text of tokens; ids that are no token have none.
pub(super) fn detokenize(server: &Inner, body: &Value) -> Result<Response<Body>, ApiError> {
    #[derive(Serialize)]
    struct Text {
        prompt: String,
    }
    let asked: Detokenize = fields::read(body)?;
    server.adapter(asked.model.as_deref(), true)?;
    Ok(reply::json(&Text { prompt: server.tokenizer.decode(&asked.tokens) }))
}
