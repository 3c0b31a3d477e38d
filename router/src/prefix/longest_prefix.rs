//! How much of a prompt each pod holds (request-control spec 14.4, 8.8).

use std::collections::BTreeMap;

use super::block_index::{BlockIndex, EntryId};
use super::block_keys::BlockKey;

/// The name under which guesses are counted, whatever their tier.
const SPECULATIVE: &str = "speculative";

/// No pod, no lane.
const NONE: u32 = u32::MAX;

/// What a block in each tier counts; 1 where nothing is said.
#[derive(Clone, Debug, PartialEq)]
pub struct TierWeights(BTreeMap<String, f64>);

impl Default for TierWeights {
    fn default() -> Self {
        TierWeights::new(Self::DEFAULT)
    }
}

impl TierWeights {
    /// The weights of the llm-d Router.
    pub const DEFAULT: [(&str, f64); 2] = [("gpu", 1.0), ("cpu", 0.8)];

    /// Returns these weights; of a tier named twice the last counts.
    pub fn new(weights: impl IntoIterator<Item = (impl Into<String>, f64)>) -> Self {
        TierWeights(weights.into_iter().map(|(tier, weight)| (tier.into(), weight)).collect())
    }

    /// Returns the weight of a tier.
    pub fn of(&self, tier: &str) -> f64 {
        self.0.get(tier).copied().unwrap_or(1.0)
    }
}

/// What a pod holds of some prompts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodMatch {
    /// Blocks from the start on without a gap, each with the highest weight of the tiers that it lies in.
    pub score: f64,
    /// Blocks from the start on without a gap, in whatever tier. Unit: blocks.
    pub blocks: i64,
    /// Blocks from the start on without a gap in one tier, for each tier that has the first block.
    pub by_tier: BTreeMap<String, i64>,
}

/// Finds the longest prefix that each of some pods holds. Keeps its tables from one request to the next.
///
/// A block that changes nothing but how far everyone is costs a look-up and an addition for each holder, in whatever
/// order they stand; another one a step for each holder.
#[derive(Debug, Default)]
pub struct LongestPrefix {
    places: Vec<Place>,
    pods: Vec<Pod>,
    lanes: Vec<Lane>,
    /// The pods and lanes that had the last block of their run.
    alive: Vec<u32>,
    alive_lanes: Vec<u32>,
    /// The pods that had the block before.
    before: Vec<u32>,
    /// For each entry whether it counts, and whether it held the last block: see [`ABSENT`].
    states: Vec<u32>,
    /// The entries of each pod, and where those of a pod begin.
    ids: Vec<EntryId>,
    first_ids: Vec<u32>,
    /// The entries that hold the last block and count.
    present: Vec<EntryId>,
}

/// State of an entry of a pod that still has every block, which did not hold the last one; one that did has state 1, any
/// other 0. The sum over the holders of a block is the number of those that held the last one exactly where the same
/// entries of these pods hold both.
const ABSENT: u32 = 1 << 20;

/// Where an entry counts.
#[derive(Clone, Copy, Debug)]
struct Place {
    pod: u32,
    lane: u32,
    weight: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pod {
    depth: u32,
    weight: f64,
    score: f64,
}

/// A tier of a pod.
#[derive(Clone, Debug)]
struct Lane {
    pod: u32,
    tier: std::rc::Rc<str>,
    depth: u32,
}

impl LongestPrefix {
    /// Adds to `matches`, one for each of `pods`, what they hold of a prompt with these blocks. Every block that
    /// anybody holds counts as used.
    ///
    /// Scores are sums of doubles in the order of the blocks.
    pub fn add(
        &mut self,
        index: &mut BlockIndex,
        blocks: &[BlockKey],
        pods: &[&str],
        weights: &TierWeights,
        matches: &mut [PodMatch],
    ) {
        self.prepare(index, pods, weights);
        let (mut depth, mut repeats, mut ended) = (0, 0, false);
        index.visit(blocks, |at, holders| {
            if ended {
                return;
            }
            if at as u32 != depth + repeats {
                ended = true;
            } else if at > 0 && self.changes_nothing(holders) {
                repeats += 1;
            } else {
                self.repeat(depth, repeats);
                depth += repeats;
                repeats = 0;
                self.step(depth, holders);
                depth += 1;
                ended = self.alive.is_empty();
            }
        });
        self.repeat(depth, repeats);
        for (pod, total) in self.pods.iter().zip(&mut *matches).filter(|(pod, _)| pod.depth > 0) {
            total.score += pod.score;
            total.blocks += i64::from(pod.depth);
        }
        for lane in self.lanes.iter().filter(|lane| lane.depth > 0) {
            let by_tier = &mut matches[lane.pod as usize].by_tier;
            match by_tier.get_mut(&*lane.tier) {
                Some(blocks) => *blocks += i64::from(lane.depth),
                None => {
                    by_tier.insert(lane.tier.to_string(), i64::from(lane.depth));
                }
            }
        }
    }

