//! KV events of either engine, as MessagePack: what decodes is applied, and what a pod is said to hold it can lose.

#![no_main]

use libfuzzer_sys::fuzz_target;
use router::config::schema::Behavior;
use router::prefix::block_index::{BlockIndex, Limits};
use router::prefix::block_keys::BlockHasher;
use router::prefix::kv_events::{EngineType, KvEventApplier, decode, reset_pod};

const POD: &str = "10.0.0.1:8000";

/// Most memory that an index may take here.
const BYTES: usize = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((choice, payload)) = input.split_first() else { return };
    let engine = if choice & 1 == 0 { EngineType::Vllm } else { EngineType::Sglang };
    let compat = if choice & 2 == 0 { Behavior::Parity } else { Behavior::Fixed };
    let Ok(batch) = decode(engine, payload) else { return };
    let hasher = BlockHasher::new(1 + usize::from(choice >> 2) % 16, "");
    let mut index = BlockIndex::new(Limits { bytes: BYTES, ..Limits::default() });
    let mut applier = KvEventApplier::new(hasher, compat);
    // Twice: what is reported again changes nothing but how often it was.
    for _ in 0..2 {
        applier.apply(&mut index, POD, "kv@pod@model", &batch);
        assert!(index.bytes() <= 2 * BYTES, "{} bytes", index.bytes());
    }
    reset_pod(&mut index, POD);
    assert!(index.is_empty(), "nobody else held anything");
});
