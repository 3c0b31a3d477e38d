//! Who holds the 2,000 blocks of a prompt, of 64 endpoints.

use std::hint::black_box;

use executor::Stream;
use router::prefix::block_index::{BlockIndex, Limits, PodEntry};
use router::prefix::{LongestPrefix, PodMatch, TierWeights};

use crate::measure::median_us;
use crate::{Goal, Row};

pub(crate) const ROWS: &[Row] = &[
    Row { name: "lookup-1", unit: "us", goal: Goal::AtMost(60.0), measure: || lookup(1, false) },
    Row { name: "lookup-10", unit: "us", goal: Goal::AtMost(150.0), measure: || lookup(10, false) },
    Row { name: "lookup-64", unit: "us", goal: Goal::AtMost(300.0), measure: || lookup(64, false) },
    Row { name: "lookup-10-mixed", unit: "us", goal: Goal::AtMost(150.0), measure: || lookup(10, true) },
    Row { name: "lookup-64-mixed", unit: "us", goal: Goal::AtMost(300.0), measure: || lookup(64, true) },
];

const ROUNDS: usize = 400;
const BLOCKS: u64 = 2_000;
const ENDPOINTS: usize = 64;

/// Blocks of other prompts in the index.
const OTHERS: u64 = 200_000;

/// Looks a prompt up of whose blocks each has `holders` holders: the same ones, which came to it one after the other.
/// `mixed`: they came to each block in an order of its own.
fn lookup(holders: usize, mixed: bool) -> f64 {
    let names: Vec<String> = (0..ENDPOINTS).map(|n| format!("10.0.0.{n}:8000")).collect();
    let mut index = BlockIndex::new(Limits { holders: ENDPOINTS, ..Limits::default() });
    let mut draws = Stream::new(1, "lookup");
    let prompt: Vec<u64> = (0..BLOCKS).map(|_| draws.u64() | 1).collect();
    for _ in 0..OTHERS {
        let pod = draws.pick(&names).expect("there are names");
        index.add(&[], &[draws.u64() | 1], &[PodEntry::new(pod, "gpu")]).expect("there is room");
    }
    let mut pods: Vec<&String> = names.iter().take(holders).collect();
    for block in &prompt {
        if mixed {
            draws.shuffle(&mut pods);
        }
        for pod in &pods {
            index.add(&[], &[*block], &[PodEntry::new(pod, "gpu")]).expect("there is room");
        }
    }
    let candidates: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut longest, weights) = (LongestPrefix::default(), TierWeights::default());
    let mut matches = vec![PodMatch::default(); ENDPOINTS];
    let took = median_us(ROUNDS, || {
        matches.fill(PodMatch::default());
        longest.add(&mut index, black_box(&prompt), &candidates, &weights, &mut matches);
    });
    let expected = |n| if n < holders { BLOCKS as i64 } else { 0 };
    assert!(matches.iter().enumerate().all(|(n, found)| found.blocks == expected(n)));
    took
}
