//! A client's request and its answer as they are on a wire: JSON, and events.

use bytes::{Buf, Bytes, BytesMut};
use executor::http::Body;
use http::{HeaderValue, Request, header};
use serde::{Deserialize, Serialize};

use crate::engine::Token;
use crate::model_server::Tokens;

/// A body of `/v1/completions` that asks for exactly so many tokens.
#[derive(Serialize)]
struct Completion<'a> {
    model: &'a str,
    prompt: &'a [Token],
    max_tokens: u32,
    ignore_eos: bool,
    temperature: u32,
    stream: bool,
    stream_options: StreamOptions,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Returns the request for exactly `output_tokens` tokens behind `prompt`.
pub(super) fn request(model: &str, prompt: &[Token], output_tokens: u32) -> Request<Body> {
    let completion = Completion {
        model,
        prompt,
        max_tokens: output_tokens,
        ignore_eos: true,
        temperature: 0,
        stream: true,
        stream_options: StreamOptions { include_usage: true },
    };
    let body = serde_json::to_vec(&completion).expect("texts and numbers are JSON");
    let length = HeaderValue::from(body.len());
    let mut request = Request::post("/v1/completions").body(Body::from(body)).expect("a path and no headers");
    request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.headers_mut().insert(header::CONTENT_LENGTH, length);
    request
}

/// What a client reads from the events of an answer, however they are cut into frames.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// What came behind the last whole line.
    rest: BytesMut,
    /// Whether a token has come.
    pub(super) begun: bool,
    /// The counts of the last event.
    pub(super) tokens: Option<Tokens>,
    /// Whether the answer said that it is whole.
    pub(super) done: bool,
    /// The message of an error in place of a token.
    pub(super) error: Option<String>,
}

/// The members of an event that a client looks at.
#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    choices: Vec<serde::de::IgnoredAny>,
    usage: Option<Usage>,
    error: Option<Error>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u32,
    completion_tokens: u32,
    prompt_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: u32,
}

#[derive(Deserialize)]
struct Error {
    message: String,
}

impl Events {
    /// Takes the next part of the answer.
    pub(super) fn take(&mut self, part: &Bytes) {
        self.rest.extend_from_slice(part);
        while let Some(end) = memchr::memchr(b'\n', &self.rest) {
            let line = self.rest.split_to(end);
            self.rest.advance(1);
            if let Some(data) = line.strip_prefix(b"data: ") {
                self.event(data);
            }
        }
    }

    fn event(&mut self, data: &[u8]) {
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        let Ok(event) = serde_json::from_slice::<Event>(data) else {
            self.error.get_or_insert_with(|| "an event of the answer is no JSON".to_owned());
            return;
        };
        self.begun |= !event.choices.is_empty();
        if let Some(Usage { prompt_tokens, completion_tokens, prompt_tokens_details }) = event.usage {
            let cached = prompt_tokens_details.map_or(0, |details| details.cached_tokens);
            self.tokens = Some(Tokens { prompt: prompt_tokens, cached, output: completion_tokens });
        }
        if let Some(error) = event.error {
            self.error.get_or_insert(error.message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "data: {\"choices\":[{\"index\":0,\"text\":\"a\"}],\"usage\":null}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"total_tokens\":9,\"completion_tokens\":2,\
        \"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n";

    #[test]
    fn events_may_be_cut_anywhere() {
        for cut in 0..ANSWER.len() {
            let mut events = Events::default();
            let (front, back) = ANSWER.as_bytes().split_at(cut);
            events.take(&Bytes::copy_from_slice(front));
            assert_eq!(events.begun, cut > ANSWER.find('\n').unwrap());
            events.take(&Bytes::copy_from_slice(back));
            assert!(events.done && events.error.is_none());
            assert_eq!(events.tokens, Some(Tokens { prompt: 7, cached: 4, output: 2 }));
        }
    }

    #[test]
    fn an_error_is_read_and_an_answer_without_an_end_has_none() {
        let mut events = Events::default();
        events.take(&Bytes::from_static(b"data: {\"error\":{\"message\":\"too long\",\"code\":400}}\n\n"));
        assert_eq!(events.error.as_deref(), Some("too long"));
        assert!(!events.begun && !events.done && events.tokens.is_none());
    }

    #[test]
    fn a_request_says_what_it_asks_for() {
        let request = request("m", &[1, 2], 3);
        let Body::Full(body) = request.body() else { panic!("a whole body") };
        let body: serde_json::Value = serde_json::from_slice(body).unwrap();
        let expected = serde_json::json!({
            "model": "m", "prompt": [1, 2], "max_tokens": 3, "ignore_eos": true, "temperature": 0,
            "stream": true, "stream_options": {"include_usage": true},
        });
        assert_eq!(body, expected);
    }
}
