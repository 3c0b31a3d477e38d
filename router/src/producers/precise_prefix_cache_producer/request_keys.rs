//! The blocks that a request asks for (request-control spec 8.8, 14.2).

use crate::prefix::block_keys::{BlockHasher, BlockKey, ExtraKeysMismatch};
use crate::prefix::multimodal::{Item, block_indices, extra_keys};
use crate::request::TokenizedPrompt;

/// Most blocks with multimodal content that are counted.
const MOST_MULTIMODAL: usize = 1 << 20;

/// The blocks of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestKeys {
    /// The keys of each prompt that fills a block.
    pub prompts: Vec<Vec<BlockKey>>,
    /// Places of the blocks with multimodal content, ascending; of a request with one prompt.
    pub multimodal: Vec<usize>,
}

impl RequestKeys {
    /// Names the blocks of a request for `model`.
    ///
    /// Multimodal items count in a request with one prompt only; a cache salt is an extra key of the first block of
    /// every prompt.
    ///
    /// # Errors
    /// None that a request can cause.
    pub fn of(
        hasher: &BlockHasher,
        model: &str,
        prompt: &TokenizedPrompt,
    ) -> Result<Self, ExtraKeysMismatch> {
        let mut keys = RequestKeys::default();
        let items: Vec<Item<'_>> = match prompt.prompts.len() {
            1 => prompt.features.iter().map(item).collect(),
            _ => Vec::new(),
        };
        let root = hasher.root(model);
        for tokens in &prompt.prompts {
            let blocks = tokens.len() / hasher.block_size();
            if blocks == 0 {
                continue;
            }
            let mut extra = extra_keys(&items, tokens.len(), hasher.block_size());
            if !prompt.cache_salt.is_empty() {
                let extra = extra.get_or_insert_with(|| vec![None; blocks]);
                extra[0].get_or_insert_default().push(prompt.cache_salt.clone());
            }
            let mut chain = Vec::new();
            hasher.chain(root, tokens, extra.as_deref(), &mut chain)?;
            keys.prompts.push(chain);
        }
        if !keys.prompts.is_empty() {
            keys.multimodal = block_indices(&items, hasher.block_size(), MOST_MULTIMODAL);
        }
        Ok(keys)
    }

    /// Returns how many blocks there are.
    pub fn total(&self) -> usize {
        self.prompts.iter().map(Vec::len).sum()
    }
}

fn item(feature: &crate::request::MultiModalFeature) -> Item<'_> {
    Item { hash: &feature.hash, offset: feature.offset as i64, length: feature.length as i64 }
}
