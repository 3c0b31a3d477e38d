//! What the engine core does not hold of a request: its tokens, its extra keys, and the hashes made of both.

use std::collections::HashMap;

use engines::engine::{BlockHash, KvEvent, Model, RequestId, Token};
use serde_json::{Map, Value, json};

use super::script::Add;

/// Everything that one block's hash is made of.
type Preimage = (Option<BlockHash>, Vec<Token>, Vec<String>);

struct Content {
    add: Add,
    tokens: Vec<Token>,
}

/// The contents of all requests of a script.
pub(super) struct Contents {
    block_size: u32,
    by_id: HashMap<RequestId, Content>,
    hashes: HashMap<Preimage, BlockHash>,
    /// Numbers of hashes by first appearance in an event.
    ordinals: HashMap<BlockHash, usize>,
}

impl Contents {
    pub(super) fn new(block_size: u32) -> Self {
        Self { block_size, by_id: HashMap::new(), hashes: HashMap::new(), ordinals: HashMap::new() }
    }

    /// Keeps the content of a request; returns its prompt's length and the hashes of its full blocks.
    pub(super) fn add(&mut self, id: RequestId, add: &Add) -> (u32, Vec<BlockHash>) {
        let tokens: Vec<Token> = add.prompt.iter().flat_map(|&(first, count)| first..first + count).collect();
        let length = u32::try_from(tokens.len()).expect("a prompt of a script is short");
        self.by_id.insert(id, Content { add: add.clone(), tokens });
        let mut hashes: Vec<BlockHash> = Vec::new();
        for block in 0..length / self.block_size {
            hashes.push(self.hash_block(id, block, hashes.last().copied()));
        }
        (length, hashes)
    }

    pub(super) fn name(&self, id: RequestId) -> &str {
        &self.by_id[&id].add.id
    }

    /// An event as the vectors write it.
    pub(super) fn event(&mut self, event: KvEvent<'_>) -> Value {
        match event {
            KvEvent::Cleared => json!({"t": "cleared"}),
            KvEvent::Removed { hash } => json!({"t": "removed", "h": [self.ordinal(hash)]}),
            KvEvent::Stored { request, first_block, parent, hashes } => {
                let parent = parent.map(|parent| self.ordinal(parent));
                let ordinals: Vec<usize> = hashes.iter().map(|&hash| self.ordinal(hash)).collect();
                let content = &self.by_id[&request];
                let blocks = first_block..first_block + u32::try_from(hashes.len()).expect("few blocks");
                let start = (blocks.start * self.block_size) as usize;
                let end = (blocks.end * self.block_size) as usize;
                let mut members = Map::new();
                members.insert("t".into(), json!("stored"));
                members.insert("h".into(), json!(ordinals));
                members.insert("parent".into(), json!(parent));
                members.insert("tok".into(), json!(ranges(content.tokens[start..end].iter().copied())));
                if let Some(lora) = content.add.lora {
                    members.insert("lora_id".into(), json!(lora));
                    members.insert("lora_name".into(), json!(lora_name(lora)));
                }
                let extra: Vec<Vec<String>> = blocks.map(|block| extra_keys(&content.add, block)).collect();
                if extra.iter().any(|keys| !keys.is_empty()) {
                    let extra: Vec<Option<Vec<String>>> =
                        extra.into_iter().map(|keys| Some(keys).filter(|keys| !keys.is_empty())).collect();
                    members.insert("extra".into(), json!(extra));
                }
                Value::Object(members)
            }
        }
    }

    fn ordinal(&mut self, hash: BlockHash) -> usize {
        let next = self.ordinals.len() + 1;
        *self.ordinals.entry(hash).or_insert(next)
    }
}

impl Model for Contents {
    fn sample(&mut self, request: RequestId, position: u32) -> Token {
        let content = self.by_id.get_mut(&request).expect("the engine samples only what was added");
        let special = content.add.special.get(&position.to_string());
        let token = special.copied().unwrap_or(content.add.first_output + position);
        content.tokens.push(token);
        token
    }

    fn hash_block(&mut self, request: RequestId, block: u32, parent: Option<BlockHash>) -> BlockHash {
        let content = &self.by_id[&request];
        let start = (block * self.block_size) as usize;
        let tokens = content.tokens[start..start + self.block_size as usize].to_vec();
        let next = BlockHash(self.hashes.len() as u64);
        *self.hashes.entry((parent, tokens, extra_keys(&content.add, block))).or_insert(next)
    }
}

fn lora_name(lora: u32) -> String {
    format!("lora-{lora}")
}

fn extra_keys(add: &Add, block: u32) -> Vec<String> {
    let salt = add.salt.clone().filter(|_| block == 0);
    add.lora.map(lora_name).into_iter().chain(salt).collect()
}

/// Writes numbers as ranges `[first, count]`.
pub(super) fn ranges(numbers: impl Iterator<Item = u32>) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => ranges.push((number, 1)),
        }
    }
    ranges
}
