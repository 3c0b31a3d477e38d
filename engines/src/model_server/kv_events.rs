//! KV events as vLLM publishes them (model-server spec 3.3, 3.4): what an engine knows of its blocks, joined with what
//! the driver knows of their contents.

use std::sync::Arc;

use router::prefix::block_keys::ExtraKeys;
use router::prefix::kv_events::{self, KvBatch, Removed, Stored};
use rustc_hash::FxHashMap;

use crate::engine::{AdapterId, KvEvent, KvEvents, RequestId, Token};

/// Where vLLM says that its blocks lie.
const MEDIUM: &str = "GPU";

/// The KV-cache group of a model with one kind of attention.
const GROUP: i64 = 0;

/// What the blocks of a request hold.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) prompt: Arc<[Token]>,
    pub(super) salt: String,
    pub(super) adapter: Option<(String, AdapterId)>,
    output: Vec<Token>,
}

impl Content {
    pub(super) fn new(prompt: Arc<[Token]>, salt: String, adapter: Option<(String, AdapterId)>) -> Self {
        Content { prompt, salt, adapter, output: Vec::new() }
    }

    fn tokens(&self, first: usize, count: usize) -> Vec<Token> {
        self.prompt.iter().chain(&self.output).skip(first).take(count).copied().collect()
    }

    /// What sets a block apart beyond its tokens (model-server spec 4.2).
    fn extra_keys(&self, block: usize) -> ExtraKeys {
        let adapter = self.adapter.as_ref().map(|(name, _)| name.clone());
        let salt = Some(&self.salt).filter(|salt| block == 0 && !salt.is_empty()).cloned();
        let keys: Vec<String> = adapter.into_iter().chain(salt).collect();
        (!keys.is_empty()).then_some(keys)
    }
}

/// Publishes the KV events of one engine, a batch for each step that has any.
pub(super) struct Publisher {
    block_size: u32,
    /// Of the requests that may still be told of.
    contents: FxHashMap<RequestId, Content>,
    /// The requests that have ended since the last batch.
    ended: Vec<RequestId>,
    publish: Box<dyn FnMut(&KvBatch)>,
}

impl Publisher {
    pub(super) fn new(block_size: u32, publish: Box<dyn FnMut(&KvBatch)>) -> Self {
        Publisher { block_size, contents: FxHashMap::default(), ended: Vec::new(), publish }
    }

    pub(super) fn begun(&mut self, request: RequestId, content: Content) {
        self.contents.insert(request, content);
    }

    pub(super) fn generated(&mut self, request: RequestId, token: Token) {
        if let Some(content) = self.contents.get_mut(&request) {
            content.output.push(token);
        }
    }

    /// Notes that a request has ended; the events of the next update may be the last that tell of it.
    pub(super) fn ended(&mut self, request: RequestId) {
        self.ended.push(request);
    }

    /// Publishes what an update has brought. `timestamp` in seconds since 1970.
    pub(super) fn publish(&mut self, events: &KvEvents, timestamp: f64) {
        if !events.is_empty() {
            let events = events.iter().filter_map(|event| self.event(event)).collect();
            (self.publish)(&KvBatch { timestamp, events });
        }
        for request in self.ended.drain(..) {
            self.contents.remove(&request);
        }
    }

    fn event(&self, event: KvEvent<'_>) -> Option<kv_events::KvEvent> {
        Some(match event {
            KvEvent::Cleared => kv_events::KvEvent::Cleared,
            KvEvent::Removed { hash } => kv_events::KvEvent::Removed(Removed {
                hashes: vec![hash.0],
                medium: MEDIUM.to_owned(),
                group: Some(GROUP),
            }),
            KvEvent::Stored { request, first_block, parent, hashes } => {
                let content = self.contents.get(&request);
                debug_assert!(content.is_some(), "blocks of a request that nobody knows are stored");
                let (content, size, first) = (content?, self.block_size as usize, first_block as usize);
                kv_events::KvEvent::Stored(Stored {
                    hashes: hashes.iter().map(|hash| hash.0).collect(),
                    parent: parent.map_or(0, |hash| hash.0),
                    tokens: content.tokens(first * size, hashes.len() * size),
                    block_size: i64::from(self.block_size),
                    lora_id: content.adapter.as_ref().map(|(_, id)| i64::from(id.0)),
                    medium: MEDIUM.to_owned(),
                    lora_name: content.adapter.as_ref().map(|(name, _)| name.clone()),
                    extra: Some(
                        (first..first + hashes.len()).map(|block| content.extra_keys(block)).collect(),
                    ),
                    group: Some(GROUP),
                    kind: None,
                    window: None,
                })
            }
        })
    }
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher").field("contents", &self.contents).finish_non_exhaustive()
    }
}
