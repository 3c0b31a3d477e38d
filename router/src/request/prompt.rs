//! What a prompt says, read from the JSON that holds it.
//!
//! The views borrow; reading one is also how a parser checks a body. Field types are those of request-control
//! spec 13.2 and 13.3.

mod chat;
mod messages;

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::RequestKind;
use super::fields::{self, WrongType};

pub use chat::{Audio, Block, Chat, Message};
pub use messages::{AnthropicBlock, AnthropicMessage, Messages, Source, Tool, Verbatim};

/// What a request body says, by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Prompt<'a> {
    /// Nothing that the router understands.
    #[default]
    None,
    /// `/v1/completions`.
    Completions(Completions<'a>),
    /// `/v1/chat/completions`.
    Chat(Chat<'a>),
    /// Anthropic messages.
    Messages(Messages<'a>),
    /// `/v1/responses`.
    Responses(Responses<'a>),
    /// `/v1/conversations`.
    Conversations(Conversations<'a>),
    /// `/v1/embeddings`.
    Embeddings(Embeddings<'a>),
    /// vLLM's `generate`.
    Generate(Generate<'a>),
    /// `/v1/images/generations`.
    Images(Images<'a>),
}

impl<'a> Prompt<'a> {
    pub(super) fn read(
        kind: RequestKind,
        fields: &'a Map<String, Value>,
        verbatim: Option<&'a Verbatim>,
    ) -> Result<Self, WrongType> {
        Ok(match kind {
            RequestKind::None => Prompt::None,
            RequestKind::Completions => Prompt::Completions(Completions::read(fields)?),
            RequestKind::Chat => Prompt::Chat(Chat::read(fields)?),
            RequestKind::Messages => Prompt::Messages(Messages::read(fields, verbatim)?),
            RequestKind::Responses => Prompt::Responses(Responses::read(fields)?),
            RequestKind::Conversations => Prompt::Conversations(Conversations::read(fields)?),
            RequestKind::Embeddings => Prompt::Embeddings(Embeddings::read(fields)?),
            RequestKind::Generate => Prompt::Generate(Generate::read(fields)?),
            RequestKind::Images => Prompt::Images(Images::read(fields)?),
        })
    }

    /// Returns whether each of `parts` of a body has the types that a body of its kind has.
    pub(super) fn accepts(kind: RequestKind, parts: &[Map<String, Value>]) -> bool {
        parts.iter().all(|part| Prompt::read(kind, part, None).is_ok())
    }

    /// Returns the salt that separates tenants' caches; empty = none.
    pub fn cache_salt(&self) -> &'a str {
        match self {
            Prompt::None | Prompt::Images(_) => "",
            Prompt::Completions(x) => x.cache_salt,
            Prompt::Chat(x) => x.cache_salt,
            Prompt::Messages(x) => x.cache_salt,
            Prompt::Responses(x) => x.cache_salt,
            Prompt::Conversations(x) => x.cache_salt,
            Prompt::Embeddings(x) => x.cache_salt,
            Prompt::Generate(x) => x.cache_salt,
        }
    }
}

/// Content of a message: one text, or blocks.
#[derive(Clone, Debug, PartialEq)]
pub enum Content<'a, B> {
    /// A text, possibly empty.
    Text(&'a str),
    /// Blocks of text and media.
    Blocks(Vec<B>),
}

impl<B> Default for Content<'_, B> {
    fn default() -> Self {
        Content::Text("")
    }
}

impl<'a, B> Content<'a, B> {
    fn read(
        object: &'a Map<String, Value>,
        name: &str,
        block: impl Fn(&'a Map<String, Value>) -> Result<B, WrongType>,
    ) -> Result<Self, WrongType> {
        match fields::field(object, name) {
            None => Ok(Content::Text("")),
            Some(Value::String(text)) => Ok(Content::Text(text)),
            Some(Value::Array(items)) => Ok(Content::Blocks(fields::objects(items, block)?)),
            Some(_) => Err(WrongType),
        }
    }
}

/// One or more prompts.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<'a> {
    /// One text.
    Text(&'a str),
    /// Several texts.
    Texts(Vec<&'a str>),
    /// Token ids of one prompt.
    Tokens(Vec<u32>),
}

impl<'a> Input<'a> {
    fn read(object: &'a Map<String, Value>, name: &str) -> Result<Self, WrongType> {
        // Unlike elsewhere, `null` is a wrong type here; an absent field is an empty prompt.
        match fields::field(object, name) {
            None if object.get(name).is_some_and(Value::is_null) => Err(WrongType),
            None => Ok(Input::Text("")),
            Some(Value::String(text)) => Ok(Input::Text(text)),
            Some(Value::Array(items)) if items.first().is_none_or(Value::is_number) => {
                items.iter().map(token_id).collect::<Result<_, _>>().map(Input::Tokens)
            }
            Some(Value::Array(items)) => {
                items.iter().map(|i| i.as_str().ok_or(WrongType)).collect::<Result<_, _>>().map(Input::Texts)
            }
            Some(_) => Err(WrongType),
        }
    }

    /// Returns whether there is no prompt in it.
    pub fn is_empty(&self) -> bool {
        match self {
            Input::Text(text) => text.is_empty(),
            Input::Texts(texts) => texts.is_empty(),
            Input::Tokens(tokens) => tokens.is_empty(),
        }
    }

    /// Returns the text: several joined by one space, of token ids none.
    pub fn plain_text(&self) -> Cow<'a, str> {
        match self {
            Input::Text(text) => Cow::Borrowed(text),
            Input::Texts(texts) => Cow::Owned(texts.join(" ")),
            Input::Tokens(_) => Cow::Borrowed(""),
        }
    }
}

/// Returns a number as a token id: integral, and within 32 bits.
fn token_id(value: &Value) -> Result<u32, WrongType> {
    let number = value.as_f64().ok_or(WrongType)?;
    let id = number as u32;
    if f64::from(id) == number { Ok(id) } else { Err(WrongType) }
}

/// A completions request.
#[derive(Clone, Debug, PartialEq)]
pub struct Completions<'a> {
    /// The prompts.
    pub prompt: Input<'a>,
    /// Salt of the prefix cache.
    pub cache_salt: &'a str,
}

impl<'a> Completions<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        Ok(Completions {
            prompt: Input::read(fields, "prompt")?,
            cache_salt: fields::text(fields, "cache_salt")?,
        })
    }
}

/// An embeddings request.
#[derive(Clone, Debug, PartialEq)]
pub struct Embeddings<'a> {
    /// What to embed.
    pub input: Input<'a>,
    /// Salt of the prefix cache.
    pub cache_salt: &'a str,
}

