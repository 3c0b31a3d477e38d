//! Which replica the requests of a batch go to (request-control spec 8.9).

use std::cmp::Ordering;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::endpoint::EndpointId;

/// A request of a batch.
#[derive(Clone, Debug, Default)]
pub struct Arrival {
    /// The hashes of its prompts' blocks, one prompt after the other; empty = it is not assigned.
    pub blocks: Vec<u64>,
    /// Its candidates with their running requests.
    pub replicas: Vec<(EndpointId, i64)>,
}

/// What replicas share fairly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalanceBy {
    /// Requests.
    Requests,
    /// Blocks that have to be computed.
    Tokens,
}

/// Bounds of an assignment.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most requests of one prompt that a replica takes while another has room; `None` = no bound.
    pub per_replica: Option<usize>,
    /// From how many equal first blocks on requests stay together; zero = only equal prompts do.
    pub min_colocate_blocks: usize,
    /// What replicas share fairly.
    pub balance_by: BalanceBy,
}

/// Requests that are placed together.
struct Unit<'a> {
    blocks: &'a [u64],
    members: Vec<usize>,
}

/// A replica while a batch is assigned.
struct Replica<'a> {
    id: &'a EndpointId,
    name: String,
    running: i64,
    load: usize,
    /// Members of the present unit.
    placed: usize,
}

/// Returns the replica of each request, `None` for those that have no fellow.
///
/// The replicas are the candidates of the first request that has blocks and candidates. Units are placed one after the other, equal
/// prompts before single ones, the longest first.
pub fn assign(batch: &[Arrival], limits: Limits) -> Vec<Option<EndpointId>> {
    let mut assigned = vec![None; batch.len()];
    let has_replicas = |arrival: &&Arrival| !arrival.blocks.is_empty() && !arrival.replicas.is_empty();
    let Some(first) = batch.iter().find(has_replicas) else { return assigned };
    let mut replicas: Vec<Replica<'_>> = first.replicas.iter().map(replica).collect();
    let units = units(batch, limits.min_colocate_blocks);
    let work = |unit: &Unit<'_>| match limits.balance_by {
        BalanceBy::Requests => unit.members.len(),
        BalanceBy::Tokens => unit.blocks.len(),
    };
    let share = units.iter().map(work).sum::<usize>().div_ceil(replicas.len());
    let mut recorded: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for unit in &units {
        let matches = matches(&recorded, unit.blocks, replicas.len());
        let mut used: Vec<usize> = Vec::new();
        replicas.iter_mut().for_each(|replica| replica.placed = 0);
        let mut members = &unit.members[..];
        while !members.is_empty() {
            let at = pick(&replicas, &matches, limits, share, used.is_empty());
            let replica = &mut replicas[at];
            let room = limits.per_replica.map(|most| most.saturating_sub(replica.placed).max(1));
            let run = members.len().min(room.unwrap_or(usize::MAX));
            for member in &members[..run] {
                assigned[*member] = Some(replica.id.clone());
            }
            members = &members[run..];
            replica.placed += run;
            replica.load += match limits.balance_by {
                BalanceBy::Requests => run,
                BalanceBy::Tokens if used.contains(&at) => 0,
                BalanceBy::Tokens => unit.blocks.len().saturating_sub(matches[at]),
            };
            if !used.contains(&at) {
                used.push(at);
            }
        }
        for block in unit.blocks {
            let holders = recorded.entry(*block).or_default();
            holders.extend(used.iter().filter(|at| !holders.contains(at)).copied().collect::<Vec<_>>());
        }
    }
    assigned
}

fn replica((id, running): &(EndpointId, i64)) -> Replica<'_> {
    Replica { id, name: id.to_string(), running: *running, load: 0, placed: 0 }
}

/// Groups equal prompts, and finds the single ones that begin as another does.
fn units(batch: &[Arrival], min_colocate: usize) -> Vec<Unit<'_>> {
    let mut groups: IndexMap<&[u64], Vec<usize>, FxBuildHasher> = IndexMap::default();
    let mut beginnings: FxHashMap<&[u64], usize> = FxHashMap::default();
    for (at, arrival) in batch.iter().enumerate().filter(|(_, arrival)| !arrival.blocks.is_empty()) {
        groups.entry(&arrival.blocks).or_default().push(at);
        if min_colocate > 0 && arrival.blocks.len() >= min_colocate {
            *beginnings.entry(&arrival.blocks[..min_colocate]).or_default() += 1;
        }
    }
    let has_fellow = |blocks: &[u64]| {
        let beginning = blocks.get(..min_colocate).filter(|_| min_colocate > 0);
        beginning.and_then(|beginning| beginnings.get(beginning)).is_some_and(|n| *n > 1)
    };
    let units = groups.into_iter().map(|(blocks, members)| Unit { blocks, members });
    let mut units: Vec<Unit<'_>> =
        units.filter(|unit| unit.members.len() > 1 || has_fellow(unit.blocks)).collect();
    // Stable: ties stay in order of the first member's arrival.
    units.sort_by_key(|unit| (unit.members.len() == 1, std::cmp::Reverse(unit.blocks.len())));
    units
}

