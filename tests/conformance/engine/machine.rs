//! The engine under test with the contents of its requests, and its state in the words of the vectors.

use std::collections::HashMap;

use engines::engine::{
    AdapterId, Batch, Engine, EngineConfig, FinishReason, Lookups, NewRequest, Profile, RequestId, RowKind,
    SchedulingPolicy, Stats,
};
use serde_json::{Map, Value, json};

use super::contents::{Contents, ranges};
use super::script::{self, Add, Given, Policy};

/// The token that ends a request that does not ignore EOS.
const EOS: u32 = 2;

pub(super) struct Machine {
    pub(super) engine: Engine,
    contents: Contents,
    /// All names of the script in the order of text, which decides ties.
    names: Vec<String>,
    by_name: HashMap<String, RequestId>,
    added: u64,
    brief: bool,
    shows_free_queue: bool,
}

impl Machine {
    pub(super) fn new(given: &Given) -> Result<Self, String> {
        let version = given.version.rsplit_once('.').map_or("", |(minor, _)| minor);
        let profile = Profile::named(&format!("vllm-{version}"))
            .ok_or_else(|| format!("no profile for version {}", given.version))?;
        let config = &given.config;
        let config = EngineConfig {
            profile,
            max_num_seqs: config.max_num_seqs,
            max_num_batched_tokens: config.max_num_batched_tokens,
            block_size: config.block_size,
            num_gpu_blocks: config.num_blocks,
            max_model_len: config.max_model_len,
            enable_chunked_prefill: config.chunked_prefill,
            enable_prefix_caching: config.prefix_caching,
            long_prefill_token_threshold: config.long_prefill_token_threshold,
            policy: match config.policy {
                Policy::Fcfs => SchedulingPolicy::Fcfs,
                Policy::Priority => SchedulingPolicy::Priority,
            },
            async_scheduling: config.async_scheduling,
            scheduler_reserve_full_isl: config.reserve_full_isl,
            max_loras: Some(config.max_loras).filter(|&loras| loras > 0),
            watermark: config.watermark,
            enable_kv_cache_events: true,
        };
        Ok(Self {
            contents: Contents::new(config.block_size),
            engine: Engine::new(config).map_err(|error| error.to_string())?,
            names: script::names(&given.script),
            by_name: HashMap::new(),
            added: 0,
            brief: given.detail.as_deref() == Some("brief"),
            shows_free_queue: given.free_queue,
        })
    }

    pub(super) fn is_brief(&self) -> bool {
        self.brief
    }

    /// Adds a request; a name used again is another request to the engine.
    pub(super) fn add(&mut self, add: &Add) -> Result<(), String> {
        let rank = self.names.binary_search(&add.id).map_err(|_| format!("unknown name {}", add.id))?;
        self.added += 1;
        let id = RequestId((rank as u64) << 32 | self.added);
        self.by_name.insert(add.id.clone(), id);
        let (prompt_tokens, block_hashes) = self.contents.add(id, add);
        let request = NewRequest {
            id,
            prompt_tokens,
            block_hashes,
            max_tokens: add.max_tokens,
            min_tokens: add.min_tokens,
            eos: (!add.ignore_eos).then_some(EOS),
            stop_tokens: add.stop.clone(),
            priority: add.priority,
            arrival: (add.arrival * 1e6) as u64,
            adapter: add.lora.map(AdapterId),
        };
        self.engine.add(request).map_err(|error| format!("add {}: {error}", add.id))
    }

    pub(super) fn abort(&mut self, names: &[String]) {
        for name in names {
            if let Some(&id) = self.by_name.get(name) {
                self.engine.abort(id);
            }
        }
    }

    pub(super) fn names(&self, ids: impl IntoIterator<Item = RequestId>) -> Vec<&str> {
        ids.into_iter().map(|id| self.contents.name(id)).collect()
    }

    /// Inserts the queues and the number of free blocks.
    pub(super) fn show_queues(&self, members: &mut Map<String, Value>) {
        members.insert("running".into(), json!(self.names(self.engine.running())));
        members.insert("waiting".into(), json!(self.names(self.engine.waiting())));
        let skipped = self.names(self.engine.skipped());
        if !skipped.is_empty() {
            members.insert("skipped".into(), json!(skipped));
        }
        members.insert("free".into(), json!(self.engine.gauges().free_blocks));
    }

