use std::borrow::Cow;
use std::hash::Hasher as _;

use twox_hash::XxHash64;

use crate::request::TokenizedPrompt;

/// Returns one chain of block hashes a prompt (request-control spec 8.0).
///
/// Block i of a prompt, `block_size` tokens or fewer at the end, has the hash
/// `xxh64(LE64(xxh64(tokens)) ‖ LE64(hash of block i - 1))`; before the first block stands
/// `xxh64(model ‖ cache salt)`. A chain ends after `max_blocks`. Prompts without a block have no chain, so chains
/// and prompts do not share indices.
pub fn prompt_hashes(
    model: &str,
    prompt: &TokenizedPrompt,
    block_size: usize,
    max_blocks: usize,
) -> Vec<Vec<u64>> {
    if block_size == 0 || max_blocks == 0 {
        return Vec::new();
    }
    let mut seed = XxHash64::with_seed(0);
    seed.write(model.as_bytes());
    seed.write(prompt.cache_salt.as_bytes());
    let seed = seed.finish();
    let chain = |tokens: &[u32]| {
        let mut previous = seed;
        let blocks = tokens.chunks(block_size).take(max_blocks).map(|block| {
            let mut link = [0; 16];
            link[..8].copy_from_slice(&XxHash64::oneshot(0, &le_bytes(block)).to_le_bytes());
            link[8..].copy_from_slice(&previous.to_le_bytes());
            previous = XxHash64::oneshot(0, &link);
            previous
        });
        blocks.collect::<Vec<u64>>()
    };
    prompt.prompts.iter().filter(|tokens| !tokens.is_empty()).map(|tokens| chain(tokens)).collect()
}

/// Returns the tokens as little-endian bytes: as they lie in memory, where memory is little-endian.
fn le_bytes(tokens: &[u32]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(tokens))
    } else {
        Cow::Owned(tokens.iter().flat_map(|token| token.to_le_bytes()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(prompts: &[&[u32]], cache_salt: &str) -> TokenizedPrompt {
        TokenizedPrompt {
            prompts: prompts.iter().map(|p| (*p).into()).collect(),
            cache_salt: cache_salt.to_owned(),
            ..TokenizedPrompt::default()
        }
    }

    #[test]
    fn vectors_of_the_specification() {
        let hashes = prompt_hashes("m", &prompt(&[&[1, 2, 3, 4, 5]], ""), 2, 100);
        assert_eq!(hashes, [[0xbdea_da20_7194_3583, 0x7aac_fb53_1261_b051, 0x7e59_2264_81d5_dbc3]]);
        let salted = prompt_hashes("m", &prompt(&[&[1, 2]], "salt"), 2, 100);
        assert_eq!(salted, [[0x6b0e_68c5_4f9c_eac3]]);
    }

    #[test]
    fn partial_blocks_count_and_empty_prompts_do_not() {
        let ten: Vec<u32> = (1..=10).collect();
        for (prompts, block_size, max_blocks, lengths) in [
            (vec![ten.as_slice()], 4, 100, vec![3]),
            (vec![ten.as_slice()], 4, 2, vec![2]),
            (vec![ten.as_slice()], 0, 100, vec![]),
            (vec![ten.as_slice()], 4, 0, vec![]),
            (vec![&[1, 2][..], &[], &[3, 4]], 2, 100, vec![1, 1]),
        ] {
            let hashes = prompt_hashes("m", &prompt(&prompts, ""), block_size, max_blocks);
            assert_eq!(hashes.iter().map(Vec::len).collect::<Vec<_>>(), lengths);
        }
    }
}
