//! What a render server answers: request-control spec 8.7. Absent and null are empty, text behind the value is not read.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::estimate::paired;
use crate::request::{MmFeatures, Placeholder, TokenizedPrompt};

#[derive(Default, Deserialize)]
struct Rendered {
    token_ids: Option<Vec<Option<u32>>>,
    features: Option<Features>,
}

#[derive(Deserialize)]
struct Features {
    mm_hashes: Option<BTreeMap<String, Option<Vec<Option<String>>>>>,
    mm_placeholders: Option<BTreeMap<String, Option<Vec<Option<Range>>>>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct Range {
    offset: Option<i64>,
    length: Option<i64>,
}

impl Rendered {
    fn tokens(&self) -> std::sync::Arc<[u32]> {
        self.token_ids.iter().flatten().map(|id| id.unwrap_or(0)).collect()
    }
}

fn decode<'a, T: Deserialize<'a> + Default>(body: &'a [u8]) -> serde_json::Result<T> {
    let mut decoder = serde_json::Deserializer::from_slice(body);
    Option::<T>::deserialize(&mut decoder).map(Option::unwrap_or_default)
}

/// Reads the answer to completions, one element a prompt; `None` = there is none.
pub(super) fn completions(body: &[u8]) -> serde_json::Result<Option<TokenizedPrompt>> {
    let rendered: Vec<Option<Rendered>> = decode(body)?;
    if rendered.is_empty() {
        return Ok(None);
    }
    let prompts = rendered.into_iter().map(|prompt| prompt.unwrap_or_default().tokens()).collect();
    Ok(Some(TokenizedPrompt { prompts, ..TokenizedPrompt::default() }))
}

/// Reads the answer to a chat.
pub(super) fn chat(body: &[u8]) -> serde_json::Result<TokenizedPrompt> {
    let rendered: Rendered = decode(body)?;
    let mut features = MmFeatures::default();
    if let Some(found) = &rendered.features {
        let hashes = found.mm_hashes.iter().flatten().map(|(modality, hashes)| {
            let hashes = hashes.iter().flatten().map(|hash| hash.as_deref().unwrap_or_default());
            (modality.as_str(), hashes.collect())
        });
        features.hashes = hashes.collect();
        let placeholders = found.mm_placeholders.iter().flatten().map(|(modality, ranges)| {
            let ranges = ranges.iter().flatten().map(|range| {
                let Range { offset, length } = range.unwrap_or_default();
                Placeholder { offset: offset.unwrap_or(0), length: length.unwrap_or(0) }
            });
            (modality.as_str(), ranges.collect())
        });
        features.placeholders = placeholders.collect();
    }
    Ok(TokenizedPrompt {
        prompts: vec![rendered.tokens()],
        features: paired(&features),
        cache_salt: String::new(),
    })
}
