//! Token usage in OpenAI-style answers: one JSON body, or server-sent events (request-control spec 13.3).

use serde_json::{Map, Value};

use super::fields::{self, WrongType};
use super::{ParseError, json};
use crate::headers::Headers;
use crate::request_control::Usage;

/// Returns whether a response is a stream of server-sent events.
pub(super) fn is_event_stream(headers: &Headers) -> bool {
    let content_type = headers.get("content-type").unwrap_or_default();
    content_type.to_ascii_lowercase().contains("text/event-stream")
}

/// Iterates over the data of the events in a chunk, as text that may not be JSON.
///
/// A line counts when it begins with exactly `data: ` and is not `[DONE]`. A line that two chunks share is in
/// neither: chunks pass unchanged, so none is held back.
pub(super) fn event_data(chunk: &[u8]) -> impl Iterator<Item = &[u8]> {
    chunk
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_prefix(b"data: "))
        .filter(|data| data.trim_ascii() != b"[DONE]")
}

/// Returns the usage in a chunk of an OpenAI-style answer.
///
/// # Errors
/// A chunk that the content type calls JSON and that is not.
pub(super) fn openai_usage(headers: &Headers, chunk: &[u8]) -> Result<Option<Usage>, ParseError> {
    if chunk.is_empty() {
        return Ok(None);
    }
    if is_event_stream(headers) {
        return Ok(event_data(chunk).filter(|data| holds(data, b"usage")).find_map(event_usage));
    }
    let body = json::decode_object(chunk)?;
    match body.get("usage") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(usage)) => Ok(Some(body_usage(usage))),
        Some(_) => Err(ParseError::new("the usage of the response is not an object")),
    }
}

fn holds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// Reads one event: the usage of a completion chunk, or of a finished response.
fn event_usage(data: &[u8]) -> Option<Usage> {
    let event = json::decode_object(data).ok()?;
    match fields::object(&event, "usage").ok()? {
        Some(usage) => strict_usage(usage).ok(),
        None => {
            let response = fields::object(&event, "response").ok()?;
            if fields::text(&event, "type") != Ok("response.completed") {
                return None;
            }
            response?.get("usage")?.as_object().map(body_usage)
        }
    }
}

/// Reads the usage of a completion chunk: plain integers only.
fn strict_usage(usage: &Map<String, Value>) -> Result<Usage, WrongType> {
    let count = |name| fields::integer(usage, name).map(Option::unwrap_or_default);
    Ok(Usage {
        prompt_tokens: count("prompt_tokens")?,
        completion_tokens: count("completion_tokens")?,
        total_tokens: count("total_tokens")?,
        cached_tokens: fields::object(usage, "prompt_tokens_details")?
            .map(|details| fields::integer(details, "cached_tokens").map(Option::unwrap_or_default))
            .transpose()?,
    })
}

/// Reads the usage of a whole answer, under either pair of names.
fn body_usage(usage: &Map<String, Value>) -> Usage {
    let first = |names: [&str; 2]| {
        names.iter().find_map(|name| usage.get(*name).filter(|v| !v.is_null())).map_or(0, count)
    };
    let cached = |details: &str| usage.get(details)?.as_object()?.get("cached_tokens").map(count);
    Usage {
        prompt_tokens: first(["prompt_tokens", "input_tokens"]),
        completion_tokens: first(["completion_tokens", "output_tokens"]),
        total_tokens: usage.get("total_tokens").map_or(0, count),
        cached_tokens: cached("input_tokens_details").or_else(|| cached("prompt_tokens_details")),
    }
}

/// Returns a number truncated, also one in a string; anything else is zero.
pub(super) fn count(value: &Value) -> i64 {
    match value {
        Value::Number(number) => number.as_i64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as i64),
        Value::String(text) => text.parse().unwrap_or(0),
        _ => 0,
    }
}
