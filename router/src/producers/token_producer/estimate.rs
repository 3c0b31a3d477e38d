use std::borrow::Cow;

use super::byte_stream::{ByteStream, compact, field, pack, scalar};
use super::parameters::EstimateParameters;
use super::{image_size, media};
use crate::error::PluginError;
use crate::headers::Headers;
use crate::request::{
    AnthropicBlock, Block, Chat, Content, ConversationItem, Conversations, Embeddings, Generate, Input,
    Messages, MmFeatures, MultiModalFeature, Prompt, Responses, Source, TokenizedPrompt, Tool, json,
};

/// The estimating backend of `token-producer`: pure, and exact where the client sent token ids.
#[derive(Clone, Debug)]
pub struct Estimate {
    parameters: EstimateParameters,
}

impl Estimate {
    /// Returns the backend with these parameters.
    pub fn new(parameters: EstimateParameters) -> Self {
        Estimate { parameters }
    }

    /// Returns the pseudo tokens of a prompt, without its cache salt.
    ///
    /// # Errors
    /// A body without a prompt of text or token ids.
    pub fn tokenize(&self, prompt: &Prompt<'_>, headers: &Headers) -> Result<TokenizedPrompt, PluginError> {
        Ok(match prompt {
            Prompt::Completions(completions) => {
                let prompts = match &completions.prompt {
                    Input::Text(text) => vec![pack(text.as_bytes())],
                    Input::Texts(texts) => texts.iter().map(|text| pack(text.as_bytes())).collect(),
                    Input::Tokens(tokens) => vec![tokens.as_slice().into()],
                };
                TokenizedPrompt { prompts, ..TokenizedPrompt::default() }
            }
            Prompt::Embeddings(embeddings) => Self::embeddings(embeddings),
            Prompt::Generate(generate) => Self::generate(generate),
            Prompt::Chat(chat) => self.chat(chat, headers),
            Prompt::Messages(messages) => self.messages(messages),
            Prompt::Responses(responses) => Self::responses(responses),
            Prompt::Conversations(conversations) => Self::conversations(conversations),
            Prompt::None | Prompt::Images(_) => {
                return Err(PluginError::other("unsupported request body type, skipping estimation"));
            }
        })
    }

    fn embeddings(embeddings: &Embeddings<'_>) -> TokenizedPrompt {
        let (raw, texts) = match &embeddings.input {
            Input::Tokens(tokens) => {
                let prompts = vec![tokens.as_slice().into()];
                return TokenizedPrompt { prompts, ..TokenizedPrompt::default() };
            }
            Input::Text(text) => (*text, None),
            Input::Texts(texts) => ("", Some(texts)),
        };
        // What the llm-d Router's own record of the input looks like as JSON.
        let mut out = vec![b'{'];
        field(&mut out, "Raw", |out| json::write_text(out, raw));
        field(&mut out, "Strings", |out| scalar(out, texts));
        field(&mut out, "TokenIDs", |out| scalar(out, ()));
        out.push(b'}');
        TokenizedPrompt { prompts: vec![pack(&out)], ..TokenizedPrompt::default() }
    }

    /// Returns the token ids that a request of vLLM's `generate` brings.
    pub(super) fn generate(generate: &Generate<'_>) -> TokenizedPrompt {
        TokenizedPrompt {
            prompts: vec![generate.tokens().into()],
            features: generate.features.as_ref().map_or_else(Vec::new, paired),
            cache_salt: String::new(),
        }
    }

    fn chat(&self, chat: &Chat<'_>, headers: &Headers) -> TokenizedPrompt {
        // What is not plain text makes the stream longer.
        let texts = chat.messages.iter().map(|message| match &message.content {
            Content::Text(text) => message.role.len() + text.len(),
            Content::Blocks(_) => message.role.len(),
        });
        let mut stream = ByteStream::with_capacity(texts.sum());
        if let Some(tools) = chat.tools.filter(|tools| !tools.is_empty()) {
            stream.json_list(tools, json::write_value);
        }
        for message in &chat.messages {
            stream.text(message.role);
            match &message.content {
                Content::Text(text) => stream.text(text),
                Content::Blocks(blocks) => {
                    blocks.iter().for_each(|block| self.chat_block(&mut stream, block, headers));
                }
            }
        }
        stream.finish()
    }

    fn chat_block(&self, stream: &mut ByteStream, block: &Block<'_>, headers: &Headers) {
        match block.block_type {
            "text" => stream.text(block.text),
            "image_url" => {
                let url = block.image_url.unwrap_or_default();
                let tokens = media::image(&self.parameters, image_size::in_data_uri(url));
                stream.asset("image", url.as_bytes(), tokens);
            }
            "video_url" => {
                let url = block.video_url.unwrap_or_default();
                stream.asset("video", url.as_bytes(), media::video(&self.parameters, headers));
            }
            "input_audio" | "audio_url" => {
                let content =
                    block.input_audio.map_or_else(String::new, |a| format!("{}{}", a.data, a.format));
                stream.asset("audio", content.as_bytes(), media::audio(&content));
            }
            _ => {}
        }
    }

