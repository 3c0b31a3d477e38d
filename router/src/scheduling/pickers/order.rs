//! Sorting by a key that may be NaN.

use std::cmp::Ordering;

/// Longest run that is sorted by insertion.
const BLOCK: usize = 20;

/// Sorts by key, descending and stably.
///
/// Without NaN this is the one stable order. A NaN compares as equal to everything, which is no order at all, so
/// then the place of each item depends on the order of comparisons: insertion inside blocks of 20, as upstream
/// does it, and merges of blocks.
pub(super) fn sort_descending<T: Clone>(items: &mut [T], key: impl Fn(&T) -> f64) {
    if !items.iter().any(|item| key(item).is_nan()) {
        items.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(Ordering::Equal));
        return;
    }
    let before = |a: &T, b: &T| key(a) > key(b);
    for block in items.chunks_mut(BLOCK) {
        for end in 1..block.len() {
            let mut at = end;
            while at > 0 && before(&block[at], &block[at - 1]) {
                block.swap(at, at - 1);
                at -= 1;
            }
        }
    }
    let mut width = BLOCK;
    while width < items.len() {
        for pair in items.chunks_mut(2 * width) {
            if pair.len() > width {
                merge(pair, width, before);
            }
        }
        width *= 2;
    }
}

/// Merges `items[..middle]` and `items[middle..]`; the left one goes first unless the right one is `before` it.
fn merge<T: Clone>(items: &mut [T], middle: usize, before: impl Fn(&T, &T) -> bool) {
    let left = items[..middle].to_vec();
    let mut left = left.into_iter().peekable();
    let (mut right, mut out) = (middle, 0);
    while let Some(next) = left.peek() {
        if right < items.len() && before(&items[right], next) {
            items[out] = items[right].clone();
            right += 1;
        } else if let Some(item) = left.next() {
            items[out] = item;
        }
        out += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_nan_keeps_its_place_and_may_split_the_order_of_the_others() {
        let sorted = |mut keys: Vec<f64>| {
            sort_descending(&mut keys, |k| *k);
            keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(sorted(vec![1.0, f64::NAN, 2.0]), "1 NaN 2");
        assert_eq!(sorted(vec![f64::NAN, 1.0, 2.0]), "NaN 2 1");
        assert_eq!(sorted(vec![1.0, 2.0, f64::NAN]), "2 1 NaN");
        assert_eq!(sorted(vec![1.0, f64::INFINITY, f64::NEG_INFINITY]), "inf 1 -inf");
    }

    proptest! {
        /// With NaN among the keys the result is still a permutation, and without it a stable descending order.
        #[test]
        fn nothing_is_lost_and_ties_keep_their_order(
            keys in prop::collection::vec(prop_oneof![4 => (0..5i32).prop_map(f64::from), 1 => Just(f64::NAN)], 0..90),
        ) {
            let mut items: Vec<(usize, f64)> = keys.iter().copied().enumerate().collect();
            sort_descending(&mut items, |(_, key)| *key);
            let mut places: Vec<usize> = items.iter().map(|(place, _)| *place).collect();
            places.sort_unstable();
            prop_assert_eq!(places, (0..keys.len()).collect::<Vec<_>>());
            if !keys.iter().any(|key| key.is_nan()) {
                prop_assert!(items.windows(2).all(|w| w[0].1 > w[1].1 || (w[0].1 == w[1].1 && w[0].0 < w[1].0)));
            }
        }
    }
}
