//! A request as plugins see it, and the parsers that read one from a body.

mod anthropic_parser;
mod fields;
mod grpc;
pub mod json;
mod openai_parser;
mod parser;
mod passthrough_parser;
mod prompt;
mod registry;
mod sse;
mod vertexai_parser;
mod vllmgrpc_parser;
mod vllmhttp_parser;

pub use anthropic_parser::AnthropicParser;
pub use openai_parser::OpenAiParser;
pub use parser::{ParseError, Parser};
pub use passthrough_parser::PassthroughParser;
pub use prompt::{
    AnthropicBlock, AnthropicMessage, Audio, Block, Chat, Completions, Content, ConversationItem,
    Conversations, Embeddings, Generate, Images, Input, Message, Messages, MmFeatures, Placeholder, Prompt,
    Responses, Source, Tool, Verbatim,
};
pub use registry::{ParserRegistry, TYPES, request_path};

use registry::path_ends_with;
pub use vertexai_parser::VertexAiParser;
pub use vllmgrpc_parser::VllmGrpcParser;
pub use vllmhttp_parser::VllmHttpParser;

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::headers::Headers;
use crate::scheduling::SchedulingResult;

/// One client request, shared by every plugin that sees it (scheduling spec 1.1).
#[derive(Debug, Default)]
pub struct InferenceRequest {
    /// Value of `x-request-id`.
    pub request_id: String,
    /// Model after rewriting.
    pub target_model: String,
    /// Parsed body; `None` for requests without one.
    pub body: Option<ParsedBody>,
    /// Live headers: what a plugin adds is forwarded.
    pub headers: Headers,
    /// Priority of the objective; negative = sheddable.
    pub priority: i64,
    /// Flow-control key of the tenant.
    pub fairness_id: String,
    /// Raw body size. Unit: bytes.
    pub size_bytes: usize,
    /// Values that plugins hand to each other for this request.
    pub attributes: RequestAttributes,
    /// Lives as long as the request's stream, for state that must not outlive it.
    pub stream: Rc<()>,
    /// The decision, set by the director once there is one, for the hooks of the response.
    pub scheduling_result: Option<Rc<SchedulingResult>>,
}

impl InferenceRequest {
    /// Returns the tokenized prompt, `None` until a token producer has run.
    pub fn tokenized_prompt(&self) -> Option<&TokenizedPrompt> {
        self.body.as_ref()?.tokenized_prompt.as_deref()
    }
}

/// Request attributes: text key to value of any type.
#[derive(Debug, Default)]
pub struct RequestAttributes(BTreeMap<String, Rc<dyn Any>>);

impl RequestAttributes {
    /// Sets `key`; the last value wins.
    pub fn put<T: Any>(&mut self, key: impl Into<String>, value: T) {
        self.0.insert(key.into(), Rc::new(value));
    }

    /// Returns the value, `None` where it is absent or of another type.
    pub fn get<T: Any>(&self, key: &str) -> Option<&T> {
        self.0.get(key)?.downcast_ref()
    }

    /// Iterates over the keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

/// A request body after its parser.
///
/// `Send`: bodies are parsed on the threads that read them and handed to the core whole.
#[derive(Clone, Debug, Default)]
pub struct ParsedBody {
    /// Which API the body belongs to.
    pub kind: RequestKind,
    /// Model as the client named it; empty when it named none.
    pub model: String,
    /// Whether the client asked for a stream.
    pub stream: bool,
    /// What is forwarded to the model server.
    pub payload: Payload,
    /// The JSON that holds the prompt, where it is not the payload (protobuf bodies).
    pub embedded: Option<Arc<Map<String, Value>>>,
    /// Parts of an Anthropic body whose text matters byte for byte.
    pub verbatim: Option<Arc<Verbatim>>,
    /// Token ids, filled by a token producer or given by the client.
    pub tokenized_prompt: Option<Arc<TokenizedPrompt>>,
    /// The client's cap on output tokens, where it gave one.
    pub max_output_tokens: Option<u64>,
    /// Whether the response needs no processing: the stream ends with the routing decision.
    pub skip_response_processing: bool,
}

impl ParsedBody {
    /// Returns what the prompt says, borrowed from the JSON that holds it.
    ///
    /// [`Prompt::None`] for bodies that the router does not understand, and where a plugin has changed the
    /// payload so that it is no longer a request of its kind.
    pub fn prompt(&self) -> Prompt<'_> {
        let Some(fields) = self.fields() else { return Prompt::None };
        Prompt::read(self.kind, fields, self.verbatim.as_deref()).unwrap_or_default()
    }

