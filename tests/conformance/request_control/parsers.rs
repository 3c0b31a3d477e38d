//! `parsers.jsonl` and `responses.jsonl`: request bodies and token usage.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use router::headers::Headers;
use router::plugin::{Handle, Parameters};
use router::request::{
    AnthropicBlock, Block, Content, Input, MmFeatures, ParseError, ParsedBody, Parser, ParserRegistry,
    Payload, Prompt, RequestKind, TYPES, TokenizedPrompt, json,
};
use router::request_control::Usage;
use serde_json::{Map, Value, json};
use tests::compare::Rules;
use tests::outcome::Outcome;

/// Returns the parser of a type through its factory, as a configuration does.
pub(super) fn parser(plugin_type: &str) -> Result<Arc<dyn Parser>, Outcome> {
    let row = TYPES.iter().find(|(t, _)| *t == plugin_type);
    let (_, factory) = row.ok_or_else(|| Outcome::NotBuilt(plugin_type.to_owned()))?;
    let instance = factory(plugin_type, &Parameters::absent(), &Handle::new(super::rt()));
    let parser = instance.ok().and_then(|instance| instance.roles.parser);
    parser.ok_or_else(|| Outcome::Failed(format!("{plugin_type} is no parser")))
}

/// Returns the registry that a case configures.
pub(super) fn registry(given: &Value) -> Result<ParserRegistry, Outcome> {
    let types = given["parsers"].as_array().into_iter().flatten();
    let parsers: Result<Vec<_>, _> = types.map(|t| parser(t.as_str().unwrap_or_default())).collect();
    parsers.map(ParserRegistry::new)
}

/// Returns the request headers of a case.
///
/// The router's list holds lower-case names only, as the server fills it; an entry under another name is one that
/// no look-up finds.
pub(super) fn headers(value: &Value) -> Headers {
    let entries = value.as_object().into_iter().flatten();
    entries
        .filter(|(name, _)| **name == name.to_ascii_lowercase())
        .map(|(name, value)| (name, value.as_str().unwrap_or_default()))
        .collect()
}

/// Returns the bytes under `name` or, where they are not UTF-8, under `name_base64`.
pub(super) fn bytes(given: &Value, name: &str) -> Bytes {
    match given[format!("{name}_base64")].as_str() {
        Some(text) => BASE64_STANDARD.decode(text).expect("vectors hold valid base64").into(),
        None => given[name].as_str().unwrap_or_default().to_owned().into_bytes().into(),
    }
}

pub(super) fn requests(case: &Value) -> Outcome {
    let given = &case["given"];
    let registry = match registry(given) {
        Ok(registry) => registry,
        Err(outcome) => return outcome,
    };
    let headers = headers(&given["headers"]);
    let got = match registry.resolve(&headers) {
        Err(error) => json!({"parser": null, "error": refusal(&error)}),
        Ok(parser) => {
            let mut answer = match parser.parse_request(&headers, bytes(given, "body")) {
                Err(error) => json!({"error": refusal(&error)}),
                Ok(body) => parsed(&body, parser.rewrites_model()),
            };
            answer["parser"] = json!(parser.plugin_type());
            answer
        }
    };
    Rules::exact().outcome(&case["then"], &got)
}

pub(super) fn responses(case: &Value) -> Outcome {
    let given = &case["given"];
    let parser = match parser(given["parser"].as_str().unwrap_or_default()) {
        Ok(parser) => parser,
        Err(outcome) => return outcome,
    };
    let headers: Headers = given["response_headers"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name, value.as_str().unwrap_or_default()))
        .collect();
    let mut last = Value::Null;
    let mut chunks = Vec::new();
    for chunk in given["chunks"].as_array().into_iter().flatten() {
        chunks.push(match parser.parse_response(&headers, &bytes(chunk, "data")) {
            Ok(found) => {
                let usage = found.map_or(Value::Null, usage);
                if !usage.is_null() {
                    last = usage.clone();
                }
                json!({"usage": usage})
            }
            Err(error) => json!({"usage": null, "error": {"kind": response_error(&error.0)}}),
        });
    }
    Rules::exact().outcome(&case["then"], &json!({"chunks": chunks, "final_usage": last}))
}

