//! `metrics.jsonl`: what the counters of a real vLLM showed beside its streams.
//!
//! A look belongs to a situation, not to an instant: our server runs until its gauges, and the counters that do not
//! depend on speed, are those of the recording, and has failed when nothing is left to run and they are not.

use std::collections::BTreeMap;
use std::time::Duration;

use engines::engine::EngineConfig;
use engines::model_server::ModelServer;
use executor::http::Body;
use executor::{JoinHandle, Rt, Sim};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tests::outcome::Outcome;

use super::series;
use super::session::{self, Progress, STEP};

/// Looks of ours a step.
const LOOKS: u32 = 4;

/// Looks without a change of anything, after which nothing more is expected.
const STILL: u32 = 10 * LOOKS;

/// A part of a situation in which the recorded server did or showed what ours does not.
type Shows = fn(&Value) -> bool;

/// What vLLM has and the simulated server has not: a feature, and which cases show it.
const NOT_BUILT: &[(&str, Shows)] = &[
    ("the series vllm:lora_requests_info", |case| {
        case["given"]["flags"].as_array().is_some_and(|flags| flags.contains(&json!("--enable-lora")))
    }),
    ("actions other than completions and closed connections", |case| {
        let actions =
            case["given"]["steps"].as_array().into_iter().flatten().filter_map(|step| step["do"].as_str());
        actions.into_iter().any(|action| !["completion", "close connection"].contains(&action))
    }),
];

/// Runs one case.
pub(super) fn run(case: &Value) -> Outcome {
    if let Some((feature, _)) = NOT_BUILT.iter().find(|(_, shows)| shows(case)) {
        return Outcome::NotBuilt((*feature).to_owned());
    }
    let case = case.clone();
    let run = Sim::new(1).run(async move |rt| {
        let server = start(&rt, &case["given"])?;
        match case["then"].get("steps") {
            Some(_) => Session::new(&rt, server).play(&case).await,
            None => edges(&rt, server, &case["then"]).await,
        }
    });
    match run.output {
        Some(Ok(())) => Outcome::Passed,
        Some(Err(difference)) => Outcome::Failed(difference),
        None => Outcome::Failed(format!("the run ended early: {:?}", run.report)),
    }
}

fn start(rt: &Rt, given: &Value) -> Result<ModelServer, String> {
    let server = &given["server"];
    let number = |key: &str| server[key].as_u64().and_then(|number| u32::try_from(number).ok());
    let version = given["version"].as_str().unwrap_or_default();
    let config = EngineConfig {
        max_num_seqs: number("seqs").unwrap_or(64),
        max_num_batched_tokens: number("budget").unwrap_or(2048),
        ..session::config(version, number("blocks").unwrap_or(512), number("max_model_len"))?
    };
    session::start(rt, version, config)
}

/// The series of a look whose values do not depend on how fast the recorded server was.
fn is_compared(name: &str) -> bool {
    const BY_SPEED: [&str; 5] = [
        "generation_tokens_total",
        "iteration_tokens_total",
        "inter_token_latency",
        "_seconds_sum",
        "_bucket",
    ];
    // Labels of the build, and series of releases after the one whose page ours is.
    const NOT_OURS: [&str; 2] = ["cache_config_info", "prompt_tokens_cached_by_source"];
    name.starts_with("vllm:") && !BY_SPEED.iter().chain(&NOT_OURS).any(|part| name.contains(part))
}

/// A server, its streams, and what it is expected to show.
struct Session {
    rt: Rt,
    server: ModelServer,
    progress: Progress,
    streams: BTreeMap<String, JoinHandle<()>>,
    /// Recorded values and ours at the first look: the sessions of one server went on with its counters.
    first: Option<(BTreeMap<String, f64>, BTreeMap<String, f64>)>,
    /// The recorded values as of the look before.
    recorded: BTreeMap<String, f64>,
    last: BTreeMap<String, f64>,
}