    /// Returns the JSON that holds the prompt, `None` for a body without any.
    pub fn fields(&self) -> Option<&Map<String, Value>> {
        match (&self.embedded, &self.payload) {
            (Some(embedded), _) => Some(embedded),
            (None, Payload::Json(fields)) => Some(fields),
            _ => None,
        }
    }
}

/// The API that a request body belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// None that the router understands.
    #[default]
    None,
    /// `/v1/completions`.
    Completions,
    /// `/v1/chat/completions`.
    Chat,
    /// Anthropic's `/v1/messages`.
    Messages,
    /// `/v1/responses`.
    Responses,
    /// `/v1/conversations`.
    Conversations,
    /// `/v1/embeddings`.
    Embeddings,
    /// vLLM's `/inference/v1/generate`.
    Generate,
    /// `/v1/images/generations`.
    Images,
}

/// The body in the form in which it is forwarded.
#[derive(Clone, Debug, Default)]
pub enum Payload {
    /// No body.
    #[default]
    Empty,
    /// A JSON object, re-serialised when it is forwarded (request-control spec 2.5).
    Json(Map<String, Value>),
    /// Bytes that are forwarded as they came: opaque bodies.
    Raw(Bytes),
    /// Bytes that are forwarded as they came: framed protobuf messages.
    Protobuf(Bytes),
    /// A completion request that never was text: a simulation's client hands it over in process, and the
    /// simulated model server takes it as it is.
    InProcess(Arc<CompletionCall>),
}

/// A completion request in process: what the text of one would say.
#[derive(Clone, Debug, Default)]
pub struct CompletionCall {
    /// Model that the client asks for.
    pub model: Arc<str>,
    /// Prompt token ids.
    pub prompt: Arc<TokenizedPrompt>,
    /// Tokens to generate, exactly.
    pub output_tokens: u64,
}

/// Token ids of a request's prompts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TokenizedPrompt {
    /// Token ids, one list a prompt.
    pub prompts: Vec<Arc<[u32]>>,
    /// Multimodal items in prompt order; offsets count in the first prompt.
    pub features: Vec<MultiModalFeature>,
    /// Salt that separates tenants' caches; empty = none.
    pub cache_salt: String,
}

impl TokenizedPrompt {
    /// Returns the tokens of all prompts together.
    pub fn token_count(&self) -> usize {
        self.prompts.iter().map(|p| p.len()).sum()
    }
}

/// One multimodal item in a tokenized prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiModalFeature {
    /// `image`, `audio` or `video`.
    pub modality: String,
    /// Content hash.
    pub hash: String,
    /// First token.
    pub offset: usize,
    /// Tokens.
    pub length: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scheduling spec 1.1.
    #[test]
    fn the_last_attribute_of_a_key_counts_if_it_is_of_the_type() {
        let mut attributes = RequestAttributes::default();
        assert_eq!(attributes.get::<u32>("k"), None);
        attributes.put("k", 1_u32);
        attributes.put("j", "text");
        attributes.put("k", 2_u32);
        assert_eq!(attributes.get::<u32>("k"), Some(&2));
        assert_eq!(attributes.get::<String>("k"), None);
        assert_eq!(attributes.keys().collect::<Vec<_>>(), ["j", "k"]);
    }

    /// Scheduling spec 1.1: tokens count over all prompts.
    #[test]
    fn tokens_are_those_of_all_prompts() {
        let prompts = [vec![1, 2, 3], vec![], vec![4]].map(Into::into).into();
        assert_eq!(TokenizedPrompt { prompts, ..Default::default() }.token_count(), 4);
        assert!(InferenceRequest::default().tokenized_prompt().is_none());
    }
}
