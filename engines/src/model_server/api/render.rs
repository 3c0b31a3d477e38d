//! The render endpoints: a request's tokens without an answer (model-server spec 1.7).

use std::collections::BTreeMap;

use executor::http::Body;
use http::Response;
use serde::Serialize;
use serde_json::Value;

use super::error::ApiError;
use super::fields::{Fields, Sampling, StreamOptions};
use super::release::Release;
use super::{Inner, chat, completions, reply};
use crate::engine::Token;

/// A request to `/inference/v1/generate`.
#[derive(Serialize)]
struct Rendered<'a> {
    request_id: String,
    token_ids: &'a [Token],
    #[serde(flatten)]
    later: Later,
    features: (),
    sampling_params: SamplingParams<'a>,
    model: Option<&'a str>,
    stream: bool,
    stream_options: Option<StreamOptions>,
    cache_salt: Option<&'a str>,
    priority: i64,
    kv_transfer_params: (),
}

/// Members that only some releases have.
#[derive(Serialize)]
struct Later {
    #[serde(skip_serializing_if = "Option::is_none")]
    assistant_tokens_mask: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_offsets: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_parts: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_ended: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_parser_kwargs: Option<()>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_token_ids: Option<Option<bool>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ec_transfer_params: Option<()>,
}

impl Later {
    fn of(server: &Inner, body: &Value) -> Self {
        let last = server.null(Release::V32..);
        Self {
            assistant_tokens_mask: server.null(Release::V27..Release::V32),
            token_offsets: server.null(Release::V27..),
            content_parts: last,
            reasoning_ended: last,
            reasoning_parser_kwargs: last,
            return_token_ids: last.map(|()| body.get("return_token_ids").and_then(Value::as_bool)),
            output_mode: last.map(|()| "tokens"),
            ec_transfer_params: server.null(Release::V27..),
        }
    }
}

/// vLLM's parameters: members with a default that stays out are `Option`.
#[derive(Serialize)]
struct SamplingParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<i64>,
    presence_penalty: f64,
    frequency_penalty: f64,
    repetition_penalty: f64,
    temperature: f64,
    top_p: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_k: Option<i64>,
    min_p: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    stop: &'a [String],
    stop_token_ids: &'a [Token],
    #[serde(skip_serializing_if = "Option::is_none")]
    ignore_eos: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_stop_str_in_output: Option<bool>,
    output_kind: u8,
    skip_clone: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    logit_bias: Option<&'a BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_args: Option<ExtraArgs<'a>>,
    bad_words: [(); 0],
    skip_reading_prefix_cache: bool,
}

#[derive(Serialize)]
struct ExtraArgs<'a> {
    kv_transfer_params: &'a Value,
}

/// `output_kind` of streams.
const DELTA: u8 = 1;
/// `output_kind` of whole answers.
const FINAL_ONLY: u8 = 2;

impl<'a> SamplingParams<'a> {
    fn of(sampling: &'a Sampling, stream: bool, max_tokens: Option<u32>, body: &'a Value) -> Self {
        let transfer = body.get("kv_transfer_params").filter(|params| params.is_object());
        Self {
            n: sampling.n.filter(|n| *n != 1),
            presence_penalty: sampling.presence_penalty.unwrap_or(0.0),
            frequency_penalty: sampling.frequency_penalty.unwrap_or(0.0),
            repetition_penalty: sampling.repetition_penalty.unwrap_or(1.0),
            temperature: sampling.temperature.unwrap_or(1.0),
            top_p: sampling.top_p.unwrap_or(1.0),
            top_k: sampling.top_k.filter(|top_k| *top_k > 0),
            min_p: sampling.min_p.unwrap_or(0.0),
            seed: sampling.seed,
            stop: &sampling.stop,
            stop_token_ids: sampling.stop_token_ids.as_deref().unwrap_or_default(),
            ignore_eos: sampling.ignore_eos.then_some(true),
            max_tokens,
            min_tokens: sampling.min_tokens.filter(|min_tokens| *min_tokens > 0),
            include_stop_str_in_output: sampling.include_stop_str_in_output.then_some(true),
            output_kind: if stream { DELTA } else { FINAL_ONLY },
            skip_clone: true,
            logit_bias: sampling.logit_bias.as_ref(),
            extra_args: transfer.map(|kv_transfer_params| ExtraArgs { kv_transfer_params }),
            bad_words: [],
            skip_reading_prefix_cache: false,
        }
    }
}

fn rendered<'a>(
    request_id: String,
    later: Later,
    token_ids: &'a [Token],
    fields: &'a Fields,
    sampling_params: SamplingParams<'a>,
) -> Rendered<'a> {
    Rendered {
        request_id,
        token_ids,
        later,
        features: (),
        sampling_params,
        model: fields.model.as_deref(),
        stream: fields.stream,
        stream_options: fields.stream_options,
        cache_salt: fields.cache_salt.as_deref(),
        priority: fields.priority(),
        kv_transfer_params: (),
    }
}

/// Whether the name of an adapter is a model to render for.
fn knows_adapters(server: &Inner) -> bool {
    server.release >= Release::V27
}

/// `POST /v1/completions/render`: one object a prompt.
pub(super) fn completion(server: &Inner, body: &Value) -> Result<Response<Body>, ApiError> {
    let request = completions::Request::read(body, server, knows_adapters(server))?;
    let given = body.get("max_tokens").is_some_and(|max_tokens| !max_tokens.is_null());
    let max_tokens = given.then_some(request.plan.max_tokens);
    let objects: Vec<_> = request
        .prompts
        .iter()
        .map(|prompt| {
            let params = SamplingParams::of(&request.sampling, request.fields.stream, max_tokens, body);
            rendered(
                format!("cmpl-{}", server.hex16()),
                Later::of(server, body),
                prompt,
                &request.fields,
                params,
            )
        })
        .collect();
    Ok(reply::json(&objects))
}

/// `POST /v1/chat/completions/render`: one object.
pub(super) fn chat(server: &Inner, body: &Value) -> Result<Response<Body>, ApiError> {
    let request = chat::Request::read(body, server, knows_adapters(server))?;
    let max_tokens = Some(request.plan.max_tokens);
    let params = SamplingParams::of(&request.sampling, request.fields.stream, max_tokens, body);
    let id = format!("chatcmpl-{}", server.hex16());
    Ok(reply::json(&rendered(id, Later::of(server, body), &request.prompt, &request.fields, params)))
}
