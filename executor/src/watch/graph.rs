//! Who waits for whom.

use std::collections::BTreeMap;

/// Returns every cycle among tasks of which each waits for at most one other, each from its lowest number on.
pub(crate) fn cycles(waits_for: &BTreeMap<u32, u32>) -> Vec<Vec<u32>> {
    // The walk on which a task was met first.
    let mut met: BTreeMap<u32, u32> = BTreeMap::new();
    let mut found = Vec::new();
    for &start in waits_for.keys() {
        let mut task = start;
        let closed = loop {
            match met.get(&task) {
                Some(&walk) => break walk == start,
                None => met.insert(task, start),
            };
            match waits_for.get(&task) {
                Some(&next) => task = next,
                None => break false,
            }
        };
        if closed {
            let mut cycle = vec![task];
            let mut next = waits_for[&task];
            while next != task {
                cycle.push(next);
                next = waits_for[&next];
            }
            let lowest = cycle.iter().enumerate().min_by_key(|&(_, task)| task).map_or(0, |(at, _)| at);
            cycle.rotate_left(lowest);
            found.push(cycle);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_found_once_and_chains_that_lead_into_them_are_left_out() {
        let graph = |edges: &[(u32, u32)]| cycles(&edges.iter().copied().collect());
        assert_eq!(graph(&[]), Vec::<Vec<u32>>::new());
        assert_eq!(graph(&[(1, 2), (2, 3)]), Vec::<Vec<u32>>::new());
        assert_eq!(graph(&[(0, 5), (5, 7), (7, 4), (4, 5)]), [vec![4, 5, 7]]);
        assert_eq!(graph(&[(1, 1), (2, 3), (3, 2), (4, 1)]), [vec![1], vec![2, 3]]);
    }
}