impl Session {
    fn new(rt: &Rt, server: ModelServer) -> Self {
        Session {
            rt: rt.clone(),
            server,
            progress: Progress::default(),
            streams: BTreeMap::new(),
            first: None,
            recorded: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    async fn play(mut self, case: &Value) -> Result<(), String> {
        let steps = |side: &str| case[side]["steps"].as_array().cloned().unwrap_or_default();
        for (given, then) in steps("given").iter().zip(&steps("then")) {
            if let Some(name) = given["start"].as_str() {
                let stream = json!({"name": name, "body": given["body"], "path": "/v1/completions"});
                let (rt, server) = (self.rt.clone(), self.server.clone());
                let client = session::client(rt, server, stream, None, self.progress.clone());
                self.streams.insert(name.to_owned(), self.rt.spawn_local("client", client));
                // The streams were opened one behind the other.
                self.rt.sleep(STEP / LOOKS).await;
            } else if given["do"] == "completion" {
                self.complete(given).await;
            } else if let Some(name) = given["stream"].as_str() {
                if let Some(stream) = self.streams.remove(name) {
                    stream.abort();
                }
            } else if let Some(label) = given["look"].as_str() {
                self.look(label, then).await?;
            }
        }
        Ok(())
    }

    /// Asks for tokens behind the first `prompt_ids[0]` tokens of the sequence `prompt_ids[1]`.
    async fn complete(&self, given: &Value) {
        let [length, sequence] = [0, 1].map(|part| given["prompt_ids"][part].as_u64().unwrap_or_default());
        // Tokens 3 to 259 are bytes; any sequences will do that differ from their first block on.
        let prompt: Vec<u64> = (0..length).map(|i| 3 + (sequence * 31 + i * 7) % 256).collect();
        let body = json!({"model": "tiny", "prompt": prompt, "max_tokens": given["max_tokens"], "ignore_eos": true,
            "temperature": 0, "logit_bias": {"67": 100}});
        let request = ::http::Request::post("/v1/completions")
            .header("content-type", "application/json")
            .body(Body::from(body.to_string()))
            .expect("a path");
        // Read to its end, which the counters tell of.
        drop(self.server.handle(request).await.into_body().collect().await);
    }

    /// Runs until the server shows what was recorded.
    async fn look(&mut self, label: &str, then: &Value) -> Result<(), String> {
        if then["seen"].is_array() {
            // Sampled while the streams ran at the speed of the machine; the looks around it tell the same.
            return Ok(());
        }
        if let Some(changed) = then["series_that_changed"].as_array() {
            self.rt.sleep(Duration::from_secs(2)).await;
            let now = series::of(&self.server).await;
            return match changed.is_empty() && now == self.last {
                true => Ok(()),
                false => {
                    Err(format!("{label:?}: a series of ours changed, or one was expected to: {changed:?}"))
                }
            };
        }
        let changed = then["changed"].as_object().into_iter().flatten();
        self.recorded.extend(changed.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?))));
        let mut still = 0;
        loop {
            let now = series::of(&self.server).await;
            let Some(difference) = self.difference(&now) else {
                self.first.get_or_insert_with(|| (self.recorded.clone(), now.clone()));
                self.last = now;
                return Ok(());
            };
            still = if now == self.last { still + 1 } else { 0 };
            self.last = now;
            if still > STILL {
                return Err(format!("{label:?}: {difference}"));
            }
            self.rt.sleep(STEP / LOOKS).await;
        }
    }

    /// The first series that is not what was recorded: gauges as they are, counters counted from the first look, at
    /// which they only have to be there.
    fn difference(&self, now: &BTreeMap<String, f64>) -> Option<String> {
        self.recorded.iter().filter(|(series, _)| is_compared(series)).find_map(|(series, recorded)| {
            let Some(ours) = now.get(series) else { return Some(format!("our page has no {series}")) };
            let is_gauge = series.contains(":num_requests_") || series.contains(":kv_cache_usage");
            let (want, got) = match &self.first {
                _ if is_gauge => (*recorded, *ours),
                Some((recorded_first, ours_first)) => {
                    let of = |first: &BTreeMap<String, f64>| first.get(series).copied().unwrap_or_default();
                    (recorded - of(recorded_first), ours - of(ours_first))
                }
                None => return None,
            };
            ((want - got).abs() > 1e-9).then(|| format!("{series}: want {want}, got {got}"))
        })
    }
}

/// What is shown at once when a stream's event comes: one of what was.
async fn edges(rt: &Rt, server: ModelServer, then: &Value) -> Result<(), String> {
    let body = json!({"model": "tiny", "prompt": vec![40; 40], "max_tokens": 8, "ignore_eos": true, "stream": true,
        "temperature": 0, "logit_bias": {"67": 100}, "return_token_ids": true});
    let request = ::http::Request::post("/v1/completions")
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .expect("a path");
    let blocks = 511.0;
    let gauges = async || {
        let series = series::of(&server).await;
        let gauge = |name: &str| {
            let found = series.iter().find(|(series, _)| series.starts_with(&format!("vllm:{name}{{")));
            found.map_or(f64::NAN, |(_, value)| *value)
        };
        let used = (gauge("kv_cache_usage_perc") * blocks).round() as u64;
        (gauge("num_requests_running"), gauge("num_requests_waiting"), used)
    };
    let check = |at: &str, got: Value| match then[at].as_array().is_some_and(|seen| seen.contains(&got)) {
        true => Ok(()),
        false => Err(format!("{at}: got {got}, want one of {}", then[at])),
    };
    let mut answer = server.handle(request).await.into_body();
    let (running, waiting, _) = gauges().await;
    check("before_first_event_headers_seen", json!([running, waiting]))?;
    let mut events = 0;
    while let Some(Ok(frame)) = answer.frame().await {
        let text = frame.into_data().unwrap_or_default();
        events += usize::from(text.starts_with(b"data: {"));
        let (running, waiting, used) = gauges().await;
        match events {
            1 => check("at_first_event", json!([running, waiting, used]))?,
            8 => check("at_last_content_event", json!([running, used]))?,
            _ => {}
        }
    }
    rt.sleep(STEP).await;
    let (running, _, used) = gauges().await;
    check("after_done", json!([running, used]))
}
