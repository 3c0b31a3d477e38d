use bytes::Bytes;

use super::{
    ParseError, ParsedBody, Parser, Payload, Prompt, RequestKind, fields, json, path_ends_with, request_path,
    sse,
};
use crate::headers::Headers;
use crate::request_control::Usage;

/// `openai-parser`: the OpenAI APIs (request-control spec 13.3).
#[derive(Clone, Copy, Debug)]
pub struct OpenAiParser;

/// The API of a path, first match; any other path is completions.
const KINDS: [(&str, RequestKind); 8] = [
    ("conversations", RequestKind::Conversations),
    ("responses", RequestKind::Responses),
    ("chat/completions", RequestKind::Chat),
    ("chat/completions/render", RequestKind::Chat),
    ("completions", RequestKind::Completions),
    ("completions/render", RequestKind::Completions),
    ("embeddings", RequestKind::Embeddings),
    ("images/generations", RequestKind::Images),
];

impl OpenAiParser {
    /// The plugin type.
    pub const TYPE: &str = "openai-parser";

    /// Reads a body of the API `kind`.
    ///
    /// # Errors
    /// A body that is not JSON, or that lacks what its API demands.
    pub(super) fn parse(kind: RequestKind, body: &[u8]) -> Result<ParsedBody, ParseError> {
        let json::Body { fields, shadowed } = json::decode_body(body)
            .map_err(|error| ParseError(format!("error unmarshaling request bodyMap: {error}")))?;
        let complete = match Prompt::read(kind, &fields, None).unwrap_or_default() {
            Prompt::None => false,
            Prompt::Completions(completions) => !completions.prompt.is_empty(),
            Prompt::Chat(chat) => !chat.messages.is_empty(),
            Prompt::Responses(responses) => responses.input.is_some(),
            Prompt::Conversations(conversations) => !conversations.items.is_empty(),
            Prompt::Embeddings(embeddings) => !embeddings.input.is_empty(),
            Prompt::Images(images) => !images.prompt.is_empty(),
            Prompt::Messages(_) | Prompt::Generate(_) => true,
        };
        let (refusal, caps): (_, &[&str]) = match kind {
            RequestKind::Chat => (
                "invalid chat completions request: must have valid messages field",
                &["max_completion_tokens", "max_tokens"],
            ),
            RequestKind::Responses => {
                ("invalid responses request: must have input field", &["max_output_tokens"])
            }
            RequestKind::Conversations => ("invalid conversations request: must have items field", &[]),
            RequestKind::Embeddings => ("invalid embeddings request: must have input field", &[]),
            RequestKind::Images => ("invalid images generations request: must have prompt field", &[]),
            _ => ("invalid completions request: must have prompt field", &["max_tokens"]),
        };
        if !complete || !Prompt::accepts(kind, &shadowed) {
            return Err(ParseError::new(refusal));
        }
        Ok(ParsedBody {
            kind,
            model: fields.get("model").and_then(|m| m.as_str()).unwrap_or_default().to_owned(),
            stream: fields.get("stream").and_then(|s| s.as_bool()).unwrap_or(false),
            max_output_tokens: fields::first_count(&fields, caps),
            payload: Payload::Json(fields),
            ..ParsedBody::default()
        })
    }
}

impl Parser for OpenAiParser {
    fn plugin_type(&self) -> &'static str {
        Self::TYPE
    }

    fn claims(&self) -> &'static [&'static str] {
        &[
            "chat/completions",
            "completions",
            "embeddings",
            "responses",
            "conversations",
            "chat/completions/render",
            "completions/render",
            "images/generations",
        ]
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["h2c", "http"]
    }

    fn rewrites_model(&self) -> bool {
        true
    }

    fn parse_request(&self, headers: &Headers, body: Bytes) -> Result<ParsedBody, ParseError> {
        let path = request_path(headers);
        let api = KINDS.iter().find(|(suffix, _)| path_ends_with(path, suffix));
        Self::parse(api.map_or(RequestKind::Completions, |(_, kind)| *kind), &body)
    }

    fn parse_response(&self, headers: &Headers, chunk: &[u8]) -> Result<Option<Usage>, ParseError> {
        sse::openai_usage(headers, chunk)
    }
}
