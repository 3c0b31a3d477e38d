//! Anthropic messages as the chat that vLLM renders (request-control spec 8.7).

use std::borrow::Cow;

use super::super::byte_stream::{compact, field, scalar};
use super::super::estimate::system_text;
use super::python_json;
use crate::request::{AnthropicBlock, AnthropicMessage, Content, Messages, Source, Tool, json};

/// Id of a tool call that has none.
const NO_ID: &str = "call_0000000000";

/// A message of the chat.
#[derive(Default)]
struct ChatMessage<'a> {
    role: &'a str,
    content: Said<'a>,
    tool_call_id: &'a str,
    tool_calls: Vec<ToolCall<'a>>,
    reasoning: String,
}

#[derive(Default)]
enum Said<'a> {
    #[default]
    Nothing,
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

enum Part<'a> {
    Text(Cow<'a, str>),
    /// An image by its URL.
    Image(Cow<'a, str>),
}

struct ToolCall<'a> {
    id: &'a str,
    name: &'a str,
    arguments: String,
}

/// Writes a request for `model` as a chat, and returns it with whether a message has parts.
pub(super) fn rebuild(request: &Messages<'_>, model: &str) -> (Vec<u8>, bool) {
    let mut messages = Vec::new();
    let system = system_text(&request.system);
    if !system.is_empty() {
        messages.push(text_message("system", system));
    }
    for message in &request.messages {
        convert(message, &mut messages);
    }
    let mut out = Vec::with_capacity(256 + messages.iter().map(ChatMessage::size).sum::<usize>());
    out.push(b'{');
    field(&mut out, "messages", |out| list(out, &messages, ChatMessage::write));
    let has_parts = memchr::memmem::find(&out, br#""content":["#).is_some();
    field(&mut out, "model", |out| json::write_text(out, model));
    if !request.tools.is_empty() {
        field(&mut out, "tools", |out| list(out, &request.tools, write_tool));
    }
    out.push(b'}');
    (out, has_parts)
}

fn text_message<'a>(role: &'a str, text: Cow<'a, str>) -> ChatMessage<'a> {
    ChatMessage { role, content: Said::Text(text), ..ChatMessage::default() }
}

fn convert<'a>(message: &'a AnthropicMessage<'a>, out: &mut Vec<ChatMessage<'a>>) {
    if message.role == "system" {
        let text = system_text(&message.content);
        if !text.is_empty() {
            out.push(text_message("system", text));
        }
        return;
    }
    let blocks = match &message.content {
        Content::Text(text) if !text.is_empty() => {
            out.push(text_message(message.role, Cow::Borrowed(text)));
            return;
        }
        Content::Text(_) => &[][..],
        Content::Blocks(blocks) => blocks,
    };
    let is_user = message.role == "user";
    let mut own = ChatMessage { role: message.role, ..ChatMessage::default() };
    let mut parts = Vec::new();
    for block in blocks {
        match block.block_type {
            "text" if !block.text.is_empty() => parts.push(Part::Text(block.text.into())),
            "image" => parts.extend(block.source.and_then(image)),
            "thinking" => own.reasoning.push_str(block.thinking),
            "tool_use" => own.tool_calls.push(ToolCall {
                id: if block.id.is_empty() { NO_ID } else { block.id },
                name: block.name,
                arguments: arguments(block.input.as_deref()),
            }),
            "tool_result" if is_user => {
                let (text, images) = result(block);
                let content = Said::Text(text);
                let tool_call_id = block.tool_use_id;
                out.push(ChatMessage { role: "tool", content, tool_call_id, ..ChatMessage::default() });
                if !images.is_empty() {
                    let content = Said::Parts(images);
                    out.push(ChatMessage { role: "user", content, ..ChatMessage::default() });
                }
            }
            "tool_result" => {
                let (text, _) = result(block);
                parts.push(Part::Text(format!("Tool result: {text}").into()));
            }
            _ => {}
        }
    }
    own.content = match parts.pop() {
        None => Said::Nothing,
        Some(Part::Text(text)) if parts.is_empty() => Said::Text(text),
        Some(last) => {
            parts.push(last);
            Said::Parts(parts)
        }
    };
    let says_something = !matches!(own.content, Said::Nothing) || !own.reasoning.is_empty();
    if !is_user || says_something || !own.tool_calls.is_empty() {
        out.push(own);
    }
}

