use super::{Overheads, StepBatch};
use crate::InputError;
use crate::hardware::{Experts, Placement};

/// Physical terms with coefficients that were fitted on measured runs (engines-blis 13.2).
///
/// It charges the attention of a prompt's chunk for the whole prompt, so chunking makes prefill dearer, and
/// nothing for the arithmetic of decoding or for what prefill reads.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainedPhysics {
    /// Microseconds of every step.
    step: f64,
    /// Microseconds a sequence.
    sequence: f64,
    /// Microseconds a prompt token.
    prefill_token: f64,
    /// Microseconds a prompt token attending to one token.
    prefill_attention: f64,
    /// Microseconds a token of context that decoding reads.
    decode_context: f64,
    /// Microseconds a token exchanged between GPUs.
    exchanged_token: f64,
}

/// The fitted coefficients that are not zero: those of decode arithmetic and of prefill memory traffic are.
mod fitted {
    pub(super) const PREFILL_COMPUTE: f64 = 0.152128;
    pub(super) const WEIGHTS: f64 = 1.36252915;
    pub(super) const EXCHANGE: f64 = 0.752037;
    pub(super) const LAYER_US: f64 = 32.09546717;
    pub(super) const SEQUENCE_US: f64 = 4.41684444;
    pub(super) const STEP_US: f64 = 126.024825;
    pub(super) const INTERLEAVED_LAYER_US: f64 = 481.8613888;
    pub(super) const DECODE_KV: f64 = 1.94710771;
}

impl TrainedPhysics {
    /// What the fit adds to a request beside its steps.
    pub const OVERHEADS: Overheads = Overheads { queueing: 15563, output_token: 45, post_decode: 777 };

    /// Derives the coefficients of `placement`.
    ///
    /// # Errors
    /// When the heads or the key-value heads cannot be split evenly over the GPUs.
    pub fn new(placement: &Placement) -> Result<Self, InputError> {
        let Placement { model, gpu, tp } = placement;
        if model.heads % *tp != 0 || model.kv_heads % *tp != 0 {
            return Err(InputError::new(format!(
                "trained-physics cannot split {} over {tp} GPUs",
                model.name
            ))
            .accepted(format!(
                "a divisor of its {} heads and {} key-value heads, or the roofline backend",
                model.heads, model.kv_heads
            ))
            .field("tp"));
        }
        let tp = f64::from(tp.get());
        let layers = f64::from(model.layers);
        let hidden = f64::from(model.hidden);
        let head_dim = f64::from(model.hidden / model.heads);
        let kv_dim = f64::from(model.kv_heads) * head_dim;
        let expert_layers = f64::from(model.expert_layers());
        let dense_layers = layers - expert_layers;

        let interleaved = model.experts.as_ref().is_some_and(|experts| experts.interleave_step > 0);
        let interleaved_layers = if interleaved { expert_layers } else { 0.0 };

        let attention_matrices = layers * hidden * (2.0 * hidden + 2.0 * kv_dim);
        let dense_matrices = dense_layers * 3.0 * hidden * f64::from(model.dense_feed_forward());
        let (count, per_token, expert_matrices, shared_matrices) = match &model.experts {
            None => (0.0, 1.0, 0.0, 0.0),
            Some(Experts { count, per_token, feed_forward, shared_feed_forward, .. }) => (
                f64::from(*count),
                f64::from((*per_token).max(1)),
                expert_layers * 3.0 * hidden * f64::from(*feed_forward),
                expert_layers * 3.0 * hidden * f64::from(*shared_feed_forward),
            ),
        };
        let visited = attention_matrices + expert_matrices * per_token + shared_matrices + dense_matrices;
        let held = attention_matrices + expert_matrices * count + shared_matrices + dense_matrices;

        let rate = gpu.peak_tflops(model.weight_bytes) * 1e6;
        let bandwidth = gpu.bandwidth_tbs * 1e6;
        // Each all-reduce moves a hidden state once out and once in; attention, dense and expert blocks each
        // end in one.
        let exchanges = layers + dense_layers + expert_layers;
        let exchange_us = exchanges * hidden * model.dtype_bytes * 2.0 * ((tp - 1.0) / tp) / bandwidth;
        Ok(TrainedPhysics {
            step: fitted::WEIGHTS * (held * model.weight_bytes / tp / bandwidth)
                + fitted::LAYER_US * layers
                + fitted::INTERLEAVED_LAYER_US * interleaved_layers
                + fitted::STEP_US,
            sequence: fitted::SEQUENCE_US,
            prefill_token: fitted::PREFILL_COMPUTE * (2.0 * visited / tp / rate),
            prefill_attention: fitted::PREFILL_COMPUTE
                * (layers * 4.0 * (f64::from(model.heads) / tp) * head_dim / rate),
            decode_context: fitted::DECODE_KV * (layers * 2.0 * (kv_dim / tp) * 2.0 / bandwidth),
            exchanged_token: fitted::EXCHANGE * exchange_us,
        })
    }

    /// Returns the time of a step over a batch that is not empty, in microseconds.
    pub(super) fn step_us(&self, batch: &StepBatch) -> f64 {
        self.step
            + self.sequence * (batch.prefills + batch.decodes) as f64
            + self.prefill_token * batch.prefill_tokens as f64
            + self.prefill_attention * (batch.prefill_prompt_attention as f64 / 2.0)
            + self.decode_context * (batch.decode_context + batch.decodes) as f64
            + self.exchanged_token * batch.tokens() as f64
    }
}
