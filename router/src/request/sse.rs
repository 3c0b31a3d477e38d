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
        let mut record = Record::default();
        return Ok(event_data(chunk)
            .filter(|data| holds(data, b"usage"))
            .find_map(|data| record.event(data)));
    }
    let body = json::decode_object(chunk)?;
    match fields::field(&body, "usage") {
        None => Ok(None),
        Some(Value::Object(usage)) => Ok(Some(body_usage(usage))),
        Some(_) => Err(ParseError::new("the usage of the response is not an object")),
    }
}

fn holds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// What the events of one chunk have said so far.
///
/// The llm-d Router decodes all events of a chunk into one record, so what an event leaves out keeps the value
/// of an event before it, even of one that was skipped for a wrong type (request-control spec 13.3).
#[derive(Default)]
struct Record {
    event_type: String,
    usage: Option<Usage>,
    response: Map<String, Value>,
}

impl Record {
    /// Reads one event: the usage of a completion chunk, or of a finished response.
    fn event(&mut self, data: &[u8]) -> Option<Usage> {
        let event = json::decode_object(data).ok()?;
        let usage = self.take_usage(&event);
        let event_type = fields::text(&event, "type").map(|text| {
            if fields::field(&event, "type").is_some() {
                self.event_type = text.to_owned();
            }
        });
        let response = fields::object(&event, "response").map(|response| {
            self.response.extend(response.into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
        });
        if usage.and(event_type).and(response).is_err() {
            return None;
        }
        match self.usage {
            None if self.event_type == "response.completed" => {
                self.response.get("usage")?.as_object().map(body_usage)
            }
            usage => usage,
        }
    }

    /// Reads the usage of a completion chunk: plain integers only.
    fn take_usage(&mut self, event: &Map<String, Value>) -> Result<(), WrongType> {
        if event.get("usage").is_some_and(Value::is_null) {
            self.usage = None;
        }
        let Some(fields) = fields::object(event, "usage")? else { return Ok(()) };
        let usage = self.usage.get_or_insert_default();
        let mut outcome = Ok(());
        for (name, count) in [
            ("prompt_tokens", &mut usage.prompt_tokens),
            ("completion_tokens", &mut usage.completion_tokens),
            ("total_tokens", &mut usage.total_tokens),
        ] {
            match fields::integer(fields, name) {
                Ok(value) => *count = value.unwrap_or(*count),
                Err(wrong) => outcome = Err(wrong),
            }
        }
        match fields::object(fields, "prompt_tokens_details") {
            Ok(None) => {}
            Ok(Some(details)) => {
                let cached = usage.cached_tokens.get_or_insert(0);
                match fields::integer(details, "cached_tokens") {
                    Ok(value) => *cached = value.unwrap_or(*cached),
                    Err(wrong) => outcome = Err(wrong),
                }
            }
            Err(wrong) => outcome = Err(wrong),
        }
        outcome
    }
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

/// Returns a number truncated, also one in a string; anything else is zero. All numbers are doubles here.
pub(super) fn count(value: &Value) -> i64 {
    match value {
        Value::Number(number) => number.as_f64().unwrap_or(0.0) as i64,
        Value::String(text) => text.parse::<f64>().unwrap_or(0.0) as i64,
        _ => 0,
    }
}
