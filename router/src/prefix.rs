//! Hashes of prompts, and indexes over them.

mod approximate;
mod prompt_hash;

pub use approximate::ApproximateIndex;
pub use prompt_hash::prompt_hashes;
