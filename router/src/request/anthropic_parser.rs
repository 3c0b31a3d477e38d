use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::{
    Messages, ParseError, ParsedBody, Parser, Payload, Prompt, RequestKind, Verbatim, fields, json,
    request_path, sse,
};
use crate::headers::Headers;
use crate::request_control::Usage;

/// `anthropic-parser`: Anthropic's messages API (request-control spec 13.4).
#[derive(Clone, Copy, Debug)]
pub struct AnthropicParser;

impl AnthropicParser {
    /// The plugin type.
    pub const TYPE: &str = "anthropic-parser";
}

impl Parser for AnthropicParser {
    fn plugin_type(&self) -> &'static str {
        Self::TYPE
    }

    fn claims(&self) -> &'static [&'static str] {
        &["messages", "messages/count_tokens"]
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["h2c", "http"]
    }

    fn rewrites_model(&self) -> bool {
        true
    }

    fn parse_request(&self, headers: &Headers, body: Bytes) -> Result<ParsedBody, ParseError> {
        let path = request_path(headers);
        if path.ends_with("/messages/count_tokens") {
            let payload = Payload::Raw(body);
            return Ok(ParsedBody { payload, skip_response_processing: true, ..ParsedBody::default() });
        }
        if !path.ends_with("/messages") {
            return Err(ParseError(format!("unsupported API endpoint: {path}")));
        }
        let json::Body { fields, shadowed } = json::decode_body(&body)
            .map_err(|error| ParseError(format!("error unmarshaling request body: {error}")))?;
        let wrong = || ParseError::new("error parsing messages request: a field has the wrong type");
        let messages = Messages::read(&fields, None).map_err(|_| wrong())?;
        if !Prompt::accepts(RequestKind::Messages, &shadowed) {
            return Err(wrong());
        }
        if messages.messages.is_empty() {
            return Err(ParseError::new("invalid messages request: must have at least one message"));
        }
        let verbatim = messages.wants_verbatim().then(|| Verbatim::collect(&json::mend(&body))).flatten();
        Ok(ParsedBody {
            kind: RequestKind::Messages,
            model: fields.get("model").and_then(|m| m.as_str()).unwrap_or_default().to_owned(),
            stream: fields.get("stream").and_then(|s| s.as_bool()).unwrap_or(false),
            max_output_tokens: fields::first_count(&fields, &["max_tokens"]),
            verbatim: verbatim.map(Arc::new),
            payload: Payload::Json(fields),
            ..ParsedBody::default()
        })
    }

    fn parse_response(&self, headers: &Headers, chunk: &[u8]) -> Result<Option<Usage>, ParseError> {
        if chunk.is_empty() {
            return Ok(None);
        }
        if sse::is_event_stream(headers) {
            return Ok(stream_usage(chunk));
        }
        let body = json::decode_object(chunk)?;
        Ok(body.get("usage").and_then(Value::as_object).map(|usage| {
            let mut seen = Seen::default();
            seen.input(usage);
            seen.output(usage);
            seen.usage()
        }))
    }
}

/// Adds up what the events of one chunk say; usage that comes in other chunks is not merged.
fn stream_usage(chunk: &[u8]) -> Option<Usage> {
    let mut seen = None;
    for event in sse::event_data(chunk).filter_map(|data| json::decode_object(data).ok()) {
        let usage_of = |object: &Map<String, Value>| object.get("usage").and_then(Value::as_object).cloned();
        match event.get("type").and_then(Value::as_str) {
            Some("message_start") => {
                if let Some(usage) = event.get("message").and_then(Value::as_object).and_then(usage_of) {
                    seen.get_or_insert_with(Seen::default).input(&usage);
                }
            }
            Some("message_delta") => {
                if let Some(usage) = usage_of(&event) {
                    seen.get_or_insert_with(Seen::default).output(&usage);
                }
            }
            _ => {}
        }
    }
    seen.map(|seen| seen.usage())
}

/// Token counts seen so far.
#[derive(Default)]
struct Seen {
    input: i64,
    output: i64,
    cached: Option<i64>,
}

impl Seen {
    fn input(&mut self, usage: &Map<String, Value>) {
        if let Some(tokens) = number(usage, "input_tokens") {
            self.input = tokens;
        }
        if let Some(tokens) = number(usage, "cache_read_input_tokens") {
            self.cached = Some(tokens);
        }
    }

    fn output(&mut self, usage: &Map<String, Value>) {
        if let Some(tokens) = number(usage, "output_tokens") {
            self.output = tokens;
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            prompt_tokens: self.input,
            completion_tokens: self.output,
            total_tokens: self.input.saturating_add(self.output),
            cached_tokens: self.cached,
        }
    }
}

fn number(usage: &Map<String, Value>, name: &str) -> Option<i64> {
    usage.get(name).filter(|value| value.is_number()).map(sse::count)
}
