//! `pickers.jsonl`: how many are picked, and how often which.

use std::collections::BTreeMap;

use executor::Stream;
use router::candidates::Candidate;
use router::scheduling::{Picker, Scored};
use serde_json::{Value, json};
use tests::compare::{close, read_float};

use super::{compare, hooks, plugins, refused, samples};
use crate::outcome::Outcome;

/// Draws where only frequencies were measured.
const MEASURED_DRAWS: usize = 10_000;

/// How far a frequency may lie from a measured one.
const TOLERANCE: f64 = 0.04;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let result = samples::fits(|seed| once(given, then, seed));
    result.map_or_else(Outcome::Failed, |()| Outcome::Passed)
}

fn once(given: &Value, then: &Value, seed: u64) -> Result<(), String> {
    hooks::host(seed, async |rt| {
        let Ok(instance) = plugins::build(&given["plugin"], &plugins::handle(&rt)) else {
            return passed(compare(then, &refused()));
        };
        let picker = instance.roles.picker.clone().ok_or("the plugin is no picker")?;
        let count = then["count"].as_u64().ok_or("the error that was expected did not come")? as usize;
        passed(compare(&then["reported_type"], &json!(&*instance.id.plugin_type)))?;
        let list = given["candidates"].as_array().ok_or("no candidates")?;
        let names: Vec<&str> = list.iter().map(|c| c["name"].as_str().unwrap_or_default()).collect();
        let scores: Vec<f64> = list.iter().filter_map(|c| read_float(&c["score"])).collect();
        let measured = then.get("measured_runs").is_some();
        let draws = if measured { MEASURED_DRAWS } else { samples::DRAWS };
        let drawn = draw(&*picker, &scores, count, draws, seed)?;
        if measured { check_measured(then, &names, &drawn) } else { check_law(then, &names, &drawn) }
    })
}

/// How often each ordered choice was drawn.
type Drawn = BTreeMap<Vec<u32>, usize>;

/// Picks again and again, from the list in random order, as upstream's list order is.
fn draw(picker: &dyn Picker, scores: &[f64], count: usize, draws: usize, seed: u64) -> Result<Drawn, String> {
    let mut order = Stream::new(seed, "list order");
    let given = scores.iter().enumerate();
    let mut list: Vec<Scored> =
        given.map(|(at, &score)| Scored { candidate: Candidate(at as u32), score }).collect();
    let mut drawn = Drawn::new();
    for _ in 0..draws {
        order.shuffle(&mut list);
        let picked = picker.pick(&mut list);
        if picked != count {
            return Err(format!("count: want {count}, got {picked}"));
        }
        *drawn.entry(list[..picked].iter().map(|s| s.candidate.0).collect()).or_default() += 1;
    }
    Ok(drawn)
}

fn named(drawn: &Drawn, names: &[&str]) -> BTreeMap<Vec<String>, usize> {
    let mut by_name = BTreeMap::new();
    for (picked, count) in drawn {
        let picked = picked.iter().map(|&at| names[at as usize].to_owned()).collect();
        *by_name.entry(picked).or_default() += count;
    }
    by_name
}

fn firsts(drawn: &BTreeMap<Vec<String>, usize>) -> BTreeMap<Vec<String>, usize> {
    let mut firsts = BTreeMap::new();
    for (picked, count) in drawn {
        *firsts.entry(picked.iter().take(1).cloned().collect()).or_default() += count;
    }
    firsts
}

fn check_law(then: &Value, names: &[&str], drawn: &Drawn) -> Result<(), String> {
    let drawn = named(drawn, names);
    if let Some(first) = then["first_p"].as_object() {
        let chance = |p: &Value| p.as_f64().unwrap_or_default();
        let first: Vec<(Vec<String>, f64)> =
            first.iter().map(|(name, p)| (vec![name.clone()], chance(p))).collect();
        check(&firsts(&drawn), &first).map_err(|why| format!("first_p: {why}"))?;
    }
    let outcomes = listed(then, "p");
    if outcomes.is_empty() {
        Ok(())
    } else {
        check(&drawn, &outcomes).map_err(|why| format!("any_of: {why}"))
    }
}

fn check(drawn: &BTreeMap<Vec<String>, usize>, law: &[(Vec<String>, f64)]) -> Result<(), String> {
    let counts: Vec<usize> = law.iter().map(|(key, _)| drawn.get(key).copied().unwrap_or(0)).collect();
    let probabilities: Vec<f64> = law.iter().map(|(_, p)| *p).collect();
    let others = drawn.values().sum::<usize>() - counts.iter().sum::<usize>();
    samples::fit(&counts, &probabilities, others)
}

fn check_measured(then: &Value, names: &[&str], drawn: &Drawn) -> Result<(), String> {
    let drawn = named(drawn, names);
    let frequency = |count: usize| count as f64 / MEASURED_DRAWS as f64;
    let first = then["first_frequency"].as_object().ok_or("no first_frequency")?;
    let firsts = firsts(&drawn);
    for (name, want) in first {
        near(name, want, frequency(firsts.get(&vec![name.clone()]).copied().unwrap_or(0)))?;
    }
    let outcomes = listed(then, "frequency");
    for (picked, want) in &outcomes {
        near(&picked.join(","), &json!(want), frequency(drawn.get(picked).copied().unwrap_or(0)))?;
    }
    // An outcome of frequency below 0.001 may be missing from the list; ours was drawn often enough to be wrong.
    let unlisted = drawn.iter().find(|(picked, count)| {
        !outcomes.is_empty()
            && frequency(**count) > 0.004
            && !outcomes.iter().any(|(listed, _)| listed == *picked)
    });
    unlisted.map_or(Ok(()), |(picked, count)| {
        Err(format!("{picked:?} was drawn {count} times and is not listed"))
    })
}

fn near(what: &str, want: &Value, got: f64) -> Result<(), String> {
    let want = want.as_f64().unwrap_or(f64::NAN);
    let fits = close(want, got, 0.0) || (want - got).abs() <= TOLERANCE;
    if fits { Ok(()) } else { Err(format!("{what}: want frequency {want}, got {got}")) }
}

fn listed(then: &Value, chance: &str) -> Vec<(Vec<String>, f64)> {
    let entries = then["any_of"].as_array().into_iter().flatten();
    let name = |name: &Value| name.as_str().unwrap_or_default().to_owned();
    let picked = |entry: &Value| entry["picked"].as_array().into_iter().flatten().map(name).collect();
    entries.map(|entry| (picked(entry), entry[chance].as_f64().unwrap_or_default())).collect()
}

fn passed(outcome: Outcome) -> Result<(), String> {
    match outcome {
        Outcome::Passed => Ok(()),
        Outcome::Failed(why) | Outcome::NotBuilt(why) => Err(why),
    }
}
