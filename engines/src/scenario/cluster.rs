use std::path::PathBuf;

use router::config::decode::{Cursor, Decode, Fields};
use router::config::problem::{Located, Problems, accepted_instead};
use router::config::yaml::Content;

use super::fields::{expected, expected_whole, whole};
use crate::engine::SchedulingPolicy;
use crate::input_error::number;

/// The most engines that a group may have.
pub(super) const MAX_ENGINES: u32 = 100_000;
/// The most GPUs that an engine may be spread over.
pub(super) const MAX_TP: u32 = 1024;

/// A group of like engines: an entry of `cluster` of a scenario, or what flags made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What its engines' names begin with.
    pub name: Option<Located<String>>,
    /// How many engines it has.
    pub count: Located<u32>,
    /// A bundled model's name, or the path of a Hugging Face `config.json`.
    pub model: Located<String>,
    /// A GPU's name.
    pub gpu: Located<String>,
    /// Tensor parallelism.
    pub tp: Located<u32>,
    /// Where step times come from.
    pub latency: Located<GroupLatency>,
    /// Options of the engines, under vLLM's names.
    pub overrides: Located<Overrides>,
}

/// Where step times come from.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupLatency {
    /// One of [`BACKENDS`](crate::engine::latency::BACKENDS).
    Backend(String),
    /// Every step takes so many microseconds.
    Fixed(u64),
    /// Steps that compute prompts take the first, others the second, in microseconds.
    Means(u64, u64),
    /// A CSV file of measured steps.
    Table(PathBuf),
}

/// Options of an engine that differ from vLLM's defaults, under vLLM's names.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "the names are vLLM's")]
pub struct Overrides {
    pub block_size: Option<u32>,
    pub gpu_memory_utilization: Option<f64>,
    pub num_gpu_blocks_override: Option<u32>,
    pub max_model_len: Option<u32>,
    pub max_num_seqs: Option<u32>,
    pub max_num_batched_tokens: Option<u32>,
    pub long_prefill_token_threshold: Option<u32>,
    pub enable_prefix_caching: Option<bool>,
    pub enable_chunked_prefill: Option<bool>,
    pub scheduling_policy: Option<SchedulingPolicy>,
}

/// What is accepted as a group's latency.
const LATENCIES: &str = "roofline, trained-physics, {fixed_us: MICROSECONDS}, {ttft_us: MICROSECONDS, itl_us: \
                         MICROSECONDS} or {table: FILE.csv}";

impl Decode for Group {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |fields| {
            let name = fields.optional("name");
            let count = expected_whole(fields, "count", 1..=MAX_ENGINES);
            let model = expected(fields, "model");
            let gpu = fields.optional("gpu");
            let tp = whole(fields, "tp", 1..=MAX_TP);
            let latency = fields.optional("latency");
            let overrides = fields.optional("overrides");
            let here = fields.place();
            Some(Group {
                name,
                count: count?,
                model: model?,
                gpu: gpu.unwrap_or_else(|| here.with("H100".to_owned())),
                tp: tp.unwrap_or_else(|| here.with(1)),
                latency: latency.unwrap_or_else(|| here.with(GroupLatency::Backend("roofline".to_owned()))),
                overrides: overrides.unwrap_or_else(|| here.with(Overrides::default())),
            })
        })?
    }
}

/// A backend's name, `{fixed_us: 5000}`, `{ttft_us: 20000, itl_us: 8000}` or `{table: FILE.csv}`.
impl Decode for GroupLatency {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        match &cursor.node.content {
            Content::Text(name) => Some(GroupLatency::Backend(name.clone())),
            Content::Map(_) => Fields::read(cursor, problems, |fields| {
                let mut us = |key| whole(fields, key, 1..=3_600_000_000).map(|us| u64::from(us.value));
                let (fixed, ttft, itl) = (us("fixed_us"), us("ttft_us"), us("itl_us"));
                let table = fields.optional::<String>("table");
                match (fixed, ttft.zip(itl), table) {
                    (Some(us), None, None) if ttft.or(itl).is_none() => Some(GroupLatency::Fixed(us)),
                    (None, Some((ttft, itl)), None) => Some(GroupLatency::Means(ttft, itl)),
                    (None, None, Some(path)) if ttft.or(itl).is_none() => {
                        Some(GroupLatency::Table(path.into()))
                    }
                    _ => {
                        let here = fields.place();
                        let message = format!("the keys name no latency; accepted: {LATENCIES}");
                        fields.refuse(here.at, here.path, message);
                        None
                    }
                }
            })?,
            _ => {
                cursor.mismatch(LATENCIES, problems);
                None
            }
        }
    }
}

impl Decode for Overrides {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |fields| {
            let mut whole_number =
                |key, least, most| whole(fields, key, least..=most).map(|number| number.value);
            let mut overrides = Overrides {
                block_size: whole_number("block_size", 1, 4096),
                num_gpu_blocks_override: whole_number("num_gpu_blocks_override", 1, u32::MAX),
                max_model_len: whole_number("max_model_len", 1, u32::MAX),
                max_num_seqs: whole_number("max_num_seqs", 1, 1_000_000),
                max_num_batched_tokens: whole_number("max_num_batched_tokens", 1, 100_000_000),
                long_prefill_token_threshold: whole_number("long_prefill_token_threshold", 0, u32::MAX),
                ..Overrides::default()
            };
            overrides.enable_prefix_caching = fields.optional("enable_prefix_caching");
            overrides.enable_chunked_prefill = fields.optional("enable_chunked_prefill");
            if let Some(part) = fields.optional::<Located<f64>>("gpu_memory_utilization") {
                if part.value > 0.0 && part.value <= 1.0 {
                    overrides.gpu_memory_utilization = Some(part.value);
                } else {
                    let message =
                        format!("{} is out of range; accepted: above 0 and at most 1", number(part.value));
                    fields.refuse(part.at, part.path, message);
                }
            }
            overrides.scheduling_policy = fields.optional("scheduling_policy");
            overrides
        })
    }
}

impl Decode for SchedulingPolicy {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        match String::decode(cursor, problems)?.as_str() {
            "fcfs" => Some(SchedulingPolicy::Fcfs),
            "priority" => Some(SchedulingPolicy::Priority),
            other => {
                let instead = accepted_instead(other, &["fcfs", "priority"]);
                cursor.refuse(format!("unknown scheduling policy {other:?}{instead}"), problems);
                None
            }
        }
    }
}
