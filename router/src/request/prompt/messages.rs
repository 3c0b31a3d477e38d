use std::borrow::Cow;
use std::cell::Cell;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Content;
use crate::request::fields::{self, WrongType};
use crate::request::json;

/// An Anthropic messages request.
#[derive(Clone, Debug, PartialEq)]
pub struct Messages<'a> {
    /// The conversation.
    pub messages: Vec<AnthropicMessage<'a>>,
    /// System prompt.
    pub system: Content<'a, AnthropicBlock<'a>>,
    /// Tools.
    pub tools: Vec<Tool<'a>>,
    /// Salt of the prefix cache.
    pub cache_salt: &'a str,
}

/// One Anthropic message.
#[derive(Clone, Debug, PartialEq)]
pub struct AnthropicMessage<'a> {
    /// Who speaks.
    pub role: &'a str,
    /// What is said.
    pub content: Content<'a, AnthropicBlock<'a>>,
}

/// One block of an Anthropic message.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AnthropicBlock<'a> {
    /// `text`, `image`, `tool_use`, `tool_result`, `thinking`, ...
    pub block_type: &'a str,
    /// Text of a text block.
    pub text: &'a str,
    /// Where an image comes from.
    pub source: Option<Source<'a>>,
    /// Id of a tool call.
    pub id: &'a str,
    /// Name of the tool that is called.
    pub name: &'a str,
    /// Arguments of the call: JSON as the client wrote it.
    pub input: Option<Cow<'a, str>>,
    /// The call that a result belongs to.
    pub tool_use_id: &'a str,
    /// What a tool answered.
    pub content: Option<Content<'a, AnthropicBlock<'a>>>,
    /// Text of a thinking block.
    pub thinking: &'a str,
}

/// Where an image comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source<'a> {
    /// `base64` or `url`.
    pub source_type: &'a str,
    /// MIME type.
    pub media_type: &'a str,
    /// Base64.
    pub data: &'a str,
    /// Address.
    pub url: &'a str,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool<'a> {
    /// Name.
    pub name: &'a str,
    /// What it is for.
    pub description: &'a str,
    /// JSON schema of its arguments, as the client wrote it.
    pub input_schema: Option<Cow<'a, str>>,
    /// Whether arguments must fit the schema.
    pub strict: Option<bool>,
    /// Whether the tool is loaded on demand.
    pub defer_loading: Option<bool>,
}

/// The pieces of an Anthropic body that count byte for byte: tool schemas and call arguments, whose order of
/// keys and spelling of numbers a decoded value does not keep.
#[derive(Clone, Debug, Default)]
pub struct Verbatim {
    schemas: Vec<Option<Box<RawValue>>>,
    /// One a block, in the order in which [`Messages::read`] visits blocks.
    inputs: Vec<Option<Box<RawValue>>>,
}

impl<'a> Messages<'a> {
    /// Reads a request; what `verbatim` lacks is written anew from the decoded values.
    pub(in crate::request) fn read(
        fields: &'a Map<String, Value>,
        verbatim: Option<&'a Verbatim>,
    ) -> Result<Self, WrongType> {
        let inputs = Inputs { all: verbatim.map_or(&[], |v| &v.inputs), next: Cell::new(0) };
        let messages = fields::objects(fields::list(fields, "messages")?, |message| {
            Ok(AnthropicMessage {
                role: fields::text(message, "role")?,
                content: Content::read(message, "content", |block| inputs.block(block))?,
            })
        })?;
        let system = Content::read(fields, "system", |block| inputs.block(block))?;
        let mut tools = fields::objects(fields::list(fields, "tools")?, Tool::read)?;
        for (tool, raw) in tools.iter_mut().zip(verbatim.map_or(&[][..], |v| &v.schemas)) {
            tool.input_schema = raw.as_deref().map(|raw| raw.get().into());
        }
        Ok(Messages { messages, system, tools, cache_salt: fields::text(fields, "cache_salt")? })
    }