impl<'a> Embeddings<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        Ok(Embeddings {
            input: Input::read(fields, "input")?,
            cache_salt: fields::text(fields, "cache_salt")?,
        })
    }
}

/// A request of the responses API.
#[derive(Clone, Debug, PartialEq)]
pub struct Responses<'a> {
    /// Input, any JSON.
    pub input: Option<&'a Value>,
    /// Instructions, any JSON.
    pub instructions: Option<&'a Value>,
    /// Tools, any JSON.
    pub tools: Option<&'a Value>,
    /// Salt of the prefix cache.
    pub cache_salt: &'a str,
}

impl<'a> Responses<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        Ok(Responses {
            input: fields::field(fields, "input"),
            instructions: fields::field(fields, "instructions"),
            tools: fields::field(fields, "tools"),
            cache_salt: fields::text(fields, "cache_salt")?,
        })
    }
}

/// A request of the conversations API.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversations<'a> {
    /// Items in order.
    pub items: Vec<ConversationItem<'a>>,
    /// Free metadata.
    pub metadata: Option<&'a Map<String, Value>>,
    /// Salt of the prefix cache.
    pub cache_salt: &'a str,
}

/// One item of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct ConversationItem<'a> {
    /// Type.
    pub item_type: &'a str,
    /// Role.
    pub role: &'a str,
    /// Content, any JSON.
    pub content: Option<&'a Value>,
}