/// Returns how many of the blocks each replica has been given in this batch, up to the first block that none has.
fn matches(recorded: &FxHashMap<u64, Vec<usize>>, blocks: &[u64], replicas: usize) -> Vec<usize> {
    let mut matches = vec![0; replicas];
    for holders in blocks.iter().map_while(|block| recorded.get(block)) {
        for at in holders {
            matches[*at] += 1;
        }
    }
    matches
}

fn pick(replicas: &[Replica<'_>], matches: &[usize], limits: Limits, share: usize, is_first: bool) -> usize {
    let has_room = |at: &usize| limits.per_replica.is_none_or(|most| replicas[*at].placed < most);
    let less = |a: &usize, b: &usize| order(&replicas[*a], &replicas[*b]);
    let all = 0..replicas.len();
    let colocate = limits.min_colocate_blocks;
    if is_first && colocate > 0 {
        let fits = |at: &usize| has_room(at) && replicas[*at].load < share && matches[*at] >= colocate;
        let best =
            all.clone().filter(fits).min_by(|a, b| matches[*b].cmp(&matches[*a]).then_with(|| less(a, b)));
        if let Some(best) = best {
            return best;
        }
    }
    let with_room = all.clone().filter(has_room).min_by(less);
    with_room.or_else(|| all.min_by(less)).unwrap_or(0)
}

/// The order in which replicas are preferred.
fn order(a: &Replica<'_>, b: &Replica<'_>) -> Ordering {
    (a.load, a.running, &a.name).cmp(&(b.load, b.running, &b.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Assigns prompts of the given blocks to `pods` idle pods, and returns how many requests each pod got.
    fn counts(pods: usize, batch: &[&[u64]], limits: Limits) -> Vec<usize> {
        let replicas: Vec<_> = (1..=pods).map(|n| (EndpointId::new("ns", format!("pod{n}")), 0)).collect();
        let arrival = |blocks: &&[u64]| Arrival { blocks: blocks.to_vec(), replicas: replicas.clone() };
        let assigned = assign(&batch.iter().map(arrival).collect::<Vec<_>>(), limits);
        let of = |id: &EndpointId| assigned.iter().filter(|replica| replica.as_ref() == Some(id)).count();
        replicas.iter().map(|(id, _)| of(id)).collect()
    }

    fn limits(per_replica: Option<usize>, min_colocate_blocks: usize, balance_by: BalanceBy) -> Limits {
        Limits { per_replica, min_colocate_blocks, balance_by }
    }

    #[test]
    fn facts_of_the_specification() {
        use BalanceBy::{Requests, Tokens};
        let eight: Vec<&[u64]> = vec![&[1, 2, 3]; 8];
        let two_kinds = [eight.clone(), vec![&[9, 9, 9]; 8]].concat();
        let twice =
            |prompts: &[&'static [u64]]| prompts.iter().flat_map(|p| [*p, *p]).collect::<Vec<&[u64]>>();
        let families = twice(&[&[1, 2, 3], &[1, 2, 4], &[7, 8, 5], &[7, 8, 6]]);
        let one_family = twice(&[&[1, 2, 3], &[1, 2, 4], &[1, 2, 5], &[1, 2, 6]]);
        let with_singles: Vec<&[u64]> =
            vec![&[1, 2, 3], &[1, 2, 3], &[1, 2, 8], &[7, 8, 5], &[7, 8, 5], &[7, 8, 9]];
        let long = twice(&[&[1, 2, 3, 4], &[5], &[6]]);
        type Row<'a> = (usize, &'a [&'a [u64]], Limits, &'a [usize]);
        let rows: [Row<'_>; 10] = [
            (4, &eight, limits(None, 0, Requests), &[8, 0, 0, 0]),
            (4, &eight, limits(Some(2), 0, Requests), &[2, 2, 2, 2]),
            (4, &eight, limits(Some(4), 0, Requests), &[4, 4, 0, 0]),
            (2, &eight, limits(Some(2), 0, Requests), &[4, 4]),
            (4, &two_kinds, limits(None, 0, Requests), &[8, 8, 0, 0]),
            (2, &families, limits(None, 2, Requests), &[4, 4]),
            (4, &one_family, limits(None, 2, Requests), &[2, 2, 2, 2]),
            (2, &with_singles, limits(None, 2, Requests), &[3, 3]),
            (2, &long, limits(None, 0, Requests), &[4, 2]),
            (2, &long, limits(None, 0, Tokens), &[2, 4]),
        ];
        for (pods, batch, limits, want) in rows {
            assert_eq!(counts(pods, batch, limits), want, "{pods} {batch:?} {limits:?}");
        }
    }

    #[test]
    fn single_and_empty_prompts_are_nobodys() {
        let limits = limits(None, 0, BalanceBy::Requests);
        assert_eq!(counts(2, &[&[1], &[2], &[], &[]], limits), [0, 0]);
        assert_eq!(assign(&[Arrival::default()], limits), [None]);
    }
}