/// Names the class of a refusal, which the router says in words.
fn refusal(error: &ParseError) -> Value {
    let text = error.0.as_str();
    let kinds = [
        ("no parser registered", "no-parser-for-path"),
        ("unsupported API endpoint", "unsupported-path"),
        ("unsupported path", "unsupported-path"),
        ("error unmarshaling request body", "body-not-json-object"),
        ("error parsing messages", "invalid-messages"),
        ("invalid messages request: must have at least one", "no-messages"),
        ("invalid completions", "invalid-completions"),
        ("invalid chat", "invalid-chat"),
        ("invalid responses", "invalid-responses"),
        ("invalid conversations", "invalid-conversations"),
        ("invalid embeddings", "invalid-embeddings"),
        ("invalid images", "invalid-images"),
        ("invalid generate request: must have non-empty", "empty-token-ids"),
        ("invalid generate request: token_ids[", "invalid-token-id"),
        ("invalid generate", "invalid-generate"),
        ("invalid or unsupported gRPC payload", "bad-grpc-frame"),
        ("unmarshaling ", "bad-protobuf"),
        ("parsing ", "embedded"),
        ("missing tokenized input", "missing-tokenized-input"),
        ("not supported request inputType", "no-input"),
    ];
    let kind = match kinds.iter().find(|(prefix, _)| text.starts_with(prefix)) {
        Some((_, "embedded")) => {
            // The refusal of the JSON inside, behind the name of the message.
            let inner = text.split_once(": ").map_or("", |(_, inner)| inner);
            return refusal(&ParseError::new(inner));
        }
        Some((_, kind)) => kind,
        None if text.ends_with("has no HttpBody") => "no-http-body",
        // The generate API passes the decoder's own words through.
        None => "body-not-json-object",
    };
    json!({"kind": kind, "status": 400})
}

fn response_error(text: &str) -> &'static str {
    match text {
        _ if text.starts_with("unrecognised gRPC response") => "unrecognised-grpc-response",
        _ if text.contains("gRPC frame") || text.contains("gRPC payload") => "bad-grpc-frame",
        _ if text.contains("unmarshaling") => "bad-protobuf",
        _ => "bad-json",
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
    })
}

fn parsed(body: &ParsedBody, rewrites_model: bool) -> Value {
    let kind = match body.kind {
        RequestKind::None => "none",
        RequestKind::Completions => "completions",
        RequestKind::Chat => "chat",
        RequestKind::Messages => "messages",
        RequestKind::Responses => "responses",
        RequestKind::Conversations => "conversations",
        RequestKind::Embeddings => "embeddings",
        RequestKind::Generate => "generate",
        RequestKind::Images => "images",
    };
    let mut answer = json!({
        "kind": kind,
        "model": body.model,
        "stream": body.stream,
        "max_output_tokens": body.max_output_tokens,
        "skip_response_processing": body.skip_response_processing,
        "parser_can_rewrite_model": rewrites_model,
        "payload": match &body.payload {
            Payload::Json(_) => "json-map",
            Payload::Protobuf(_) => "protobuf",
            Payload::Raw(_) => "raw",
            Payload::Empty | Payload::InProcess(_) => "none",
        },
        "tokenized_prompt": body.tokenized_prompt.as_deref().map(tokenized),
    });
    if let Payload::Json(fields) = &body.payload {
        let text = String::from_utf8(json::encode_object(fields)).expect("JSON is UTF-8");
        answer["reserialised"] = json!(text);
    }
    if let Some(request) = request(&body.prompt()) {
        answer["request"] = request;
    }
    answer
}

fn tokenized(prompt: &TokenizedPrompt) -> Value {
    let features = prompt
        .features
        .iter()
        .map(|f| json!({"modality": f.modality, "hash": f.hash, "offset": f.offset, "length": f.length}));
    json!({
        "prompts": prompt.prompts.iter().map(|p| p.to_vec()).collect::<Vec<_>>(),
        "features": if prompt.features.is_empty() { Value::Null } else { features.collect() },
        "cache_salt": prompt.cache_salt,
    })
}