    fn messages(&self, messages: &Messages<'_>) -> TokenizedPrompt {
        let mut stream = ByteStream::default();
        if !messages.tools.is_empty() {
            stream.json_list(&messages.tools, write_tool);
        }
        stream.text(&system_text(&messages.system));
        for message in &messages.messages {
            stream.text(message.role);
            match &message.content {
                Content::Text(text) => stream.text(text),
                Content::Blocks(blocks) => {
                    blocks.iter().for_each(|block| self.anthropic_block(&mut stream, block));
                }
            }
        }
        stream.finish()
    }

    fn anthropic_block(&self, stream: &mut ByteStream, block: &AnthropicBlock<'_>) {
        match block.block_type {
            "text" => stream.text(block.text),
            "thinking" => stream.text(block.thinking),
            "image" => self.anthropic_image(stream, block.source, false),
            "tool_use" => {
                stream.text(block.id);
                stream.text(block.name);
                stream.text(block.input.as_deref().unwrap_or_default());
            }
            "tool_result" => match &block.content {
                Some(Content::Blocks(parts)) => {
                    let of = |kind| parts.iter().filter(move |part| part.block_type == kind);
                    let texts: Vec<&str> = of("text").map(|part| part.text).collect();
                    stream.text(&texts.join("\n"));
                    of("image").for_each(|part| self.anthropic_image(stream, part.source, true));
                }
                Some(Content::Text(text)) => stream.text(text),
                None => {}
            },
            _ => {}
        }
    }

    /// Appends an image by its URL, else by its data: as they are, or as a data URI inside the result of a tool.
    fn anthropic_image(&self, stream: &mut ByteStream, source: Option<Source<'_>>, as_uri: bool) {
        let Some(source) = source.filter(|source| !source.url.is_empty() || !source.data.is_empty()) else {
            return;
        };
        let (content, base64): (Cow<'_, str>, _) = if !source.url.is_empty() {
            (source.url.into(), image_size::in_data_uri(source.url))
        } else if as_uri {
            let media_type = if source.media_type.is_empty() { "image/jpeg" } else { source.media_type };
            (format!("data:{media_type};base64,{}", source.data).into(), Some(source.data))
        } else {
            (source.data.into(), Some(source.data))
        };
        stream.asset("image", content.as_bytes(), media::image(&self.parameters, base64));
    }

    fn responses(responses: &Responses<'_>) -> TokenizedPrompt {
        let parts = [
            ("instructions", responses.instructions),
            ("tools", responses.tools),
            ("input", responses.input),
        ];
        let mut stream = ByteStream::default();
        let present = parts.iter().filter_map(|(name, part)| part.map(|part| (name, part)));
        stream.json_list(present, |out, (name, part)| {
            out.push(b'{');
            field(out, name, |out| json::write_value(out, part));
            out.push(b'}');
        });
        stream.finish()
    }

    fn conversations(conversations: &Conversations<'_>) -> TokenizedPrompt {
        let mut stream = ByteStream::default();
        stream.json_list(&conversations.items, write_item);
        stream.finish()
    }
}

/// Pairs hashes and placeholders of each modality, as far as both go.
pub(super) fn paired(features: &MmFeatures<'_>) -> Vec<MultiModalFeature> {
    let mut all = Vec::new();
    for (modality, hashes) in &features.hashes {
        let ranges = features.placeholders.iter().find(|(other, _)| other == modality);
        for (hash, range) in hashes.iter().zip(ranges.map_or(&[][..], |(_, ranges)| ranges)) {
            all.push(MultiModalFeature {
                modality: (*modality).to_owned(),
                hash: (*hash).to_owned(),
                offset: usize::try_from(range.offset).unwrap_or(0),
                length: usize::try_from(range.length).unwrap_or(0),
            });
        }
    }
    all.sort_by_key(|feature| feature.offset);
    all
}

/// Returns the system prompt: of blocks the texts without a separator, billing headers left out.
pub(super) fn system_text<'a>(system: &Content<'a, AnthropicBlock<'a>>) -> Cow<'a, str> {
    match system {
        Content::Text(text) => Cow::Borrowed(text),
        Content::Blocks(blocks) => {
            let texts = blocks.iter().filter(|block| block.block_type == "text").map(|block| block.text);
            texts.filter(|text| !text.starts_with("x-anthropic-billing-header")).collect::<String>().into()
        }
    }
}

fn write_tool(out: &mut Vec<u8>, tool: &Tool<'_>) {
    out.push(b'{');
    field(out, "name", |out| json::write_text(out, tool.name));
    if !tool.description.is_empty() {
        field(out, "description", |out| json::write_text(out, tool.description));
    }
    if let Some(schema) = &tool.input_schema {
        field(out, "input_schema", |out| compact(out, schema));
    }
    if let Some(strict) = tool.strict {
        field(out, "strict", |out| scalar(out, strict));
    }
    if let Some(defer_loading) = tool.defer_loading {
        field(out, "defer_loading", |out| scalar(out, defer_loading));
    }
    out.push(b'}');
}

fn write_item(out: &mut Vec<u8>, item: &ConversationItem<'_>) {
    out.push(b'{');
    for (name, text) in [("type", item.item_type), ("role", item.role)] {
        if !text.is_empty() {
            field(out, name, |out| json::write_text(out, text));
        }
    }
    if let Some(content) = item.content {
        field(out, "content", |out| json::write_value(out, content));
    }
    out.push(b'}');
}
