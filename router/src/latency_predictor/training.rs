//! Measured latencies on their way to the training server.

use executor::Stream;

use super::TrainingEntry;

/// What an entry is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Ttft,
    Tpot,
    Other,
}

const GROUPS: [Group; 3] = [Group::Ttft, Group::Tpot, Group::Other];

fn group(entry: &TrainingEntry) -> Group {
    match (entry.actual_ttft_ms > 0.0, entry.actual_tpot_ms > 0.0) {
        (true, false) => Group::Ttft,
        (false, true) => Group::Tpot,
        _ => Group::Other,
    }
}

/// Returns at most `size` of the entries: of each group its share, rounded down, and what is left of the largest.
/// Which ones, `draws` says. A few less where the largest group has not enough of them.
pub(super) fn sample(entries: Vec<TrainingEntry>, size: usize, draws: &mut Stream) -> Vec<TrainingEntry> {
    let total = entries.len();
    if total <= size {
        return entries;
    }
    let mut groups: [Vec<TrainingEntry>; 3] = Default::default();
    for entry in entries {
        let at = GROUPS.iter().position(|g| *g == group(&entry)).unwrap_or(GROUPS.len() - 1);
        groups[at].push(entry);
    }
    let mut shares = groups.each_ref().map(|group| size * group.len() / total);
    let largest = (0..groups.len()).rev().max_by_key(|at| groups[*at].len()).unwrap_or(0);
    shares[largest] += size - shares.iter().sum::<usize>();
    let mut sampled = Vec::with_capacity(size);
    for (mut group, share) in groups.into_iter().zip(shares) {
        draws.shuffle(&mut group);
        group.truncate(share);
        sampled.append(&mut group);
    }
    draws.shuffle(&mut sampled);
    sampled
}

#[cfg(test)]
mod tests {
    use executor::WallTime;
    use proptest::prelude::*;

    use super::*;
    use crate::latency_predictor::PredictionRow;

    fn entry((ttft, tpot): (f64, f64)) -> TrainingEntry {
        let entry = TrainingEntry::new(PredictionRow::default(), WallTime::from_unix_nanos(0));
        TrainingEntry { actual_ttft_ms: ttft, actual_tpot_ms: tpot, ..entry }
    }

    fn counts(entries: &[TrainingEntry]) -> [usize; 3] {
        GROUPS.map(|wanted| entries.iter().filter(|entry| group(entry) == wanted).count())
    }

    #[test]
    fn each_group_keeps_its_share() {
        let mut draws = Stream::new(1, "sample");
        let of = |n, latency| (0..n).map(move |_| entry(latency));
        let entries: Vec<_> =
            of(60, (1.0, 0.0)).chain(of(30, (0.0, 1.0))).chain(of(10, (0.0, 0.0))).collect();
        assert_eq!(counts(&sample(entries.clone(), 10, &mut draws)), [6, 3, 1]);
        // 33 * 0.6 = 19.8, 9.9, 3.3: the two that are left go to the largest.
        assert_eq!(counts(&sample(entries.clone(), 33, &mut draws)), [21, 9, 3]);
        assert_eq!(sample(entries.clone(), 100, &mut draws), entries);
    }

    proptest! {
        #[test]
        fn a_sample_is_part_of_the_whole(
            latencies in proptest::collection::vec((0u8..2, 0u8..2), 0..60),
            size in 0usize..70,
        ) {
            let entries: Vec<_> = latencies.iter().map(|(a, b)| entry((f64::from(*a), f64::from(*b)))).collect();
            let before = counts(&entries);
            let sampled = sample(entries, size, &mut Stream::new(1, "sample"));
            let most = size.min(latencies.len());
            prop_assert!((most.saturating_sub(GROUPS.len() - 1)..=most).contains(&sampled.len()));
            prop_assert!(counts(&sampled).iter().zip(before).all(|(after, before)| *after <= before));
        }
    }
}