fn request(prompt: &Prompt<'_>) -> Option<Value> {
    Some(match prompt {
        Prompt::None => return None,
        Prompt::Completions(x) => {
            json!({"prompt": input(&x.prompt), "cache_salt": x.cache_salt, "plain_text": x.prompt.plain_text()})
        }
        Prompt::Embeddings(x) => {
            json!({"input": input(&x.input), "cache_salt": x.cache_salt, "plain_text": x.input.plain_text()})
        }
        Prompt::Chat(x) => {
            let messages = x.messages.iter().map(|m| {
                let mut message =
                    json!({"role": m.role, "content": content(&m.content, block), "plain_text": m.plain_text()});
                put_unless_empty(&mut message, "tool_calls", m.tool_calls);
                message
            });
            let mut request = json!({
                "messages": messages.collect::<Vec<_>>(),
                "chat_template": x.chat_template,
                "add_generation_prompt": x.add_generation_prompt,
                "continue_final_message": x.continue_final_message,
                "return_assistant_tokens_mask": x.return_assistant_tokens_mask,
                "cache_salt": x.cache_salt,
            });
            put_unless_empty(&mut request, "tools", x.tools.unwrap_or_default());
            put_unless_empty(&mut request, "documents", x.documents.unwrap_or_default());
            if let Some(arguments) = x.chat_template_kwargs.filter(|a| !a.is_empty()) {
                request["chat_template_kwargs"] = json!(arguments);
            }
            request
        }
        Prompt::Messages(x) => {
            let messages =
                x.messages.iter().map(|m| json!({"role": m.role, "content": content(&m.content, anthropic)}));
            let tools = x.tools.iter().map(|t| {
                let mut tool = json!({
                    "name": t.name,
                    "description": t.description,
                    "input_schema_raw_json": t.input_schema,
                });
                put(&mut tool, "strict", t.strict);
                put(&mut tool, "defer_loading", t.defer_loading);
                tool
            });
            json!({
                "messages": messages.collect::<Vec<_>>(),
                "system": content(&x.system, anthropic),
                "tools": tools.collect::<Vec<_>>(),
                "cache_salt": x.cache_salt,
            })
        }
        Prompt::Responses(x) => json!({
            "input": x.input, "instructions": x.instructions, "tools": x.tools, "cache_salt": x.cache_salt,
        }),
        Prompt::Conversations(x) => {
            let items = x.items.iter();
            let items = items.map(|i| json!({"type": i.item_type, "role": i.role, "content": i.content}));
            let mut request = json!({"items": items.collect::<Vec<_>>(), "cache_salt": x.cache_salt});
            put(&mut request, "metadata", x.metadata.filter(|m| !m.is_empty()));
            request
        }
        Prompt::Generate(x) => json!({
            "token_ids": x.tokens(), "cache_salt": x.cache_salt, "features": x.features.as_ref().map(features),
        }),
        Prompt::Images(x) => json!({
            "prompt": x.prompt, "n": x.n, "size": x.size, "num_inference_steps": x.num_inference_steps,
        }),
    })
}

fn input(input: &Input<'_>) -> Value {
    let (raw, strings, tokens) = match input {
        Input::Text(text) => (*text, Value::Null, Value::Null),
        Input::Texts(texts) => ("", json!(texts), Value::Null),
        Input::Tokens(tokens) => ("", Value::Null, json!(tokens)),
    };
    json!({"raw": raw, "strings": strings, "token_ids": tokens})
}

fn content<B>(content: &Content<'_, B>, block: impl Fn(&B) -> Value) -> Value {
    match content {
        Content::Text(text) => json!({"raw": text, "blocks": null}),
        Content::Blocks(blocks) => json!({"raw": "", "blocks": blocks.iter().map(block).collect::<Vec<_>>()}),
    }
}

fn block(block: &Block<'_>) -> Value {
    let mut value = json!({"type": block.block_type, "text": block.text});
    put(&mut value, "image_url", block.image_url.filter(|url| !url.is_empty()));
    put(&mut value, "video_url", block.video_url.filter(|url| !url.is_empty()));
    put(&mut value, "input_audio", block.input_audio.map(|a| json!({"data": a.data, "format": a.format})));
    value
}

fn anthropic(block: &AnthropicBlock<'_>) -> Value {
    let mut value = json!({"type": block.block_type, "text": block.text});
    put(
        &mut value,
        "source",
        block.source.map(
            |s| json!({"type": s.source_type, "media_type": s.media_type, "data": s.data, "url": s.url}),
        ),
    );
    for (name, text) in [
        ("id", block.id),
        ("name", block.name),
        ("tool_use_id", block.tool_use_id),
        ("thinking", block.thinking),
    ] {
        put(&mut value, name, Some(text).filter(|text| !text.is_empty()));
    }
    put(&mut value, "input_raw_json", block.input.as_deref());
    put(&mut value, "content", block.content.as_ref().map(|c| content(c, anthropic)));
    value
}

fn features(features: &MmFeatures<'_>) -> Value {
    let hashes: Map<String, Value> =
        features.hashes.iter().map(|(modality, hashes)| ((*modality).to_owned(), json!(hashes))).collect();
    let placeholders: Map<String, Value> = features
        .placeholders
        .iter()
        .map(|(modality, ranges)| {
            let ranges: Vec<Value> =
                ranges.iter().map(|r| json!({"offset": r.offset, "length": r.length})).collect();
            ((*modality).to_owned(), json!(ranges))
        })
        .collect();
    json!({"mm_hashes": hashes, "mm_placeholders": placeholders})
}

fn put(object: &mut Value, name: &str, value: Option<impl serde::Serialize>) {
    if let Some(value) = value {
        object[name] = json!(value);
    }
}

fn put_unless_empty(object: &mut Value, name: &str, items: &[Value]) {
    put(object, name, Some(items).filter(|items| !items.is_empty()));
}
