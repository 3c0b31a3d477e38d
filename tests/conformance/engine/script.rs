//! The scripts as their README describes them.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Given {
    pub(super) version: String,
    pub(super) config: Config,
    #[serde(default)]
    pub(super) free_queue: bool,
    pub(super) detail: Option<String>,
    #[serde(flatten)]
    pub(super) script: Script,
}

/// A script of explicit turns, or one on a simulated clock.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Script {
    Steps { ops: Vec<Op> },
    Timeline { time: Time, timeline: Vec<Timed> },
}

#[derive(Deserialize)]
pub(super) struct Config {
    pub(super) max_num_seqs: u32,
    pub(super) max_num_batched_tokens: u32,
    pub(super) block_size: u32,
    pub(super) num_blocks: u32,
    pub(super) max_model_len: u32,
    pub(super) chunked_prefill: bool,
    pub(super) prefix_caching: bool,
    pub(super) long_prefill_token_threshold: u32,
    pub(super) policy: Policy,
    #[serde(rename = "async")]
    pub(super) async_scheduling: bool,
    pub(super) max_loras: u32,
    pub(super) watermark: f64,
    pub(super) reserve_full_isl: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Policy {
    Fcfs,
    Priority,
}

/// How long a batch takes, in milliseconds.
#[derive(Deserialize)]
pub(super) struct Time {
    pub(super) base: f64,
    pub(super) per_token: f64,
}

#[derive(Deserialize)]
pub(super) struct Timed {
    pub(super) t: f64,
    #[serde(flatten)]
    pub(super) op: Op,
}

#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Op {
    Add(Add),
    Abort {
        ids: Vec<String>,
    },
    AbortAll,
    Reset {
        #[serde(default)]
        running: bool,
    },
    Pause {
        state: Option<PauseState>,
        mode: Option<Mode>,
        #[serde(default)]
        clear_cache: bool,
    },
    Resume,
    Step {
        #[serde(default)]
        during: Vec<Op>,
    },
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PauseState {
    All,
    New,
    None,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    Abort,
    Wait,
    Keep,
}

#[derive(Clone, Deserialize)]
pub(super) struct Add {
    pub(super) id: String,
    /// Ranges `[first, count]` of token ids.
    pub(super) prompt: Vec<(u32, u32)>,
    pub(super) max_tokens: u32,
    #[serde(default)]
    pub(super) min_tokens: u32,
    #[serde(default)]
    pub(super) ignore_eos: bool,
    #[serde(default)]
    pub(super) stop: Vec<u32>,
    #[serde(default)]
    pub(super) priority: i64,
    #[serde(default)]
    pub(super) arrival: f64,
    pub(super) lora: Option<u32>,
    pub(super) salt: Option<String>,
    /// The token rule: `special` by output position, else `gen` + position.
    #[serde(rename = "gen")]
    pub(super) first_output: u32,
    #[serde(default)]
    pub(super) special: BTreeMap<String, u32>,
}

/// The ids of all requests that the script adds, in the order of text.
pub(super) fn names(script: &Script) -> Vec<String> {
    let name = |op: &Op| match op {
        Op::Add(add) => Some(add.id.clone()),
        _ => None,
    };
    let mut names: Vec<String> = match script {
        Script::Steps { ops } => ops.iter().filter_map(name).collect(),
        Script::Timeline { timeline, .. } => timeline.iter().filter_map(|timed| name(&timed.op)).collect(),
    };
    names.sort_unstable();
    names.dedup();
    names
}
