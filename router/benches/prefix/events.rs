//! Taking KV events in, and what the index needs for them.

use std::hint::black_box;

use router::config::schema::Behavior;
use router::prefix::block_index::{BlockIndex, Limits, PodEntry};
use router::prefix::block_keys::BlockHasher;
use router::prefix::kv_events::{EngineType, KvEventApplier, decode};

use crate::measure::{live_bytes, seconds};
use crate::{Goal, Row};

pub(crate) const ROWS: &[Row] = &[
    Row { name: "ingest", unit: "M blocks/s", goal: Goal::AtLeast(2.0), measure: ingest },
    Row { name: "pair", unit: "bytes", goal: Goal::AtMost(64.0), measure: pair },
    Row { name: "further-pair", unit: "bytes", goal: Goal::AtMost(64.0), measure: further_pair },
    Row { name: "churn-growth", unit: "%", goal: Goal::AtMost(1.0), measure: churn },
];

const TOPIC: &str = "kv@pod@m";
const BLOCK: u64 = 16;

/// Blocks of one prompt, in one event.
const BLOCKS_AN_EVENT: u64 = 64;

/// Events in one batch.
const EVENTS_A_BATCH: u64 = 4;

/// An engine that stores one prompt after the other, none of which begins as another does.
struct Engine {
    next: u64,
    applier: KvEventApplier,
    index: BlockIndex,
}

fn name(block: u64) -> u64 {
    // Spread as the hashes of an engine are, and never zero.
    block.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63
}

/// MessagePack of one batch with the events that `events` writes.
fn batch(count: u64, events: impl Fn(&mut Vec<u8>, u64)) -> Vec<u8> {
    let mut out = vec![0x93, 0xcb];
    out.extend_from_slice(&1.5e9_f64.to_be_bytes());
    list(&mut out, count);
    (0..count).for_each(|n| events(&mut out, n));
    out.push(0xc0);
    out
}

fn list(out: &mut Vec<u8>, count: u64) {
    out.push(0xdc);
    out.extend_from_slice(&(count as u16).to_be_bytes());
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(0xa0 | text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

fn hashes(out: &mut Vec<u8>, first: u64) {
    list(out, BLOCKS_AN_EVENT);
    for block in first..first + BLOCKS_AN_EVENT {
        out.push(0xcf);
        out.extend_from_slice(&name(block).to_be_bytes());
    }
}

/// Blocks of the given number and those behind it are stored.
fn stored(out: &mut Vec<u8>, first: u64) {
    out.push(0x95);
    text(out, "BlockStored");
    hashes(out, first);
    out.push(0xc0);
    list(out, BLOCKS_AN_EVENT * BLOCK);
    for token in first * BLOCK..(first + BLOCKS_AN_EVENT) * BLOCK {
        // Token ids of a large vocabulary.
        let token = (name(token) >> 40) as u32 % 150_000;
        out.push(0xce);
        out.extend_from_slice(&token.to_be_bytes());
    }
    out.push(BLOCK as u8);
}

fn removed(out: &mut Vec<u8>, first: u64) {
    out.push(0x92);
    text(out, "BlockRemoved");
    hashes(out, first);
}

impl Engine {
    fn new() -> Self {
        let applier = KvEventApplier::new(BlockHasher::new(BLOCK as usize, ""), Behavior::default());
        let limits = Limits { holders: 64, ..Limits::default() };
        Engine { next: 0, applier, index: BlockIndex::new(limits) }
    }

    /// Returns batches that store so many blocks.
    fn store(&mut self, blocks: u64) -> Vec<Vec<u8>> {
        let a_batch = BLOCKS_AN_EVENT * EVENTS_A_BATCH;
        let first = self.next;
        self.next += blocks / a_batch * a_batch;
        let starts = (first..self.next).step_by(a_batch as usize);
        starts.map(|start| batch(EVENTS_A_BATCH, |out, n| stored(out, start + n * BLOCKS_AN_EVENT))).collect()
    }

    fn ingest(&mut self, batches: &[Vec<u8>]) {
        for batch in batches {
            let decoded = decode(EngineType::Vllm, black_box(batch)).expect("it decodes");
            self.applier.apply(&mut self.index, "10.0.0.1:8000", TOPIC, &decoded);
        }
    }
}

fn ingest() -> f64 {
    const BLOCKS: u64 = 1 << 19;
    let mut engine = Engine::new();
    let warm_up = engine.store(BLOCKS);
    engine.ingest(&warm_up);
    let batches = engine.store(BLOCKS);
    let took = seconds(|| engine.ingest(&batches));
    assert_eq!(engine.index.len() as u64, 2 * BLOCKS);
    BLOCKS as f64 / took / 1e6
}

/// Bytes for a block that one endpoint holds, with the engine's name of it.
fn pair() -> f64 {
    const BLOCKS: u64 = 1_000_000;
    let before = live_bytes();
    let mut engine = Engine::new();
    for _ in 0..BLOCKS / 10_240 {
        let batches = engine.store(10_240);
        engine.ingest(&batches);
    }
    let grown = live_bytes() - before;
    grown as f64 / engine.index.len() as f64
}

/// Bytes for each further endpoint that holds a block.
fn further_pair() -> f64 {
    const BLOCKS: u64 = 100_000;
    const FURTHER: usize = 15;
    let mut index = BlockIndex::new(Limits { holders: 64, ..Limits::default() });
    let store = |index: &mut BlockIndex, pod: usize| {
        let entry = PodEntry::new(&format!("10.0.0.{pod}:8000"), "gpu");
        for block in 0..BLOCKS {
            index
                .add(&[name(block)], &[name(block) >> 1], std::slice::from_ref(&entry))
                .expect("there is room");
            index.reference(name(block), &entry);
        }
    };
    store(&mut index, 0);
    let before = live_bytes();
    (1..=FURTHER).for_each(|pod| store(&mut index, pod));
    (live_bytes() - before) as f64 / (BLOCKS as usize * FURTHER) as f64
}

/// How much the index has grown when a million blocks have come and gone.
fn churn() -> f64 {
    const STAYING: u64 = 102_400;
    let mut engine = Engine::new();
    let staying = engine.store(STAYING);
    engine.ingest(&staying);
    drop(staying);
    let before = live_bytes();
    for _ in 0..10 {
        let first = engine.next;
        let batches = engine.store(102_400);
        engine.ingest(&batches);
        drop(batches);
        for start in (first..engine.next).step_by(BLOCKS_AN_EVENT as usize) {
            engine.ingest(&[batch(1, |out, _| removed(out, start))]);
        }
    }
    assert_eq!(engine.index.len() as u64, STAYING);
    (live_bytes() as f64 / before as f64 - 1.0).abs() * 100.0
}
