use bytes::{Bytes, BytesMut};
use memchr::memmem;

/// Gives a renamed model its name back in a response (request-control spec 2.1): chunk by chunk, in the two spellings
/// that JSON encoders use. A name that two chunks share stays as it is.
#[derive(Clone, Debug)]
pub struct ModelRename {
    tight: (Vec<u8>, Vec<u8>),
    spaced: (Vec<u8>, Vec<u8>),
}

impl ModelRename {
    /// Returns the renaming from `target`, which the model server knows, to `incoming`, which the client asked for.
    /// Names are not escaped: a name with a quote in it is found, and written, as it is.
    pub fn new(incoming: &str, target: &str) -> Self {
        let pair = |separator: &str| {
            let spelled = |model: &str| format!("\"model\":{separator}\"{model}\"").into_bytes();
            (spelled(target), spelled(incoming))
        };
        ModelRename { tight: pair(""), spaced: pair(" ") }
    }

    /// Returns the chunk with the name replaced wherever it stands. The spelling with a space is looked for only
    /// where the other was not found.
    pub fn apply(&self, chunk: &Bytes) -> Bytes {
        let replaced = replace(chunk, &self.tight).or_else(|| replace(chunk, &self.spaced));
        replaced.unwrap_or_else(|| chunk.clone())
    }
}

fn replace(chunk: &Bytes, (from, to): &(Vec<u8>, Vec<u8>)) -> Option<Bytes> {
    let mut out = BytesMut::new();
    let mut copied = 0;
    for at in memmem::find_iter(chunk, from) {
        out.extend_from_slice(&chunk[copied..at]);
        out.extend_from_slice(to);
        copied = at + from.len();
    }
    (copied > 0).then(|| {
        out.extend_from_slice(&chunk[copied..]);
        out.freeze()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Facts of configuration spec 9.8.
    #[test]
    fn a_renamed_model_gets_its_name_back() {
        let rename = ModelRename::new("gpt-4-proxy", "vllm-backend-01");
        for (given, expected) in [
            (r#"{"model":"vllm-backend-01","x":1}"#, r#"{"model":"gpt-4-proxy","x":1}"#),
            (r#"{"model": "vllm-backend-01"}"#, r#"{"model": "gpt-4-proxy"}"#),
            (r#"data: {"model":"other"}"#, r#"data: {"model":"other"}"#),
            ("data: [DONE]\n\n", "data: [DONE]\n\n"),
        ] {
            assert_eq!(rename.apply(&Bytes::from(given)), expected);
        }
    }
}
