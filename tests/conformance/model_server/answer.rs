//! Answers in the form of the vectors, and the placeholders in them.

use std::collections::BTreeMap;

use bytes::Bytes;
use executor::http::Body;
use http_body_util::BodyExt;
use serde_json::{Map, Value, json};

/// Bytes of a text that the vectors keep.
const TEXT: usize = 120;

/// Writes an answer as the vectors do.
pub(super) async fn of(response: http::Response<Body>) -> Value {
    let (head, body) = response.into_parts();
    let mut headers: Vec<Value> = head
        .headers
        .iter()
        .map(|(name, value)| json!([name.as_str(), value.to_str().unwrap_or_default()]))
        .collect();
    if matches!(body, Body::Stream(_)) {
        // The connection's server adds it.
        headers.push(json!(["transfer-encoding", "chunked"]));
    }
    let content_type =
        head.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let chunks = chunks(body).await;
    let whole = String::from_utf8_lossy(&chunks.concat()).into_owned();
    let mut answer = json!({"status": head.status.as_u16(), "headers": headers});
    if whole.is_empty() {
        answer["body"] = json!("");
    } else if content_type.starts_with("text/event-stream") {
        let counts: Vec<usize> =
            chunks.iter().map(|chunk| events(&String::from_utf8_lossy(chunk)).len()).collect();
        answer["events"] = events(&whole).into();
        answer["events_per_chunk"] = if counts.iter().all(|n| *n == 1) { json!(1) } else { json!(counts) };
    } else if content_type == "application/json" {
        answer["body"] = serde_json::from_str(&whole).unwrap_or_else(|_| json!(whole));
    } else {
        answer["text"] = json!(whole.chars().take(TEXT).collect::<String>());
        answer["text_bytes"] = json!(whole.len());
    }
    answer
}

async fn chunks(mut body: Body) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        chunks.extend(frame.into_data().ok());
    }
    chunks
}

fn events(text: &str) -> Vec<Value> {
    let event = |text: &str| match text.strip_prefix("data: ") {
        Some(data) => serde_json::from_str(data).unwrap_or_else(|_| json!(data)),
        None => json!({"lines": text}),
    };
    text.split_terminator("\n\n").map(event).collect()
}

/// Puts aside what the vectors do not promise: the order between the events of several choices; which of two ways an
/// empty body is written in; and which families that are not vLLM's a page of metrics begins with.
pub(super) fn canonical(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(events) = answer.get("events").and_then(Value::as_array) {
        let mut by_choice: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
        for event in events {
            let index = event["choices"][0]["index"].as_u64();
            by_choice
                .entry(index.map_or("none".to_owned(), |index| index.to_string()))
                .or_default()
                .push(event);
        }
        answer["events"] = json!(by_choice);
    }
    if answer.get("text").and_then(Value::as_str) == Some("") {
        let members = answer.as_object_mut().expect("it has a member");
        members.remove("text");
        members.insert("body".to_owned(), json!(""));
    }
    if answer["text"]
        .as_str()
        .is_some_and(|text| ["# HELP python_", "# HELP vllm:"].iter().any(|p| text.starts_with(p)))
    {
        answer["text"] = json!("# HELP …");
    }
    answer
}

/// Replaces the texts of a whole answer's choices, where there are any.
pub(super) fn hide_texts(answer: &mut Value) {
    let choices = answer.pointer_mut("/body/choices").and_then(Value::as_array_mut);
    for text in choices.into_iter().flatten().filter_map(|choice| choice.get_mut("text")) {
        *text = json!(text.as_str().map(|_| "<text>"));
    }
}

/// Replaces what fits a placeholder of `want` by the placeholder.
pub(super) fn masked(want: &Value, got: &Value, version: &str) -> Value {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => match (want.get("<token text>"), got.values().next()) {
            (Some(value), Some(first)) => json!({"<token text>": masked(value, first, version)}),
            _ => {
                let masked = |(name, value): (&String, &Value)| {
                    let value =
                        want.get(name).map_or_else(|| value.clone(), |want| masked(want, value, version));
                    (name.clone(), value)
                };
                Value::Object(got.iter().map(masked).collect::<Map<_, _>>())
            }
        },
        (Value::Array(want), Value::Array(got)) => {
            let wants = want.iter().map(Some).chain(std::iter::repeat(None));
            let masked = |(got, want): (&Value, Option<&Value>)| {
                want.map_or_else(|| got.clone(), |w| masked(w, got, version))
            };
            got.iter().zip(wants).map(masked).collect()
        }
        (Value::String(pattern), got) if fits(pattern, got, version) => want.clone(),
        _ => got.clone(),
    }
}

/// Whether a value may stand where the vectors have `pattern`.
fn fits(pattern: &str, got: &Value, version: &str) -> bool {
    match (pattern, got) {
        ("<unix>" | "<n>" | "<logprob>", got) => got.is_number(),
        ("<message>", Value::String(text)) => !text.is_empty(),
        ("<engine configuration>", got) => got["vllm_config"].is_object(),
        ("<fingerprint>", Value::String(text)) => {
            text.strip_prefix(&format!("vllm-{version}-")).is_some_and(|rest| is_hex(rest, 8))
        }
        (_, Value::String(text)) => {
            let hex =
                [("<hex16>", 16), ("<hex32>", 32)].into_iter().find(|(name, _)| pattern.ends_with(name));
            hex.is_some_and(|(name, digits)| {
                let before = &pattern[..pattern.len() - name.len()];
                text.strip_prefix(before).is_some_and(|rest| is_hex(rest, digits))
            })
        }
        _ => false,
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
