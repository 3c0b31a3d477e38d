use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// What a wheel should do, said with an ordered map of (time, insertion).
#[derive(Default)]
struct Model {
    entries: BTreeMap<(u64, u64), Key>,
    /// The time that was reached: popped last, or a limit below which nothing was left.
    reached: u64,
}

#[derive(Clone, Debug)]
enum Step {
    /// Push this far ahead of the time reached.
    Push(u64),
    /// Cancel the n-th pending entry.
    Cancel(usize),
    /// Pop no later than this far ahead of the time reached.
    Pop(u64),
}

fn distance() -> impl Strategy<Value = u64> {
    // Every level, ties, and both ends.
    prop_oneof![0u64..4, 0u64..5_000, (0u32..64).prop_map(|bit| 1 << bit), any::<u64>(), Just(u64::MAX),]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => distance().prop_map(Step::Push),
        1 => any::<usize>().prop_map(Step::Cancel),
        3 => distance().prop_map(Step::Pop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equals_an_ordered_map(steps in prop::collection::vec(step(), 1..300)) {
        let mut wheel = Wheel::new();
        let mut model = Model::default();
        for (number, step) in (0u64..).zip(steps) {
            match step {
                Step::Push(ahead) => {
                    let at = model.reached.saturating_add(ahead);
                    model.entries.insert((at, number), wheel.push(at, number));
                }
                Step::Cancel(n) if !model.entries.is_empty() => {
                    let (&entry, &key) = model.entries.iter().nth(n % model.entries.len()).unwrap();
                    model.entries.remove(&entry);
                    prop_assert_eq!(wheel.cancel(key), Some(entry.1));
                }
                Step::Cancel(_) => {}
                Step::Pop(ahead) => {
                    let limit = model.reached.saturating_add(ahead);
                    let expected = model.entries.first_key_value().map(|(&entry, _)| entry);
                    let expected = expected.filter(|&(at, _)| at <= limit);
                    prop_assert_eq!(wheel.pop(limit), expected);
                    model.reached = expected.map_or(limit, |(at, _)| at);
                    expected.map(|entry| model.entries.remove(&entry));
                }
            }
            prop_assert_eq!(wheel.len(), model.entries.len());
        }
        for (entry, _) in std::mem::take(&mut model.entries) {
            prop_assert_eq!(wheel.pop(u64::MAX), Some(entry));
        }
        prop_assert_eq!(wheel.pop(u64::MAX), None);
    }
}

#[test]
fn a_limit_below_the_first_entry_leaves_room_for_earlier_ones() {
    let mut wheel = Wheel::new();
    wheel.push(1_000_000, 'b');
    wheel.push(1_000_001, 'c');
    assert_eq!(wheel.pop(999_999), None);
    wheel.push(999_999, 'a');
    let order: Vec<_> = std::iter::from_fn(|| wheel.pop(u64::MAX)).collect();
    assert_eq!(order, [(999_999, 'a'), (1_000_000, 'b'), (1_000_001, 'c')]);
}

#[test]
fn a_cancelled_key_finds_nothing() {
    let mut wheel = Wheel::new();
    let key = wheel.push(5, ());
    assert_eq!(wheel.cancel(key), Some(()));
    assert_eq!(wheel.cancel(key), None);
    assert_eq!(wheel.pop(u64::MAX), None);
}
