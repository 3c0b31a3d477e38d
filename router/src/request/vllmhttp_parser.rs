use bytes::Bytes;

use super::{
    Generate, ParseError, ParsedBody, Parser, Payload, Prompt, RequestKind, fields, json, request_path, sse,
};
use crate::headers::Headers;
use crate::request_control::Usage;

/// `vllmhttp-parser`: vLLM's token-in API `generate` (request-control spec 13.5).
#[derive(Clone, Copy, Debug)]
pub struct VllmHttpParser;

const PATH: &str = "inference/v1/generate";

impl VllmHttpParser {
    /// The plugin type.
    pub const TYPE: &str = "vllmhttp-parser";
}

impl Parser for VllmHttpParser {
    fn plugin_type(&self) -> &'static str {
        Self::TYPE
    }

    fn claims(&self) -> &'static [&'static str] {
        &[PATH]
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["h2c", "http"]
    }

    fn rewrites_model(&self) -> bool {
        true
    }

    fn parse_request(&self, headers: &Headers, body: Bytes) -> Result<ParsedBody, ParseError> {
        let path = request_path(headers);
        if !path.ends_with(PATH) {
            return Err(ParseError(format!("unsupported path: {path}")));
        }
        let json::Body { fields, shadowed } = json::decode_body(&body)?;
        let refuse = |why: &str| ParseError(format!("invalid generate request: {why}"));
        let Ok(Prompt::Generate(generate)) = Prompt::read(RequestKind::Generate, &fields, None) else {
            return Err(refuse("a field has the wrong type"));
        };
        if !Prompt::accepts(RequestKind::Generate, &shadowed) {
            return Err(refuse("a repeated field has the wrong type"));
        }
        if generate.token_ids.is_empty() {
            return Err(refuse("must have non-empty token_ids field"));
        }
        if let Some(at) = generate.token_ids.iter().position(|id| Generate::token(id).is_err()) {
            return Err(refuse(&format!("token_ids[{at}]: invalid value {}", generate.token_ids[at])));
        }
        let sampling = fields.get("sampling_params").and_then(|params| params.as_object());
        Ok(ParsedBody {
            kind: RequestKind::Generate,
            model: fields.get("model").and_then(|m| m.as_str()).unwrap_or_default().to_owned(),
            stream: fields.get("stream").and_then(|s| s.as_bool()).unwrap_or(false),
            max_output_tokens: sampling.and_then(|params| fields::first_count(params, &["max_tokens"])),
            payload: Payload::Json(fields),
            ..ParsedBody::default()
        })
    }

    fn parse_response(&self, headers: &Headers, chunk: &[u8]) -> Result<Option<Usage>, ParseError> {
        sse::openai_usage(headers, chunk)
    }
}
