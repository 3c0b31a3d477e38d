use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

fn endpoint(name: &str) -> Rc<EndpointMetadata> {
    Rc::new(EndpointMetadata { id: EndpointId::new("ns", name), ..EndpointMetadata::default() })
}

#[test]
fn a_block_counts_for_every_holder_even_past_a_gap() {
    let mut index = ApproximateIndex::default();
    let [a, b, c] = ["a", "b", "c"].map(endpoint);
    index.add(&a, &[1, 3], 10);
    index.add(&b, &[1, 2, 3], 10);
    assert_eq!(index.matches(&[vec![1, 2, 3, 4]], [&a, &b, &c].into_iter()), Some(vec![2, 3, 0]));
    assert_eq!(index.matches(&[vec![9, 1]], [&a].into_iter()), None);
}

#[test]
fn an_endpoint_that_held_nothing_is_found_once_it_holds_a_block() {
    let mut index = ApproximateIndex::default();
    let [a, b] = ["a", "b"].map(endpoint);
    index.add(&a, &[1], 10);
    assert_eq!(index.matches(&[vec![1]], [&a, &b].into_iter()), Some(vec![1, 0]));
    index.add(&b, &[1], 10);
    assert_eq!(index.matches(&[vec![1]], [&a, &b].into_iter()), Some(vec![1, 1]));
}

#[test]
fn the_least_recent_block_is_forgotten() {
    let mut index = ApproximateIndex::default();
    let a = endpoint("a");
    for hash in [1, 2, 3] {
        index.add(&a, &[hash], 2);
    }
    let held = |index: &mut ApproximateIndex, hash| index.matches(&[vec![hash]], [&a].into_iter()).is_some();
    assert_eq!([1, 2, 3].map(|hash| held(&mut index, hash)), [false, true, true]);
}

#[test]
fn blocks_of_a_chain_beyond_the_capacity_stay_until_they_are_sent_again() {
    let mut index = ApproximateIndex::default();
    let a = endpoint("a");
    let held = |index: &mut ApproximateIndex| {
        [1, 2, 3, 4].map(|hash| index.matches(&[vec![hash]], [&a].into_iter()).is_some())
    };
    index.add(&a, &[1, 2, 3, 4], 2);
    assert_eq!(held(&mut index), [true; 4]);
    index.add(&a, &[7], 2);
    assert_eq!(held(&mut index), [true, true, false, true]);
    index.add(&a, &[1], 2);
    index.add(&a, &[8], 2);
    index.add(&a, &[9], 2);
    assert_eq!(held(&mut index), [false, true, false, false], "1 was sent again and then fell out");
    index.retain(|_| false);
    assert_eq!(held(&mut index), [false, true, false, false], "leftovers stay when the endpoint goes");
    assert_eq!(index.sizes().count(), 0);
}

#[test]
fn leftovers_of_endpoints_long_gone_are_forgotten() {
    let mut index = ApproximateIndex::default();
    for i in 0..=MOST_DEPARTED as u64 {
        index.add(&endpoint(&i.to_string()), &[2 * i, 2 * i + 1], 1);
        index.retain(|_| false);
    }
    assert_eq!(index.holders.len(), MOST_DEPARTED);
    assert_eq!(index.slots.iter().flatten().count(), MOST_DEPARTED);
}

proptest! {
    #[test]
    fn equals_a_model_of_sets(
        calls in proptest::collection::vec((0usize..3, proptest::collection::vec(0u64..12, 1..4)), 0..60),
        query in proptest::collection::vec(0u64..12, 0..6),
    ) {
        const CAPACITY: usize = 4;
        let endpoints = ["a", "b", "c"].map(endpoint);
        let mut index = ApproximateIndex::default();
        let mut lists: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
        for (who, chain) in calls {
            index.add(&endpoints[who], &chain, CAPACITY);
            let list = lists.entry(who).or_default();
            for hash in chain {
                list.retain(|h| *h != hash);
                if list.len() == CAPACITY {
                    list.remove(0);
                }
                list.push(hash);
            }
        }
        let mut counts = [0i64; 3];
        for hash in &query {
            let holders: BTreeSet<usize> =
                lists.iter().filter(|(_, list)| list.contains(hash)).map(|(who, _)| *who).collect();
            if holders.is_empty() {
                break;
            }
            for who in holders {
                counts[who] += 1;
            }
        }
        let expected = (counts != [0; 3]).then(|| counts.to_vec());
        prop_assert_eq!(index.matches(&[query], endpoints.iter()), expected);
        index.retain(|_| false);
        prop_assert!(index.holders.is_empty());
    }
}
