use std::num::NonZeroU32;

use super::Placement;
use crate::InputError;

const GIB: f64 = (1u64 << 30) as f64;

/// How an engine uses the memory of its GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KvOptions {
    /// Tokens of one KV block.
    pub block_size: NonZeroU32,
    /// The part of the memory that the engine may use, above 0 and at most 1.
    pub memory_utilization: f64,
}

/// Blocks of 16 tokens, as in vLLM, and nine tenths of the memory, as the reference numbers have it.
impl Default for KvOptions {
    fn default() -> Self {
        KvOptions { block_size: NonZeroU32::new(16).expect("16 is not zero"), memory_utilization: 0.9 }
    }
}

/// The KV cache that fits beside a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCapacity {
    /// Blocks of `block_size` tokens.
    pub blocks: u64,
    /// Bytes of one token on each GPU.
    pub bytes_per_token: u64,
}

/// Computes how many KV blocks fit beside the weights (engines-blis 11).
///
/// Memory counts over all GPUs of the engine, a block over one of them: the formula that the reference
/// numbers follow, which grows about with the square of the tensor parallelism.
///
/// # Errors
/// When the weights and activations leave no room for a block (names the least number of GPUs that would
/// do), or the key-value heads cannot be split over the GPUs.
pub fn kv_capacity(placement: &Placement, options: KvOptions) -> Result<KvCapacity, InputError> {
    let Placement { model, gpu, tp } = placement;
    let tp = tp.get();
    if model.kv_heads >= tp && model.kv_heads % tp != 0 {
        return Err(InputError::new(format!("{} cannot be split over {tp} GPUs", model.name))
            .accepted(format!("a divisor of its {} key-value heads", model.kv_heads))
            .field("tp"));
    }
    let gpus = f64::from(tp);
    let weights = (model.parameters() * model.weight_bytes).trunc() / GIB;
    let activations = if model.experts.is_some() { 8.0 } else { 5.5 };
    let outside_torch = if tp == 1 { 0.15 } else { 0.6 * gpus };
    let usable = gpu.memory_gib * options.memory_utilization * gpus;
    let free = usable - (weights + activations + outside_torch);
    let bytes_per_token = model.kv_bytes_per_token(tp);
    let bytes_per_block = (bytes_per_token * f64::from(options.block_size.get())).trunc();
    let blocks = ((free * GIB).trunc() / bytes_per_block).floor();
    if blocks >= 1.0 {
        return Ok(KvCapacity { blocks: blocks as u64, bytes_per_token: bytes_per_token as u64 });
    }
    let per_gpu = gpu.memory_gib * options.memory_utilization - 0.6;
    let accepted = if per_gpu > 0.0 {
        format!("tp of at least {}, or a GPU with more memory", ((weights + activations) / per_gpu).ceil())
    } else {
        "a larger part of the memory, or a GPU with more memory".to_owned()
    };
    Err(InputError::new(format!(
        "{} does not fit: its weights take {weights:.1} GiB and its activations {activations} GiB, \
         {tp} x {} leave {usable:.1} GiB",
        model.name, gpu.name
    ))
    .accepted(accepted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{bundled_model, gpu};

    fn blocks(model: &str, gpu_name: &str, tp: u32) -> Result<u64, InputError> {
        let placement = Placement {
            model: bundled_model(model).unwrap(),
            gpu: gpu(gpu_name).unwrap(),
            tp: NonZeroU32::new(tp).unwrap(),
        };
        kv_capacity(&placement, KvOptions::default()).map(|capacity| capacity.blocks)
    }

    /// The table of engines-blis 11, H100 at TP 1, 2, 4, 8; 0 where the model does not fit.
    #[test]
    fn blocks_are_those_of_the_reference_table() {
        for (model, expected) in [
            ("qwen3-14b", [15909, 89941, 413846, 1763547]),
            ("llama-3.1-8b-instruct", [26312, 125278, 543011, 2255841]),
            ("llama-3.1-70b-instruct", [0, 2409, 121801, 711530]),
            ("llama-2-7b-hf", [6886, 31935, 136984, 566424]),
            ("codellama-34b-instruct-hf", [1193, 50822, 296614, 1373107]),
            ("mistral-nemo-instruct-2407", [17512, 93147, 420258, 1776371]),
            ("mixtral-8x7b-v0.1", [0, 48956, 390367, 1950553]),
            ("qwen2.5-7b-instruct", [61048, 288159, 1244786, 5163441]),
            ("qwen3-30b-a3b", [5276, 107423, 604786, 2769330]),
            ("yi-34b", [626, 40001, 235979, 1095861]),
            ("deepseek-v2-lite", [74312, 227391, 535491, 1151692]),
            ("llama-4-scout-17b-16e-instruct-fp8-dynamic", [0, 27345, 249660, 1279198]),
            ("glm-5.2-fp8", [0, 0, 0, 0]),
        ] {
            let found = [1, 2, 4, 8].map(|tp| blocks(model, "H100", tp).unwrap_or(0));
            assert_eq!(found, expected, "{model}");
        }
    }

    #[test]
    fn a_model_that_does_not_fit_is_refused_with_the_gpus_it_needs() {
        assert_eq!(
            blocks("llama-3.1-70b-instruct", "H100", 1).unwrap_err().to_string(),
            "llama-3.1-70b-instruct does not fit: its weights take 131.4 GiB and its activations 5.5 GiB, \
             1 x H100 leave 72.0 GiB; accepted: tp of at least 2, or a GPU with more memory"
        );
        assert!(blocks("qwen3-14b", "H100", 3).unwrap_err().to_string().contains("cannot be split over 3"));
    }
}