fn image<'a>(source: Source<'a>) -> Option<Part<'a>> {
    if !source.url.is_empty() {
        return Some(Part::Image(source.url.into()));
    }
    let media_type = if source.media_type.is_empty() { "image/jpeg" } else { source.media_type };
    let is_there = !source.data.is_empty();
    is_there.then(|| Part::Image(format!("data:{media_type};base64,{}", source.data).into()))
}

/// Returns the text and the images of a tool's result.
fn result<'a>(block: &'a AnthropicBlock<'a>) -> (Cow<'a, str>, Vec<Part<'a>>) {
    match &block.content {
        None => (Cow::Borrowed(""), Vec::new()),
        Some(Content::Text(text)) => (Cow::Borrowed(text), Vec::new()),
        Some(Content::Blocks(blocks)) => {
            let of = |kind| blocks.iter().filter(move |block| block.block_type == kind);
            let texts: Vec<&str> = of("text").map(|block| block.text).collect();
            (texts.join("\n").into(), of("image").filter_map(|b| b.source).filter_map(image).collect())
        }
    }
}

/// Returns the arguments of a call as its JSON text; of a call without any, those of an empty object.
fn arguments(input: Option<&str>) -> String {
    match python_json::dumps(input.unwrap_or_default()) {
        text if text.is_empty() || text == "null" => "{}".to_owned(),
        text => text,
    }
}

impl ChatMessage<'_> {
    /// Returns about how many bytes its text takes.
    fn size(&self) -> usize {
        let content = match &self.content {
            Said::Nothing => 0,
            Said::Text(text) => text.len(),
            Said::Parts(parts) => {
                parts.iter().map(|(Part::Text(text) | Part::Image(text))| 64 + text.len()).sum()
            }
        };
        64 + content + self.reasoning.len()
    }

    fn write(out: &mut Vec<u8>, message: &Self) {
        out.push(b'{');
        field(out, "role", |out| json::write_text(out, message.role));
        match &message.content {
            Said::Nothing => {}
            Said::Text(text) => field(out, "content", |out| json::write_text(out, text)),
            Said::Parts(parts) => field(out, "content", |out| list(out, parts, write_part)),
        }
        if !message.tool_call_id.is_empty() {
            field(out, "tool_call_id", |out| json::write_text(out, message.tool_call_id));
        }
        if !message.tool_calls.is_empty() {
            field(out, "tool_calls", |out| list(out, &message.tool_calls, write_call));
        }
        if !message.reasoning.is_empty() {
            field(out, "reasoning", |out| json::write_text(out, &message.reasoning));
        }
        out.push(b'}');
    }
}

fn list<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}

fn write_part(out: &mut Vec<u8>, part: &Part<'_>) {
    out.push(b'{');
    match part {
        Part::Text(text) => {
            field(out, "type", |out| json::write_text(out, "text"));
            field(out, "text", |out| json::write_text(out, text));
        }
        Part::Image(url) => {
            field(out, "type", |out| json::write_text(out, "image_url"));
            field(out, "image_url", |out| {
                out.push(b'{');
                field(out, "url", |out| json::write_text(out, url));
                out.push(b'}');
            });
        }
    }
    out.push(b'}');
}

fn write_call(out: &mut Vec<u8>, call: &ToolCall<'_>) {
    out.push(b'{');
    field(out, "function", |out| {
        out.push(b'{');
        field(out, "arguments", |out| json::write_text(out, &call.arguments));
        field(out, "name", |out| json::write_text(out, call.name));
        out.push(b'}');
    });
    field(out, "id", |out| json::write_text(out, call.id));
    field(out, "type", |out| json::write_text(out, "function"));
    out.push(b'}');
}

fn write_tool(out: &mut Vec<u8>, tool: &Tool<'_>) {
    out.push(b'{');
    field(out, "function", |out| {
        out.push(b'{');
        if let Some(defer_loading) = tool.defer_loading {
            field(out, "defer_loading", |out| scalar(out, defer_loading));
        }
        if !tool.description.is_empty() {
            field(out, "description", |out| json::write_text(out, tool.description));
        }
        field(out, "name", |out| json::write_text(out, tool.name));
        let schema = tool.input_schema.as_deref().map_or("", str::trim);
        match schema {
            "" | "null" => field(out, "parameters", |out| out.extend_from_slice(br#"{"type":"object"}"#)),
            schema => field(out, "parameters", |out| compact(out, schema)),
        }
        if let Some(strict) = tool.strict {
            field(out, "strict", |out| scalar(out, strict));
        }
        out.push(b'}');
    });
    field(out, "type", |out| json::write_text(out, "function"));
    out.push(b'}');
}
