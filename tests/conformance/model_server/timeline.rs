//! `timeline.jsonl`: streams of a real vLLM beside one another, in steps and never in milliseconds.
//!
//! What depends on how fast the recorded machine was (how tokens were put together into events, in which order two
//! streams' events came) differs between the recorded runs too; compared is what does not: per stream its tokens, its
//! end and its usage, and the counters. One recorded run has to agree in all of it.

use std::collections::BTreeMap;
use std::rc::Rc;

use engines::engine::EngineConfig;
use executor::Sim;
use serde_json::{Map, Value, json};
use tests::compare::Rules;
use tests::outcome::Outcome;

use super::series;
use super::session::{self, Progress};

/// Runs one case.
pub(super) fn run(case: &Value) -> Outcome {
    let runs = case["then"]["runs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let differences: Vec<String> = runs.iter().filter_map(|run| difference(&case["given"], run)).collect();
    match differences.first() {
        _ if differences.len() < runs.len() => Outcome::Passed,
        Some(first) => Outcome::Failed(format!("no recorded run is like ours; of the first: {first}")),
        None => Outcome::Failed("no run was recorded".to_owned()),
    }
}

/// Where our run of `given` differs from a recorded one.
fn difference(given: &Value, recorded: &Value) -> Option<String> {
    let order = recorded["order"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cuts = cuts(order);
    let got = match play(given, &cuts) {
        Ok(got) => got,
        Err(error) => return Some(error),
    };
    let alone = given["streams"].as_array().is_some_and(|streams| streams.len() == 1);
    let mut want = json!({"tokens": tokens(order), "finish": recorded["finish"], "usage": recorded["usage"]});
    want["counters"] = counters(&recorded["counters"], alone, !cuts.is_empty());
    let mut got = json!({"tokens": got.tokens, "finish": got.finish, "usage": got.usage, "counters":
        counters(&got.counters, alone, !cuts.is_empty())});
    for name in cuts.keys() {
        // How far a stream had come when its client went away is a matter of speed.
        for side in [&mut want, &mut got] {
            for part in ["tokens", "finish", "usage"] {
                if let Some(streams) = side[part].as_object_mut() {
                    streams.remove(name);
                }
            }
        }
    }
    Rules::exact().difference(&want, &got)
}

/// Tokens after which the client of a stream went away, for those that did.
fn cuts(order: &[Value]) -> BTreeMap<String, u64> {
    let closed = order.iter().filter(|event| event[1] == "closed by the client");
    let tokens = tokens(order);
    closed
        .filter_map(|event| event[0].as_str())
        .map(|name| (name.to_owned(), tokens[name].as_u64().unwrap_or_default()))
        .collect()
}

/// Tokens of each stream: `[stream, k, n]` is n events of k tokens.
fn tokens(order: &[Value]) -> Map<String, Value> {
    let mut sums = BTreeMap::<String, u64>::new();
    for event in order {
        if let (Some(name), Some(each), Some(times)) =
            (event[0].as_str(), event[1].as_u64(), event[2].as_u64())
        {
            *sums.entry(name.to_owned()).or_default() += each * times;
        }
    }
    sums.into_iter().map(|(name, sum)| (name, json!(sum))).collect()
}

/// The counters that do not depend on speed. Steps in which several streams meet do, and so does what a stream
/// counts that is cut.
fn counters(all: &Value, alone: bool, cut: bool) -> Value {
    let told = |name: &str| match name {
        "iteration_tokens_total_count" => alone && !cut,
        "iteration_tokens_total_sum" | "generation_tokens_total" | "inter_token_latency_seconds_count" => {
            !cut
        }
        _ => true,
    };
    let all = all.as_object().into_iter().flatten();
    let kept = all.filter(|(name, value)| told(name) && value.as_f64() != Some(0.0));
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// What our streams gave.
#[derive(Debug, Default)]
struct Played {
    tokens: Map<String, Value>,
    finish: Map<String, Value>,
    usage: Map<String, Value>,
    counters: Value,
}

/// Plays the streams before a fresh server; those in `cuts` go away after so many tokens.
fn play(given: &Value, cuts: &BTreeMap<String, u64>) -> Result<Played, String> {
    let server = &given["server"];
    let number = |key: &str| server[key].as_u64().and_then(|number| u32::try_from(number).ok());
    let (Some(blocks), Some(seqs), Some(budget), Some(block_size)) =
        (number("kv_blocks"), number("max_num_seqs"), number("max_num_batched_tokens"), number("block_size"))
    else {
        return Err(format!("not a server: {server}"));
    };
    let version = given["version"].as_str().unwrap_or_default();
    let config = EngineConfig {
        max_num_seqs: seqs,
        max_num_batched_tokens: budget,
        block_size,
        ..session::config(version, blocks, number("max_model_len"))?
    };
    let version = version.to_owned();
    let (given, cuts) = (given.clone(), cuts.clone());
    let run = Sim::new(1).run(async move |rt| {
        let server = session::start(&rt, &version, config)?;
        let before = series::of(&server).await;
        let progress = Progress::default();
        let streams = given["streams"].as_array().into_iter().flatten();
        let open: Vec<_> = streams
            .map(|stream| {
                let cut = stream["name"].as_str().and_then(|name| cuts.get(name)).copied();
                let client =
                    session::client(rt.clone(), server.clone(), stream.clone(), cut, Rc::clone(&progress));
                rt.spawn_local("client", client)
            })
            .collect();
        for client in open {
            client.await.map_err(|error| error.to_string())?;
        }
        // A request that was aborted is gone when the step that it was in is over.
        rt.sleep(3 * session::STEP).await;
        let mut played = Played { counters: moved(&before, &series::of(&server).await), ..Played::default() };
        for (name, stream) in progress.take() {
            played.tokens.insert(name.clone(), json!(stream.tokens));
            played.finish.insert(name.clone(), json!(stream.finish));
            played.usage.insert(name, stream.usage);
        }
        Ok(played)
    });
    run.output.unwrap_or_else(|| Err(format!("the run ended early: {:?}", run.report)))
}

/// How the counters of a server moved, under the names of the recording.
fn moved(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> Value {
    const NAMES: [&str; 10] = [
        "prefix_cache_queries_total",
        "prefix_cache_hits_total",
        "prompt_tokens_total",
        "generation_tokens_total",
        "num_preemptions_total",
        "iteration_tokens_total_count",
        "iteration_tokens_total_sum",
        "time_to_first_token_seconds_count",
        "inter_token_latency_seconds_count",
        "e2e_request_latency_seconds_count",
    ];
    let difference = |series: &str| after.get(series).unwrap_or(&0.0) - before.get(series).unwrap_or(&0.0);
    let mut counters = Map::new();
    for series in after.keys() {
        let Some((name, labels)) = series.strip_prefix("vllm:").and_then(|rest| rest.split_once('{')) else {
            continue;
        };
        if NAMES.contains(&name) {
            counters.insert(name.to_owned(), json!(difference(series)));
        } else if name == "request_success_total"
            && let Some(reason) = labels.split("finished_reason=\"").nth(1)
        {
            let reason = reason.split('"').next().unwrap_or_default();
            counters.insert(format!("{name}:{reason}"), json!(difference(series)));
        }
    }
    Value::Object(counters)
}
