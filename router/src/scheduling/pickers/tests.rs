use std::collections::BTreeMap;

use serde_json::json;

use crate::scheduling::testing::{build, scored};

const RUNS: usize = 10_000;

/// Returns how often each candidate came first, and the number of picks of each run.
fn first(plugin_type: &str, limit: i64, totals: &[f64]) -> (BTreeMap<u32, f64>, usize) {
    let instance = build(plugin_type, json!({ "maxNumOfEndpoints": limit })).unwrap();
    let picker = instance.roles.picker.unwrap();
    let (mut counts, mut picked) = (BTreeMap::new(), 0);
    for _ in 0..RUNS {
        let mut list = scored(totals);
        picked = picker.pick(&mut list);
        *counts.entry(list[0].candidate.0).or_default() += 1.0 / RUNS as f64;
        let mut left: Vec<u32> = list.iter().map(|s| s.candidate.0).collect();
        left.sort_unstable();
        assert_eq!(left, (0..totals.len() as u32).collect::<Vec<_>>(), "a picker reorders and nothing else");
    }
    (counts, picked)
}

fn assert_frequencies(plugin_type: &str, limit: i64, totals: &[f64], want: &[f64]) {
    let (got, _) = first(plugin_type, limit, totals);
    for (candidate, want) in want.iter().enumerate() {
        let got = got.get(&(candidate as u32)).copied().unwrap_or(0.0);
        assert!(
            (got - want).abs() < 0.03,
            "{plugin_type} of {totals:?}: candidate {candidate} first in {got}, expected {want}"
        );
        assert!(*want > 0.0 || got == 0.0, "{plugin_type}: candidate {candidate} can never be first");
    }
}

/// Scheduling spec 6.1 to 6.3, the lists under T; with one pick (one draw) and with several (a whole order).
#[test]
fn the_first_pick_follows_the_law_of_its_picker() {
    for limit in [1, 2] {
        assert_frequencies("max-score-picker", limit, &[10.0, 25.0, 15.0], &[0.0, 1.0, 0.0]);
        assert_frequencies("max-score-picker", limit, &[50.0, 50.0, 30.0], &[0.5, 0.5, 0.0]);
        assert_frequencies("max-score-picker", limit, &[f64::NAN, 1.0, 2.0], &[0.32, 0.18, 0.5]);
        assert_frequencies("random-picker", limit, &[0.0, 9.0, f64::NAN], &[1.0 / 3.0; 3]);
        assert_frequencies("weighted-random-picker", limit, &[10.0, 90.0], &[0.1, 0.9]);
        assert_frequencies("weighted-random-picker", limit, &[30.0, 0.0], &[1.0, 0.0]);
        let five = [100.0, 90.0, 50.0, 30.0, 20.0];
        assert_frequencies("weighted-random-picker", limit, &five, &five.map(|s| s / 290.0));
        assert_frequencies("weighted-random-picker", limit, &[0.0, -1.0], &[0.5, 0.5]);
        assert_frequencies("weighted-random-picker", limit, &[1.0, f64::INFINITY], &[0.0, 1.0]);
    }
}

/// Scheduling spec 6.3: keys that underflow to zero, or round to one, tie.
#[test]
fn tiny_and_huge_totals_lose_their_proportions_as_upstream() {
    for limit in [1, 2] {
        assert_frequencies("weighted-random-picker", limit, &[0.000_01, 0.000_09], &[0.48, 0.52]);
        assert_frequencies("weighted-random-picker", limit, &[0.000_01, 0.0, 0.0], &[1.0 / 3.0; 3]);
        assert_frequencies("weighted-random-picker", limit, &[1e17, 3e17], &[0.5, 0.5]);
        assert_frequencies("weighted-random-picker", limit, &[1e6, 3e6], &[0.25, 0.75]);
    }
}

#[test]
fn the_number_of_picks_is_between_one_and_all() {
    for plugin_type in ["max-score-picker", "random-picker", "weighted-random-picker"] {
        for (limit, want) in [(-3, 1), (0, 1), (1, 1), (2, 2), (3, 3), (9, 3)] {
            assert_eq!(first(plugin_type, limit, &[1.0, 2.0, 3.0]).1, want, "{plugin_type} {limit}");
        }
        let picker = build(plugin_type, json!({})).unwrap().roles.picker.unwrap();
        assert_eq!(picker.pick(&mut []), 0);
        assert!(build(plugin_type, json!({ "maxNumOfEndpoint": 1 })).is_err(), "unknown field");
        assert!(build(plugin_type, json!({ "maxNumOfEndpoints": "1" })).is_err(), "wrong type");
    }
}

#[test]
fn several_picks_come_best_first() {
    let picker = build("max-score-picker", json!({ "maxNumOfEndpoints": 4 })).unwrap().roles.picker.unwrap();
    let mut list = scored(&[20.0, 25.0, 30.0]);
    assert_eq!(picker.pick(&mut list), 3);
    assert_eq!(list.iter().map(|s| s.score).collect::<Vec<_>>(), [30.0, 25.0, 20.0]);
}
