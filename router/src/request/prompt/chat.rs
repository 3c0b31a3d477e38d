use serde_json::{Map, Value};

use super::Content;
use crate::request::fields::{self, WrongType};

/// A chat completions request.
#[derive(Clone, Debug, PartialEq)]
pub struct Chat<'a> {
    /// The conversation.
    pub messages: Vec<Message<'a>>,
    /// Tools, any JSON each.
    pub tools: Option<&'a [Value]>,
    /// Documents, any JSON each.
    pub documents: Option<&'a [Value]>,
    /// Template that stands in for the model's own.
    pub chat_template: &'a str,
    /// Arguments of the template.
    pub chat_template_kwargs: Option<&'a Map<String, Value>>,
    /// Whether the prompt ends with the head of the answer.
    pub add_generation_prompt: bool,
    /// Whether the last message goes on.
    pub continue_final_message: bool,
    /// Whether the template reports which tokens the assistant wrote.
    pub return_assistant_tokens_mask: bool,
    /// Salt of the prefix cache.
    pub cache_salt: &'a str,
}

/// One message of a chat.
#[derive(Clone, Debug, PartialEq)]
pub struct Message<'a> {
    /// Who speaks.
    pub role: &'a str,
    /// What is said.
    pub content: Content<'a, Block<'a>>,
    /// Calls of tools, any JSON each.
    pub tool_calls: &'a [Value],
}

/// One block of a message's content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block<'a> {
    /// `text`, `image_url`, `video_url`, `input_audio`, ...
    pub block_type: &'a str,
    /// Text of a text block.
    pub text: &'a str,
    /// URL of an image.
    pub image_url: Option<&'a str>,
    /// URL of a video.
    pub video_url: Option<&'a str>,
    /// A sound.
    pub input_audio: Option<Audio<'a>>,
}

/// A sound inside a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audio<'a> {
    /// Base64.
    pub data: &'a str,
    /// `wav`, `mp3`, ...
    pub format: &'a str,
}

impl<'a> Chat<'a> {
    pub(super) fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        Ok(Chat {
            messages: fields::objects(fields::list(fields, "messages")?, Message::read)?,
            tools: optional_list(fields, "tools")?,
            documents: optional_list(fields, "documents")?,
            chat_template: fields::text(fields, "chat_template")?,
            chat_template_kwargs: fields::object(fields, "chat_template_kwargs")?,
            add_generation_prompt: fields::boolean(fields, "add_generation_prompt")?,
            continue_final_message: fields::boolean(fields, "continue_final_message")?,
            return_assistant_tokens_mask: fields::boolean(fields, "return_assistant_tokens_mask")?,
            cache_salt: fields::text(fields, "cache_salt")?,
        })
    }
}

fn optional_list<'a>(fields: &'a Map<String, Value>, name: &str) -> Result<Option<&'a [Value]>, WrongType> {
    fields::field(fields, name).map(|value| value.as_array().map(Vec::as_slice).ok_or(WrongType)).transpose()
}

impl<'a> Message<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        Ok(Message {
            role: fields::text(fields, "role")?,
            content: Content::read(fields, "content", Block::read)?,
            tool_calls: fields::list(fields, "tool_calls")?,
        })
    }

    /// Returns the text: of blocks each text block followed by one space.
    pub fn plain_text(&self) -> String {
        match &self.content {
            Content::Text(text) => (*text).to_owned(),
            Content::Blocks(blocks) => {
                let mut out = String::new();
                for block in blocks.iter().filter(|block| block.block_type == "text") {
                    out.push_str(block.text);
                    out.push(' ');
                }
                out
            }
        }
    }
}

impl<'a> Block<'a> {
    fn read(fields: &'a Map<String, Value>) -> Result<Self, WrongType> {
        let url = |name| fields::object(fields, name)?.map(|o| fields::text(o, "url")).transpose();
        Ok(Block {
            block_type: fields::text(fields, "type")?,
            text: fields::text(fields, "text")?,
            image_url: url("image_url")?,
            video_url: url("video_url")?,
            input_audio: fields::object(fields, "input_audio")?
                .map(|o| Ok(Audio { data: fields::text(o, "data")?, format: fields::text(o, "format")? }))
                .transpose()?,
        })
    }
}