    pub(super) fn show_free_queue(&self, members: &mut Map<String, Value>) {
        if self.shows_free_queue {
            members.insert("free_queue".into(), json!(ranges(self.engine.free_queue())));
        }
    }

    /// The batch just scheduled; `preempted_before` are the requests preempted since the last record.
    pub(super) fn schedule(&self, preempted_before: Vec<RequestId>) -> Map<String, Value> {
        let batch = self.engine.newest().expect("the turn scheduled a batch");
        let mut members = Map::new();
        members.insert("batch".into(), json!(batch.number()));
        members.insert("sched".into(), self.rows(batch));
        let blocks: Map<String, Value> = batch
            .rows()
            .iter()
            .map(|row| (self.contents.name(row.request).to_owned(), self.engine.new_blocks(row)))
            .filter(|(_, blocks)| !blocks.is_empty())
            .map(|(name, blocks)| (name, json!(blocks)))
            .collect();
        if !blocks.is_empty() {
            members.insert("blocks".into(), Value::Object(blocks));
        }
        self.show_ids(&mut members, "preempted", preempted_before.iter().chain(batch.preempted()));
        if self.brief {
            let queues = [self.engine.running().count(), self.engine.waiting().count()];
            members.insert("queues".into(), json!([queues[0], queues[1], self.engine.skipped().count()]));
        } else {
            self.show_queues(&mut members);
        }
        members
    }

    fn rows(&self, batch: &Batch) -> Value {
        let kind = |kind| match kind {
            RowKind::New => "new",
            RowKind::Resumed => "resumed",
            RowKind::Continued => "cont",
        };
        let row = |row: &engines::engine::Row| {
            json!([self.contents.name(row.request), kind(row.kind), row.tokens, row.computed])
        };
        batch.rows().iter().map(row).collect()
    }

    /// Inserts a list of requests unless it is empty.
    pub(super) fn show_ids<'a>(
        &self,
        members: &mut Map<String, Value>,
        name: &str,
        ids: impl Iterator<Item = &'a RequestId>,
    ) {
        let names = self.names(ids.copied());
        if !names.is_empty() {
            members.insert(name.into(), json!(names));
        }
    }

    /// Completes the oldest batch; returns its number and what changed.
    pub(super) fn update(&mut self) -> (u64, Map<String, Value>) {
        let update = self.engine.complete(&mut self.contents);
        let (number, stats) = (update.batch, update.stats);
        let mut members = Map::new();
        let outputs: Vec<Value> = update
            .outputs
            .iter()
            .map(|output| json!([self.contents.name(output.request), output.token]))
            .collect();
        let finished: Vec<Value> = update
            .outputs
            .iter()
            .filter_map(|output| {
                let finish = output.finish?;
                let reason = match finish.reason {
                    FinishReason::Stop => "stop",
                    FinishReason::Length => "length",
                };
                Some(json!([self.contents.name(output.request), reason, finish.stop_token]))
            })
            .collect();
        let events: Vec<Value> = update.events.iter().map(|event| self.contents.event(event)).collect();
        for (name, list) in [("out", outputs), ("finished", finished), ("events", events)] {
            if !list.is_empty() {
                members.insert(name.into(), Value::Array(list));
            }
        }
        members.insert("stats".into(), stats_json(&stats));
        members.insert("free".into(), json!(self.engine.gauges().free_blocks));
        self.show_free_queue(&mut members);
        (number, members)
    }
}

fn stats_json(stats: &Stats) -> Value {
    let gauges = stats.gauges;
    let mut members = Map::new();
    members.insert("running".into(), json!(gauges.running));
    members.insert("waiting".into(), json!(gauges.waiting));
    members.insert("skipped".into(), json!(gauges.skipped));
    members.insert("usage".into(), json!(gauges.usage));
    let mut counts = |prefix: &str, lookups: Lookups| {
        let counts = [("requests", lookups.requests), ("queries", lookups.queries), ("hits", lookups.hits)];
        for (name, count) in counts.into_iter().filter(|&(_, count)| count > 0) {
            members.insert(format!("{prefix}{name}"), json!(count));
        }
    };
    counts("", stats.lookups);
    counts("pre_", stats.lookups_after_preemption);
    if stats.reset {
        members.insert("reset".into(), json!(true));
    }
    Value::Object(members)
}