    fn prepare(&mut self, index: &BlockIndex, pods: &[&str], weights: &TierWeights) {
        self.places.clear();
        self.places.resize(index.entry_bound(), Place { pod: NONE, lane: NONE, weight: 0.0 });
        self.pods.clear();
        self.pods.resize(pods.len(), Pod::default());
        self.lanes.clear();
        self.alive.clear();
        self.alive_lanes.clear();
        self.states.clear();
        self.states.resize(index.entry_bound(), 0);
        self.ids.clear();
        self.first_ids.clear();
        self.present.clear();
        for (pod, name) in pods.iter().enumerate() {
            let first = self.lanes.len();
            self.first_ids.push(self.ids.len() as u32);
            for id in index.entries_of(name) {
                let Some(entry) = index.entry(*id) else { continue };
                let tier = if entry.speculative { SPECULATIVE } else { &*entry.tier };
                let lane = self.lanes[first..].iter().position(|lane| &*lane.tier == tier);
                let lane = lane.map_or(self.lanes.len(), |lane| first + lane);
                if lane == self.lanes.len() {
                    self.lanes.push(Lane { pod: pod as u32, tier: tier.into(), depth: 0 });
                }
                let weight = weights.of(&entry.tier);
                self.places[*id as usize] = Place { pod: pod as u32, lane: lane as u32, weight };
                self.ids.push(*id);
            }
        }
        self.first_ids.push(self.ids.len() as u32);
    }

    /// Returns whether, of the pods that have every block so far, the entries that hold this block are those that held
    /// the one before.
    fn changes_nothing(&self, holders: &[EntryId]) -> bool {
        let sum: u64 = holders.iter().map(|id| u64::from(self.states[*id as usize])).sum();
        sum == self.present.len() as u64
    }

    /// Takes the block at `depth`.
    fn step(&mut self, depth: u32, holders: &[EntryId]) {
        std::mem::swap(&mut self.alive, &mut self.before);
        self.alive.clear();
        self.alive_lanes.clear();
        for id in holders {
            let Place { pod: at, lane, weight } = self.places[*id as usize];
            if at == NONE {
                continue;
            }
            let tier = &mut self.lanes[lane as usize];
            if tier.depth == depth {
                tier.depth += 1;
                self.alive_lanes.push(lane);
            }
            let pod = &mut self.pods[at as usize];
            if pod.depth == depth {
                (pod.depth, pod.weight) = (depth + 1, weight);
                self.alive.push(at);
            } else if pod.depth == depth + 1 {
                pod.weight = pod.weight.max(weight);
            }
        }
        for at in &self.alive {
            let pod = &mut self.pods[*at as usize];
            pod.score += pod.weight;
        }
        self.note_states(depth + 1, holders);
    }

    /// Notes which entries count from now on, and which of them hold the block that was just taken.
    fn note_states(&mut self, depth: u32, holders: &[EntryId]) {
        for id in self.present.drain(..) {
            self.states[id as usize] = ABSENT;
        }
        // With the first block pods come, with those behind it they go.
        let (changed, state) = if depth == 1 { (&self.alive, ABSENT) } else { (&self.before, 0) };
        for at in changed.iter().map(|at| *at as usize) {
            if depth == 1 || self.pods[at].depth < depth {
                let own = self.first_ids[at] as usize..self.first_ids[at + 1] as usize;
                self.ids[own].iter().for_each(|id| self.states[*id as usize] = state);
            }
        }
        for id in holders {
            let state = &mut self.states[*id as usize];
            if *state == ABSENT {
                *state = 1;
                self.present.push(*id);
            }
        }
    }

