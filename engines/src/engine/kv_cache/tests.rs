use proptest::prelude::*;

use super::super::request::Requests;
use super::super::{BlockHash, NewRequest, Profile, RequestId};
use super::*;

const BLOCK: u32 = 4;

fn cache(blocks: u32) -> KvCache {
    KvCache::new(&EngineConfig { block_size: BLOCK, ..EngineConfig::new(Profile::VLLM_0_21, blocks, 1_000) })
}

/// A prompt of `blocks` full blocks and one more token, the chain of `family`.
fn request(id: u64, family: u64, blocks: u32) -> NewRequest {
    NewRequest {
        block_hashes: (0..u64::from(blocks)).map(|block| BlockHash(family << 32 | block)).collect(),
        ..NewRequest::new(RequestId(id), blocks * BLOCK + 1, 100)
    }
}

#[test]
fn a_hit_is_never_evicted_by_its_own_request() {
    let mut requests = Requests::default();
    let mut kv = cache(3);
    let first = requests.insert(NewRequest { prompt_tokens: 8, ..request(1, 1, 2) });
    assert_eq!(kv.look_up(&requests[first]), 0);
    assert!(kv.admit(&mut requests[first], 8, false));
    kv.release(&mut requests[first]);
    let second = requests.insert(request(2, 1, 1));
    assert_eq!(kv.look_up(&requests[second]), BLOCK);
    assert!(kv.admit(&mut requests[second], 1, false));
    assert_eq!(requests[second].blocks, [1, 2]);
}

#[test]
fn refused_admission_changes_nothing() {
    let mut requests = Requests::default();
    let mut kv = cache(6);
    let first = requests.insert(request(1, 1, 3));
    kv.look_up(&requests[first]);
    assert!(kv.admit(&mut requests[first], 13, false));
    kv.release(&mut requests[first]);
    let before: Vec<_> = kv.pool.free_queue().collect();
    // Five blocks are free, three of them its own hits; it needs three more.
    let second = requests.insert(request(2, 1, 5));
    assert_eq!(kv.look_up(&requests[second]), 3 * BLOCK);
    assert!(!kv.admit(&mut requests[second], 9, false));
    assert_eq!(kv.pool.free_queue().collect::<Vec<_>>(), before);
    assert!(requests[second].blocks.is_empty());
    // Without the whole-prompt check its next chunk is enough.
    kv.reserve_full = false;
    assert!(kv.admit(&mut requests[second], 4, false));
}

#[test]
fn reset_waits_until_no_block_is_in_use() {
    let mut requests = Requests::default();
    let mut kv = cache(6);
    let slot = requests.insert(request(1, 1, 2));
    kv.look_up(&requests[slot]);
    assert!(kv.admit(&mut requests[slot], 9, false));
    assert!(!kv.reset());
    kv.release(&mut requests[slot]);
    let again = requests.insert(request(2, 1, 2));
    assert_eq!(kv.look_up(&requests[again]), 2 * BLOCK);
    assert!(kv.reset());
    assert_eq!(kv.look_up(&requests[again]), 0);
}

proptest! {
    /// The kept look-up of a refused request is what a fresh one would be, whatever happens between.
    #[test]
    fn looking_up_again_equals_looking_up_anew(
        ops in prop::collection::vec((0u8..6, 0u64..3, 0u32..7), 0..80),
        head in (0u64..3, 1u32..7),
    ) {
        let mut requests = Requests::default();
        let mut kv = cache(16);
        let waiting = requests.insert(request(0, head.0, head.1));
        let mut running = Vec::new();
        for (id, (op, family, blocks)) in (1..).zip(ops) {
            match op {
                0 | 1 => {
                    let slot = requests.insert(request(id, family, blocks));
                    let hits = kv.look_up(&requests[slot]);
                    let tokens = requests[slot].known - hits;
                    if kv.admit(&mut requests[slot], tokens, false) {
                        requests[slot].computed = hits + tokens;
                        running.push(slot);
                    }
                }
                2 if !running.is_empty() => {
                    let slot = running[blocks as usize % running.len()];
                    if kv.grow(&mut requests[slot], 1) {
                        requests[slot].computed += 1;
                    }
                }
                3 | 4 if !running.is_empty() => {
                    let slot = running.swap_remove(blocks as usize % running.len());
                    kv.release(&mut requests[slot]);
                }
                5 => {
                    kv.reset();
                }
                _ => {}
            }
            let kept = kv.look_up(&requests[waiting]);
            let anew: Vec<BlockId> =
                requests[waiting].hashes.iter().map_while(|&hash| kv.pool.find(hash)).collect();
            prop_assert_eq!(kept, anew.len() as u32 * BLOCK);
            prop_assert_eq!(&kv.hits, &anew);
        }
    }
}
