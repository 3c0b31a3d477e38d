//! What an engine runs on: models, GPUs, and how much KV cache the two leave (engines-blis 11, 12).

mod bundled;
mod gpu;
mod hugging_face;
mod kv_capacity;
mod model;

use std::num::NonZeroU32;

pub use bundled::{bundled_model, bundled_models};
pub use gpu::{GPUS, Gpu, gpu};
pub use hugging_face::parse_config;
pub use kv_capacity::{KvCapacity, KvOptions, kv_capacity};
pub use model::{Experts, LatentAttention, Model};

/// A model, and the GPUs that one engine of it is spread over.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The model served.
    pub model: Model,
    /// The kind of GPU.
    pub gpu: Gpu,
    /// Tensor parallelism: the number of GPUs of one engine.
    pub tp: NonZeroU32,
}
