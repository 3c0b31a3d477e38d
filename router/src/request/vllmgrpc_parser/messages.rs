//! The messages of vLLM's gRPC API, as far as the router reads them.

use prost::{Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(super) struct GenerateRequest {
    #[prost(string, tag = "1")]
    pub(super) request_id: String,
    #[prost(oneof = "Input", tags = "2, 3")]
    pub(super) input: Option<Input>,
    #[prost(message, optional, tag = "4")]
    pub(super) sampling_params: Option<SamplingParams>,
    #[prost(bool, tag = "5")]
    pub(super) stream: bool,
    #[prost(message, optional, tag = "7")]
    pub(super) mm_inputs: Option<MultimodalInputs>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Input {
    #[prost(message, tag = "2")]
    Tokenized(TokenizedInput),
    #[prost(string, tag = "3")]
    Text(String),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TokenizedInput {
    #[prost(string, tag = "1")]
    pub(super) original_text: String,
    #[prost(uint32, repeated, tag = "2")]
    pub(super) input_ids: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SamplingParams {
    #[prost(uint32, optional, tag = "8")]
    pub(super) max_tokens: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MultimodalInputs {
    #[prost(message, repeated, tag = "5")]
    pub(super) mm_placeholders: Vec<Placeholder>,
    #[prost(string, repeated, tag = "6")]
    pub(super) mm_hashes: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Placeholder {
    #[prost(uint32, tag = "1")]
    pub(super) offset: u32,
    #[prost(uint32, tag = "2")]
    pub(super) length: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EmbedRequest {
    #[prost(string, tag = "1")]
    pub(super) request_id: String,
    #[prost(message, optional, tag = "2")]
    pub(super) tokenized: Option<TokenizedInput>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GenerateResponse {
    #[prost(oneof = "Output", tags = "1, 2")]
    pub(super) output: Option<Output>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Output {
    #[prost(message, tag = "1")]
    Chunk(Chunk),
    #[prost(message, tag = "2")]
    Complete(Complete),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Chunk {
    #[prost(uint32, repeated, tag = "1")]
    pub(super) token_ids: Vec<u32>,
    #[prost(uint32, tag = "2")]
    pub(super) prompt_tokens: u32,
    #[prost(uint32, tag = "3")]
    pub(super) completion_tokens: u32,
    #[prost(uint32, tag = "4")]
    pub(super) cached_tokens: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Complete {
    #[prost(uint32, repeated, tag = "1")]
    pub(super) output_ids: Vec<u32>,
    #[prost(string, tag = "2")]
    pub(super) finish_reason: String,
    #[prost(uint32, tag = "3")]
    pub(super) prompt_tokens: u32,
    #[prost(uint32, tag = "4")]
    pub(super) completion_tokens: u32,
    #[prost(uint32, tag = "5")]
    pub(super) cached_tokens: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EmbedResponse {
    #[prost(float, repeated, tag = "1")]
    pub(super) embedding: Vec<f32>,
    #[prost(uint32, tag = "2")]
    pub(super) prompt_tokens: u32,
    #[prost(uint32, tag = "3")]
    pub(super) embedding_dim: u32,
}