    /// Takes the last block's holders `times` more.
    fn repeat(&mut self, depth: u32, times: u32) {
        if times == 0 {
            return;
        }
        for at in &self.alive {
            let pod = &mut self.pods[*at as usize];
            pod.depth = depth + times;
            // Sums of whole numbers are exact in any order, others are not.
            if pod.weight.fract() == 0.0 && pod.score.fract() == 0.0 && pod.score.abs() < 1e15 {
                pod.score += pod.weight * f64::from(times);
            } else {
                (0..times).for_each(|_| pod.score += pod.weight);
            }
        }
        for lane in &self.alive_lanes {
            self.lanes[*lane as usize].depth = depth + times;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::prefix::block_index::{Limits, PodEntry};

    fn matches(
        holdings: &[(u64, &str, &str)],
        weights: &TierWeights,
        keys: &[u64],
        pods: &[&str],
    ) -> Vec<PodMatch> {
        let mut index = BlockIndex::new(Limits { holders: 64, ..Limits::default() });
        for (key, pod, tier) in holdings {
            let entry = match *tier {
                "?" => PodEntry::speculative(pod),
                tier => PodEntry::new(pod, tier),
            };
            index.add(&[], &[*key], &[entry]).unwrap();
        }
        let mut matches = vec![PodMatch::default(); pods.len()];
        LongestPrefix::default().add(&mut index, keys, pods, weights, &mut matches);
        matches
    }

    fn by_tier(tiers: &[(&str, i64)]) -> BTreeMap<String, i64> {
        tiers.iter().map(|(tier, blocks)| ((*tier).to_owned(), *blocks)).collect()
    }

    /// What the specification says, pod by pod and block by block.
    fn by_the_rules(
        holdings: &[(u64, &str, &str)],
        weights: &TierWeights,
        keys: &[u64],
        pod: &str,
    ) -> PodMatch {
        let tiers = |key: u64| {
            holdings.iter().filter(move |(k, p, _)| (*k, *p) == (key, pod)).map(|(_, _, tier)| *tier)
        };
        let weight = |tier: &str| weights.of(if tier == "?" { "" } else { tier });
        let mut found = PodMatch::default();
        for key in keys {
            let Some(best) = tiers(*key).map(weight).reduce(f64::max) else { break };
            found.score += best;
            found.blocks += 1;
        }
        for tier in ["gpu", "cpu", "?"] {
            let blocks = keys.iter().take_while(|key| tiers(**key).any(|held| held == tier)).count();
            if blocks > 0 {
                let name = if tier == "?" { SPECULATIVE } else { tier };
                found.by_tier.insert(name.to_owned(), blocks as i64);
            }
        }
        found
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_the_rules_say(
            held in proptest::collection::vec((1u64..7, 0usize..5, 0usize..3), 0..90),
            order in proptest::collection::vec(1u64..7, 0..8),
        ) {
            const PODS: [&str; 5] = ["a", "b", "c", "d", "e"];
            const TIERS: [&str; 3] = ["gpu", "cpu", "?"];
            let holdings: Vec<_> = held.iter().map(|(key, pod, tier)| (*key, PODS[*pod], TIERS[*tier])).collect();
            let weights = TierWeights::default();
            // One pod is no candidate, and one candidate holds nothing.
            let candidates = ["b", "x", "a", "d", "e"];
            let got = matches(&holdings, &weights, &order, &candidates);
            for (pod, got) in candidates.iter().zip(got) {
                prop_assert_eq!(got, by_the_rules(&holdings, &weights, &order, pod), "{}", pod);
            }
        }
    }

    #[test]
    fn the_best_tier_of_each_block_counts() {
        let weights = TierWeights::new([("gpu", 1.0), ("cpu", 0.5)]);
        let holdings = [
            (1, "a", "gpu"),
            (1, "a", "cpu"),
            (2, "a", "cpu"),
            (2, "a", "gpu"),
            (3, "a", "cpu"),
            (2, "b", "gpu"),
        ];
        let got = matches(&holdings, &weights, &[1, 2, 3, 4], &["a", "b", "c"]);
        let a = PodMatch { score: 2.5, blocks: 3, by_tier: by_tier(&[("cpu", 3), ("gpu", 2)]) };
        assert_eq!(got, [a, PodMatch::default(), PodMatch::default()]);
    }

    #[test]
    fn a_tier_counts_from_the_first_block_on() {
        let weights = TierWeights::default();
        let got = matches(&[(1, "a", "gpu"), (2, "a", "cpu")], &weights, &[1, 2], &["a"]);
        assert_eq!((got[0].blocks, &got[0].by_tier), (2, &by_tier(&[("gpu", 1)])));
        assert_eq!(got[0].score, 1.8);
    }

    #[test]
    fn sums_are_those_of_doubles_in_order() {
        let holdings: Vec<(u64, &str, &str)> = (1..=10).map(|key| (key, "a", "cpu")).collect();
        let keys: Vec<u64> = (1..=10).collect();
        let got = matches(&holdings, &TierWeights::default(), &keys, &["a"]);
        assert_eq!(got[0].score, (0..10).fold(0.0, |sum, _| sum + 0.8));
        assert_eq!(got[0].score.trunc(), 7.0, "not eight");
    }

    #[test]
    fn nothing_counts_behind_a_gap() {
        let holdings = [(1, "a", "?"), (3, "a", "?"), (3, "b", "gpu")];
        let got = matches(&holdings, &TierWeights::default(), &[1, 2, 3], &["b", "a"]);
        assert_eq!((got[0].blocks, got[1].blocks, got[1].score), (0, 1, 1.0));
        assert_eq!(got[1].by_tier, by_tier(&[(SPECULATIVE, 1)]));
    }
}
