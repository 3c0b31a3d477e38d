use std::sync::Arc;

use serde::Serialize;
use twox_hash::XxHash64;

use crate::request::{MultiModalFeature, TokenizedPrompt, json};

/// The bytes of a prompt on their way to pseudo tokens: four bytes each, little-endian, the last one padded with
/// zeros.
#[derive(Debug, Default)]
pub(super) struct ByteStream {
    bytes: Vec<u8>,
    features: Vec<MultiModalFeature>,
}

impl ByteStream {
    /// Returns an empty stream with room for `bytes` bytes.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        ByteStream { bytes: Vec::with_capacity(bytes), features: Vec::new() }
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Appends a JSON list, element by element, each written by `element`.
    pub(super) fn json_list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut element: impl FnMut(&mut Vec<u8>, T),
    ) {
        self.bytes.push(b'[');
        for (i, item) in items.into_iter().enumerate() {
            if i > 0 {
                self.bytes.push(b',');
            }
            element(&mut self.bytes, item);
        }
        self.bytes.push(b']');
    }

    /// Appends an image, sound or video: `tokens` times the hash of its content, at the next whole token.
    pub(super) fn asset(&mut self, modality: &str, content: &[u8], tokens: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        let hash = XxHash64::oneshot(0, content);
        self.features.push(MultiModalFeature {
            modality: modality.to_owned(),
            hash: format!("{hash:x}"),
            offset: self.bytes.len() / 4,
            length: tokens,
        });
        let token = (hash as u32).to_le_bytes();
        self.bytes.extend(std::iter::repeat_n(token, tokens).flatten());
    }

    /// Returns the stream as a prompt.
    pub(super) fn finish(self) -> TokenizedPrompt {
        TokenizedPrompt {
            prompts: vec![pack(&self.bytes)],
            features: self.features,
            cache_salt: String::new(),
        }
    }
}

/// Packs bytes into pseudo tokens.
pub(super) fn pack(bytes: &[u8]) -> Arc<[u32]> {
    let mut tokens: Arc<[u32]> = std::iter::repeat_n(0, bytes.len().div_ceil(4)).collect();
    let words = Arc::get_mut(&mut tokens).expect("nobody else has it yet");
    bytemuck::cast_slice_mut::<u32, u8>(words)[..bytes.len()].copy_from_slice(bytes);
    // Nothing to do where memory is little-endian.
    words.iter_mut().for_each(|word| *word = u32::from_le(*word));
    tokens
}

/// Writes `"name":value` behind a comma, unless it is the first field of its object.
pub(super) fn field(out: &mut Vec<u8>, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    json::write_text(out, name);
    out.push(b':');
    write(out);
}

/// Writes a scalar.
pub(super) fn scalar(out: &mut Vec<u8>, value: impl Serialize) {
    let value = serde_json::to_value(value).unwrap_or_default();
    json::write_value(out, &value);
}

/// Writes a JSON text without spaces, in its own order of keys and spelling of numbers; `<`, `>`, `&` and the line
/// separators are escaped.
pub(super) fn compact(out: &mut Vec<u8>, text: &str) {
    let mut in_string = false;
    let mut escaped = false;
    for c in text.chars() {
        if !in_string && c.is_ascii_whitespace() {
            continue;
        }
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.extend_from_slice(format!("\\u{:04x}", u32::from(c)).as_bytes());
            }
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
        if c == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && c == '\\' && !escaped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_packed_little_endian_and_padded() {
        assert_eq!(*pack(b"hello world"), [1_819_043_176, 1_870_078_063, 6_581_362]);
        assert!(pack(b"").is_empty());
    }

    #[test]
    fn an_asset_stands_at_a_whole_token() {
        let mut stream = ByteStream::default();
        stream.text("abcde");
        stream.asset("image", b"https://example.com/a.png", 2);
        let prompt = stream.finish();
        assert_eq!(prompt.features[0].hash, "9f4fdeae6ee1ceba");
        assert_eq!((prompt.features[0].offset, prompt.features[0].length), (2, 2));
        assert_eq!(prompt.prompts[0][2..], [0x6ee1_ceba, 0x6ee1_ceba]);
    }

    #[test]
    fn compacting_keeps_strings_and_order() {
        let mut out = Vec::new();
        compact(&mut out, r#"{ "z" : 1.0, "a b": [ "x \" <y", 2 ] }"#);
        assert_eq!(String::from_utf8(out).expect("UTF-8"), r#"{"z":1.0,"a b":["x \" \u003cy",2]}"#);
    }
}