impl<'a> Conversations<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        let item = |item: &'a Map<String, Value>| {
            Ok(ConversationItem {
                item_type: fields::text(item, "type")?,
                role: fields::text(item, "role")?,
                content: fields::field(item, "content"),
            })
        };
        Ok(Conversations {
            items: fields::objects(fields::list(fields, "items")?, item)?,
            metadata: fields::object(fields, "metadata")?,
            cache_salt: fields::text(fields, "cache_salt")?,
        })
    }
}

/// A request of vLLM's `generate`.
#[derive(Clone, Debug, PartialEq)]
pub struct Generate<'a> {
    /// Prompt; a parser has checked that each element is a token id or `null`, which is id 0.
    pub token_ids: &'a [Value],
    /// Multimodal items.
    pub features: Option<MmFeatures<'a>>,
    /// Salt of the prefix cache.
    pub cache_salt: &'a str,
}

/// Multimodal items by modality.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MmFeatures<'a> {
    /// Content hashes.
    pub hashes: Vec<(&'a str, Vec<&'a str>)>,
    /// Where the items stand in the prompt.
    pub placeholders: Vec<(&'a str, Vec<Placeholder>)>,
}

/// A range of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placeholder {
    /// First token.
    pub offset: i64,
    /// Tokens.
    pub length: i64,
}

impl<'a> Generate<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        let token_ids = fields::list(fields, "token_ids")?;
        if !token_ids.iter().all(|id| id.is_number() || id.is_null()) {
            return Err(WrongType);
        }
        Ok(Generate {
            token_ids,
            features: fields::object(fields, "features")?.map(MmFeatures::read).transpose()?,
            cache_salt: fields::text(fields, "cache_salt")?,
        })
    }

    /// Returns the prompt's token ids.
    pub fn tokens(&self) -> Vec<u32> {
        self.token_ids.iter().filter_map(|id| Self::token(id).ok()).collect()
    }

    /// Returns an element of the prompt as a token id; `null` is id 0.
    pub(super) fn token(value: &Value) -> Result<u32, WrongType> {
        if value.is_null() { Ok(0) } else { token_id(value) }
    }
}

impl<'a> MmFeatures<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        let mut features = MmFeatures::default();
        for (modality, items) in fields::object(fields, "mm_hashes")?.into_iter().flatten() {
            let hashes = elements(items)?.iter().map(|hash| match hash {
                Value::Null => Ok(""),
                other => other.as_str().ok_or(WrongType),
            });
            features.hashes.push((modality, hashes.collect::<Result<_, _>>()?));
        }
        for (modality, items) in fields::object(fields, "mm_placeholders")?.into_iter().flatten() {
            let range = |range: &'a Map<String, Value>| {
                Ok(Placeholder {
                    offset: fields::integer(range, "offset")?.unwrap_or(0),
                    length: fields::integer(range, "length")?.unwrap_or(0),
                })
            };
            features.placeholders.push((modality, fields::objects(elements(items)?, range)?));
        }
        Ok(features)
    }
}

fn elements(value: &Value) -> Result<&[Value], WrongType> {
    match value {
        Value::Null => Ok(&[]),
        Value::Array(items) => Ok(items),
        _ => Err(WrongType),
    }
}

/// A request for images.
#[derive(Clone, Debug, PartialEq)]
pub struct Images<'a> {
    /// What they shall show.
    pub prompt: &'a str,
    /// How many.
    pub n: Option<i64>,
    /// `WIDTHxHEIGHT`.
    pub size: &'a str,
    /// Diffusion steps.
    pub num_inference_steps: Option<i64>,
}

impl<'a> Images<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        Ok(Images {
            prompt: fields::text(fields, "prompt")?,
            n: fields::integer(fields, "n")?,
            size: fields::text(fields, "size")?,
            num_inference_steps: fields::integer(fields, "num_inference_steps")?,
        })
    }
}
