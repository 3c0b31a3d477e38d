use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::{OpenAiParser, ParseError, ParsedBody, Parser, Payload, RequestKind, grpc, sse};
use crate::headers::Headers;
use crate::request_control::Usage;

/// `vertexai-parser`: Vertex AI's prediction service, gRPC messages around OpenAI-style JSON (request-control spec
/// 13.8).
///
/// The bytes are forwarded as they came, so the model cannot be rewritten.
#[derive(Clone, Copy, Debug)]
pub struct VertexAiParser;

/// Methods: path suffix, message and the API of the JSON inside.
const METHODS: [(&str, &str, RequestKind); 3] = [
    ("PredictionService/ChatCompletions", "ChatCompletionsRequest", RequestKind::Chat),
    ("PredictionService/StreamRawPredict", "StreamRawPredictRequest", RequestKind::Responses),
    ("PredictionService/RawPredict", "RawPredictRequest", RequestKind::Responses),
];

/// What the three requests have in common.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, optional, tag = "2")]
    http_body: Option<HttpBody>,
}

/// `google.api.HttpBody`.
#[derive(Clone, PartialEq, Message)]
struct HttpBody {
    #[prost(string, tag = "1")]
    content_type: String,
    #[prost(bytes = "bytes", tag = "2")]
    data: Bytes,
}

impl VertexAiParser {
    /// The plugin type.
    pub const TYPE: &str = "vertexai-parser";
}

impl Parser for VertexAiParser {
    fn plugin_type(&self) -> &'static str {
        Self::TYPE
    }

    fn claims(&self) -> &'static [&'static str] {
        &[METHODS[0].0, METHODS[1].0, METHODS[2].0]
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["h2c"]
    }

    fn rewrites_model(&self) -> bool {
        false
    }

    fn parse_request(&self, headers: &Headers, body: Bytes) -> Result<ParsedBody, ParseError> {
        let path = headers.get(":path").unwrap_or_default();
        let Some((_, name, kind)) = METHODS.iter().find(|(suffix, ..)| path.ends_with(suffix)) else {
            let payload = Payload::Raw(body);
            return Ok(ParsedBody { payload, skip_response_processing: true, ..ParsedBody::default() });
        };
        let message = grpc::message(&body)
            .map_err(|error| ParseError(format!("invalid or unsupported gRPC payload: {error}")))?;
        let request =
            Request::decode(message).map_err(|error| ParseError(format!("unmarshaling {name}: {error}")))?;
        let Some(http_body) = request.http_body else {
            return Err(ParseError(format!("{name} has no HttpBody")));
        };
        let mut parsed = OpenAiParser::parse(*kind, &http_body.data)
            .map_err(|error| ParseError(format!("parsing {name}: {error}")))?;
        if let Payload::Json(fields) = std::mem::replace(&mut parsed.payload, Payload::Protobuf(body)) {
            parsed.embedded = Some(Arc::new(fields));
        }
        Ok(parsed)
    }

    fn parse_response(&self, headers: &Headers, chunk: &[u8]) -> Result<Option<Usage>, ParseError> {
        if chunk.is_empty() {
            return Ok(None);
        }
        let message = grpc::message(chunk)
            .map_err(|error| ParseError(format!("parsing gRPC response payload: {error}")))?;
        let body = HttpBody::decode(message)
            .map_err(|error| ParseError(format!("unmarshaling HttpBody response: {error}")))?;
        sse::openai_usage(headers, &body.data)
    }
}
