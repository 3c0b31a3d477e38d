//! Keys of KV blocks: what a request asks for and what an engine reports, in one naming (request-control spec
//! 14.1).

mod cbor;

pub use cbor::fnv1a_64;

use cbor::Fnv;

/// The name of a block: a hash over its content and everything before it. Zero is no key.
pub type BlockKey = u64;

/// The texts that set a block apart beyond its tokens (hashes of images, a salt); `None` = nothing does.
pub type ExtraKeys = Option<Vec<String>>;

/// Chains the keys of a token sequence.
///
/// The key of a block is the FNV-1a-64 hash of the canonical CBOR of `[key before, tokens, extra keys]`; before
/// the first block stands `[hash of the seed, null, model]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockHasher {
    block_size: usize,
    seed: u64,
}

/// Extra keys were given, but not one entry for each full block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "extraFeatures length {given} does not match token chunk count {blocks} (blockSizeTokens={block_size}, tokens={tokens})"
)]
pub struct ExtraKeysMismatch {
    given: usize,
    blocks: usize,
    block_size: usize,
    tokens: usize,
}

impl BlockHasher {
    /// Returns a hasher of blocks of `block_size` tokens, at least one.
    pub fn new(block_size: usize, seed: &str) -> Self {
        BlockHasher { block_size: block_size.max(1), seed: fnv1a_64(seed.as_bytes()) }
    }

    /// Returns the tokens a block.
    pub fn block_size(&self) -> usize {
        self.block_size
    }

    /// Returns the hash of the seed.
    pub fn init(&self) -> u64 {
        self.seed
    }

    /// Returns the key that stands before the first block of a sequence for `model`.
    pub fn root(&self, model: &str) -> BlockKey {
        let mut hash = Fnv::default();
        cbor::root(&mut hash, self.seed, model);
        hash.finish()
    }

    /// Appends the keys of all full blocks of `tokens` behind `parent` to `keys`. `extra` is empty or has one
    /// entry for each full block.
    ///
    /// # Errors
    /// `extra` has another length. Without a full block there are no keys, whatever `extra` says.
    pub fn chain(
        &self,
        parent: BlockKey,
        tokens: &[u32],
        extra: Option<&[ExtraKeys]>,
        keys: &mut Vec<BlockKey>,
    ) -> Result<(), ExtraKeysMismatch> {
        let blocks = tokens.chunks_exact(self.block_size);
        if blocks.len() == 0 {
            return Ok(());
        }
        if let Some(extra) = extra
            && extra.len() != blocks.len()
        {
            return Err(ExtraKeysMismatch {
                given: extra.len(),
                blocks: blocks.len(),
                block_size: self.block_size,
                tokens: tokens.len(),
            });
        }
        keys.reserve(blocks.len());
        let mut key = parent;
        for (index, block) in blocks.enumerate() {
            let mut hash = Fnv::default();
            cbor::block(&mut hash, key, block, extra.and_then(|extra| extra[index].as_deref()));
            key = hash.finish();
            keys.push(key);
        }
        Ok(())
    }

    /// Returns the bytes whose hash is the key of one block.
    pub fn encoded_block(parent: BlockKey, tokens: &[u32], extra: Option<&[String]>) -> Vec<u8> {
        let mut bytes = Vec::new();
        cbor::block(&mut bytes, parent, tokens, extra);
        bytes
    }

    /// Returns the bytes whose hash is [`root`](Self::root).
    pub fn encoded_root(&self, model: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        cbor::root(&mut bytes, self.seed, model);
        bytes
    }
}

#[cfg(test)]
mod tests;
