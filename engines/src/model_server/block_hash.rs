//! Hashes of the full blocks of a token sequence, chained (model-server spec 4.1).

use twox_hash::XxHash64;

use crate::engine::{BlockHash, Token};

/// The hash that stands before a sequence's first block.
///
/// Sequences that differ in a key (a cache salt, an adapter) share no block.
pub(crate) fn root(keys: &[&str]) -> BlockHash {
    BlockHash(keys.iter().fold(0, |hash, key| XxHash64::oneshot(hash, key.as_bytes())))
}

/// The hash of the block `tokens` behind `parent`.
pub(crate) fn next(parent: BlockHash, tokens: &[Token]) -> BlockHash {
    let mut bytes = [0u8; 4 * 64];
    if let Some(bytes) = bytes.get_mut(..4 * tokens.len()) {
        for (bytes, token) in bytes.chunks_exact_mut(4).zip(tokens) {
            bytes.copy_from_slice(&token.to_le_bytes());
        }
        return BlockHash(XxHash64::oneshot(parent.0, bytes));
    }
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    BlockHash(XxHash64::oneshot(parent.0, &bytes))
}

/// The hashes of all full blocks of `tokens`.
pub(crate) fn chain(root: BlockHash, tokens: &[Token], block_size: u32) -> Vec<BlockHash> {
    let blocks = tokens.chunks_exact(block_size.max(1) as usize);
    let mut parent = root;
    blocks
        .map(|block| {
            parent = next(parent, block);
            parent
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_prefixes_give_equal_hashes_and_others_do_not() {
        let a: Vec<Token> = (0..64).collect();
        let mut b = a.clone();
        b[40] = 7;
        let (a, b) = (chain(root(&[]), &a, 16), chain(root(&[]), &b, 16));
        assert_eq!((a.len(), &a[..2]), (4, &b[..2]));
        assert!(a[2] != b[2] && a[3] != b[3], "a change reaches all blocks behind it");
    }

    #[test]
    fn a_partial_block_has_no_hash() {
        assert_eq!(chain(root(&[]), &[1, 2, 3], 2).len(), 1);
        assert!(chain(root(&[]), &[1], 2).is_empty());
    }

    #[test]
    fn keys_separate_sequences() {
        assert_ne!(root(&["salt"]), root(&[]));
        assert_ne!(root(&["ab", "c"]), root(&["a", "bc"]));
    }

    #[test]
    fn long_blocks_hash_as_their_bytes() {
        let tokens: Vec<Token> = (0..100).collect();
        let bytes: Vec<u8> = tokens.iter().flat_map(|t| t.to_le_bytes()).collect();
        assert_eq!(next(BlockHash(9), &tokens).0, XxHash64::oneshot(9, &bytes));
        assert_eq!(next(BlockHash(9), &tokens[..3]).0, XxHash64::oneshot(9, &bytes[..12]));
    }
}
