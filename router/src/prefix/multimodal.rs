//! Where the multimodal items of a prompt lie among its blocks (request-control spec 14.2).

use super::block_keys::ExtraKeys;

/// Most extra keys of one sequence: items that overlap have as many as items times blocks.
const MOST_KEYS: usize = 1 << 20;

/// A multimodal item in a token sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<'a> {
    /// Content hash.
    pub hash: &'a str,
    /// First token.
    pub offset: i64,
    /// Tokens.
    pub length: i64,
}

/// Returns the extra keys of each full block of a sequence of `tokens` tokens: the hashes of all items that
/// reach into it, in order of their start; `None` where there are no items at all.
///
/// Items that start together keep their order: upstream's is random. What is beyond a million keys is left out:
/// nothing real has them, and such a sequence matches nothing.
pub fn extra_keys(items: &[Item<'_>], tokens: usize, block_size: usize) -> Option<Vec<ExtraKeys>> {
    if items.is_empty() {
        return None;
    }
    let block_size = block_size.max(1);
    let mut extra: Vec<ExtraKeys> = vec![None; tokens / block_size];
    let mut items: Vec<&Item<'_>> = items.iter().collect();
    items.sort_by_key(|item| item.offset);
    let mut room = MOST_KEYS;
    let block = |token: i64| usize::try_from(token).map_or(0, |token| token / block_size);
    for item in items {
        let (start, end) = (item.offset, item.offset.saturating_add(item.length));
        // An empty item inside a block counts: it starts before the block's end and ends after its start.
        for index in block(start)..extra.len().min(block(end).saturating_add(1)) {
            let first = (index * block_size) as i64;
            if end > first && start < first + block_size as i64 {
                if room == 0 {
                    return Some(extra);
                }
                room -= 1;
                extra[index].get_or_insert_default().push(item.hash.to_owned());
            }
        }
    }
    Some(extra)
}

/// Returns the indices of the blocks that hold a part of an item, ascending, at most `most` of them.
pub fn block_indices(items: &[Item<'_>], block_size: usize, most: usize) -> Vec<usize> {
    let block_size = block_size.max(1) as i64;
    let mut indices = Vec::new();
    for item in items.iter().filter(|item| item.length > 0 && item.offset >= 0) {
        let last = item.offset.saturating_add(item.length - 1) / block_size;
        indices.extend((item.offset / block_size..=last).map(|index| index as usize).take(most));
    }
    indices.sort_unstable();
    indices.dedup();
    indices.truncate(most);
    indices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(hash: &str, offset: i64, length: i64) -> Item<'_> {
        Item { hash, offset, length }
    }

    #[test]
    fn an_item_marks_every_block_that_it_reaches_into() {
        let extra = extra_keys(&[item("a", 0, 48)], 64, 16).unwrap();
        let a = Some(vec!["a".to_owned()]);
        assert_eq!(extra, [a.clone(), a.clone(), a.clone(), None]);
        assert_eq!(block_indices(&[item("a", 0, 48)], 16, 100), [0, 1, 2]);
    }

    #[test]
    fn items_follow_their_start_and_nothing_reaches_beyond_the_blocks() {
        let extra = extra_keys(&[item("b", 20, i64::MAX), item("a", 10, 30)], 40, 16).unwrap();
        let names = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect());
        assert_eq!(extra, [names(&["a"]), names(&["a", "b"])]);
        assert_eq!(extra_keys(&[item("a", i64::MAX, i64::MAX)], 32, 16).unwrap(), [None, None]);
        assert_eq!(extra_keys(&[], 32, 16), None);
    }

    #[test]
    fn indices_are_bounded() {
        assert_eq!(block_indices(&[item("a", 0, i64::MAX)], 1, 3), [0, 1, 2]);
        assert!(block_indices(&[item("a", 4, 0), item("b", -4, 9)], 4, 3).is_empty());
    }
}
