mod messages;

use std::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use serde_json::{Map, Value};

use super::{MultiModalFeature, ParseError, ParsedBody, Parser, Payload, RequestKind, TokenizedPrompt, grpc};
use crate::headers::Headers;
use crate::request_control::Usage;
use messages::{
    EmbedRequest, EmbedResponse, GenerateRequest, GenerateResponse, Input, MultimodalInputs, Output,
};

/// `vllmgrpc-parser`: vLLM's own gRPC API (request-control spec 13.7).
///
/// Its requests name no model, and the bytes are forwarded as they came.
#[derive(Clone, Copy, Debug)]
pub struct VllmGrpcParser;

const GENERATE: &str = "vllm.grpc.engine.VllmEngine/Generate";
const EMBED: &str = "vllm.grpc.engine.VllmEngine/Embed";

impl VllmGrpcParser {
    /// The plugin type.
    pub const TYPE: &str = "vllmgrpc-parser";

    fn generate(message: &[u8]) -> Result<ParsedBody, ParseError> {
        let request = decode::<GenerateRequest>("GenerateRequest", message)?;
        let (prompt, tokenized_prompt) = match request.input {
            None => return Err(ParseError::new("not supported request inputType")),
            Some(Input::Text(text)) => (Value::String(text), None),
            Some(Input::Tokenized(tokenized)) => {
                let ids = tokenized.input_ids;
                let value = ids.iter().copied().map(Value::from).collect();
                let prompt = TokenizedPrompt {
                    prompts: vec![ids.into()],
                    features: request.mm_inputs.as_ref().map_or_else(Vec::new, features),
                    cache_salt: String::new(),
                };
                (value, Some(Arc::new(prompt)))
            }
        };
        Ok(ParsedBody {
            kind: RequestKind::Completions,
            embedded: Some(embedded("prompt", prompt)),
            tokenized_prompt,
            stream: request.stream,
            max_output_tokens: request.sampling_params.and_then(|p| p.max_tokens).map(u64::from),
            ..ParsedBody::default()
        })
    }

    fn embed(message: &[u8]) -> Result<ParsedBody, ParseError> {
        let request = decode::<EmbedRequest>("EmbedRequest", message)?;
        let Some(tokenized) = request.tokenized else {
            return Err(ParseError::new("missing tokenized input in EmbedRequest"));
        };
        let input = tokenized.input_ids.into_iter().map(Value::from).collect();
        let embedded = Some(embedded("input", input));
        Ok(ParsedBody { kind: RequestKind::Embeddings, embedded, ..ParsedBody::default() })
    }
}

fn decode<M: prost::Message + Default>(name: &str, message: &[u8]) -> Result<M, ParseError> {
    M::decode(message).map_err(|error| ParseError(format!("unmarshaling {name}: {error}")))
}

fn embedded(name: &str, value: Value) -> Arc<Map<String, Value>> {
    Arc::new([(name.to_owned(), value)].into_iter().collect())
}

fn features(inputs: &MultimodalInputs) -> Vec<MultiModalFeature> {
    let feature = |(i, range): (usize, &messages::Placeholder)| MultiModalFeature {
        modality: "image".to_owned(),
        hash: inputs.mm_hashes.get(i).cloned().unwrap_or_default(),
        offset: range.offset as usize,
        length: range.length as usize,
    };
    inputs.mm_placeholders.iter().enumerate().map(feature).collect()
}

impl Parser for VllmGrpcParser {
    fn plugin_type(&self) -> &'static str {
        Self::TYPE
    }

    fn claims(&self) -> &'static [&'static str] {
        &[GENERATE, EMBED]
    }

    fn protocols(&self) -> &'static [&'static str] {
        &["h2c"]
    }

    fn rewrites_model(&self) -> bool {
        false
    }

    fn parse_request(&self, headers: &Headers, body: Bytes) -> Result<ParsedBody, ParseError> {
        let message =
            grpc::message(&body).map_err(|_| ParseError::new("invalid or unsupported gRPC payload"))?;
        let path = headers.get(":path").unwrap_or_default();
        let parsed = if path.ends_with(EMBED) {
            Self::embed(message)?
        } else if path.ends_with(GENERATE) {
            Self::generate(message)?
        } else {
            let payload = Payload::Raw(body);
            return Ok(ParsedBody { payload, skip_response_processing: true, ..ParsedBody::default() });
        };
        Ok(ParsedBody { payload: Payload::Protobuf(body), ..parsed })
    }

    fn parse_response(&self, _headers: &Headers, chunk: &[u8]) -> Result<Option<Usage>, ParseError> {
        let unrecognised = |why: ParseError| ParseError(format!("unrecognised gRPC response: {why}"));
        let message = grpc::message(chunk).map_err(unrecognised)?;
        let output = GenerateResponse::decode(message).ok().and_then(|response| response.output);
        if let Some(output) = output {
            let (prompt, completion, cached) = match output {
                Output::Chunk(x) => (x.prompt_tokens, x.completion_tokens, x.cached_tokens),
                Output::Complete(x) => (x.prompt_tokens, x.completion_tokens, x.cached_tokens),
            };
            let (prompt_tokens, completion_tokens) = (i64::from(prompt), i64::from(completion));
            return Ok((prompt > 0 || completion > 0).then(|| Usage {
                prompt_tokens,
                completion_tokens,
                total_tokens: prompt_tokens + completion_tokens,
                cached_tokens: Some(i64::from(cached)),
            }));
        }
        let embedded = decode::<EmbedResponse>("EmbedResponse", message).map_err(unrecognised)?;
        if embedded.embedding.is_empty() && embedded.prompt_tokens == 0 {
            return Err(unrecognised(ParseError::new("neither tokens nor an embedding")));
        }
        let prompt_tokens = i64::from(embedded.prompt_tokens);
        Ok((prompt_tokens > 0).then(|| Usage {
            prompt_tokens,
            total_tokens: prompt_tokens,
            ..Usage::default()
        }))
    }
}