    /// Returns whether something in the request counts byte for byte.
    pub(in crate::request) fn wants_verbatim(&self) -> bool {
        fn any(content: &Content<'_, AnthropicBlock<'_>>) -> bool {
            match content {
                Content::Text(_) => false,
                Content::Blocks(blocks) => {
                    blocks.iter().any(|b| b.input.is_some() || b.content.as_ref().is_some_and(any))
                }
            }
        }
        !self.tools.is_empty() || any(&self.system) || self.messages.iter().any(|m| any(&m.content))
    }
}

impl<'a> Tool<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        Ok(Tool {
            name: fields::text(fields, "name")?,
            description: fields::text(fields, "description")?,
            input_schema: fields::field(fields, "input_schema").map(written),
            strict: fields::optional_boolean(fields, "strict")?,
            defer_loading: fields::optional_boolean(fields, "defer_loading")?,
        })
    }
}

fn written(value: &Value) -> Cow<'_, str> {
    let mut out = Vec::new();
    json::write_value(&mut out, value);
    String::from_utf8(out).expect("JSON of texts is text").into()
}

/// Hands the blocks' verbatim inputs out, in order of visit.
struct Inputs<'a> {
    all: &'a [Option<Box<RawValue>>],
    next: Cell<usize>,
}

impl<'a> Inputs<'a> {
    fn block(&self, fields: &'a Map<String, Value>) -> Result<AnthropicBlock<'a>, WrongType> {
        let at = self.next.replace(self.next.get() + 1);
        let input = match self.all.get(at) {
            Some(raw) => raw.as_deref().map(|raw| raw.get().into()),
            None => fields::field(fields, "input").map(written),
        };
        let content = match fields::field(fields, "content") {
            None => None,
            Some(_) => Some(Content::read(fields, "content", |block| self.block(block))?),
        };
        Ok(AnthropicBlock {
            block_type: fields::text(fields, "type")?,
            text: fields::text(fields, "text")?,
            source: fields::object(fields, "source")?.map(Source::read).transpose()?,
            id: fields::text(fields, "id")?,
            name: fields::text(fields, "name")?,
            input,
            tool_use_id: fields::text(fields, "tool_use_id")?,
            content,
            thinking: fields::text(fields, "thinking")?,
        })
    }
}

impl<'a> Source<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        Ok(Source {
            source_type: fields::text(fields, "type")?,
            media_type: fields::text(fields, "media_type")?,
            data: fields::text(fields, "data")?,
            url: fields::text(fields, "url")?,
        })
    }
}

#[derive(Deserialize)]
struct RawBody<'a> {
    #[serde(borrow, default)]
    messages: Option<Vec<Option<RawHolder<'a>>>>,
    #[serde(borrow, default)]
    system: Option<&'a RawValue>,
    #[serde(default)]
    tools: Option<Vec<Option<RawTool>>>,
}

/// A message or a block: whatever has content.
#[derive(Deserialize)]
struct RawHolder<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default, deserialize_with = "verbatim_value")]
    input: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct RawTool {
    #[serde(default, deserialize_with = "verbatim_value")]
    input_schema: Option<Box<RawValue>>,
}

/// Keeps `null` as a text of its own.
fn verbatim_value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

impl Verbatim {
    /// Collects the verbatim pieces of a body that has been checked; `None` where its keys are spelled or
    /// repeated so that they cannot be told apart.
    pub(in crate::request) fn collect(text: &str) -> Option<Self> {
        let body: RawBody<'_> = serde_json::from_str(text).ok()?;
        let mut inputs = Vec::new();
        for message in body.messages.unwrap_or_default() {
            collect_content(message.and_then(|m| m.content), &mut inputs)?;
        }
        collect_content(body.system, &mut inputs)?;
        let tools = body.tools.unwrap_or_default();
        Some(Verbatim {
            schemas: tools.into_iter().map(|tool| tool.and_then(|t| t.input_schema)).collect(),
            inputs,
        })
    }
}

fn collect_content(content: Option<&RawValue>, inputs: &mut Vec<Option<Box<RawValue>>>) -> Option<()> {
    let Some(list) = content.filter(|content| content.get().starts_with('[')) else { return Some(()) };
    for block in serde_json::from_str::<Vec<Option<RawHolder<'_>>>>(list.get()).ok()? {
        let (content, input) = block.map_or((None, None), |block| (block.content, block.input));
        inputs.push(input);
        collect_content(content, inputs)?;
    }
    Some(())
}
