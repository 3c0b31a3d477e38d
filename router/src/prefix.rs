//! Hashes of prompts, and indexes over them.

mod approximate;
pub mod block_index;
pub mod block_keys;
pub mod kv_events;
mod longest_prefix;
pub mod multimodal;
mod prompt_hash;

pub use approximate::ApproximateIndex;
pub use longest_prefix::{LongestPrefix, PodMatch, TierWeights};
pub use prompt_hash::prompt_hashes;
