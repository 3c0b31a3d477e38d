use super::StepBatch;
use crate::hardware::{Experts, Placement};

/// The roofline model: a step takes as long as the slower of its arithmetic, at the part of the peak that its
/// phase reaches, and its memory traffic (engines-blis 13.1).
///
/// It counts two matrices a feed-forward block and `hidden / heads` as the size of a head, whatever the
/// configuration says: the numbers it is held against do.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// FLOP of one token beside attention, on one GPU.
    token_flops: f64,
    /// FLOP of one token attending to one token, on one GPU.
    attention_flops: f64,
    /// FLOP/us that prefill reaches.
    prefill_rate: f64,
    /// FLOP/us that decode reaches.
    decode_rate: f64,
    /// Bytes of the weights that every step reads, on one GPU.
    dense_weight_bytes: f64,
    /// Bytes of the weights of one expert over all layers, on one GPU.
    expert_weight_bytes: f64,
    experts: f64,
    /// The chance that a token leaves a given expert alone.
    expert_miss: f64,
    /// KV bytes read or written a token of context, on one GPU.
    kv_bytes: f64,
    /// Activation bytes a new token, on one GPU.
    activation_bytes: f64,
    /// Bytes/us.
    bandwidth: f64,
}

impl Roofline {
    /// Derives the coefficients of `placement`.
    pub fn new(placement: &Placement) -> Self {
        let Placement { model, gpu, tp } = placement;
        let tp = f64::from(tp.get());
        let layers = f64::from(model.layers);
        let hidden = f64::from(model.hidden);
        let heads = f64::from(model.heads);
        let head_dim = f64::from(model.hidden / model.heads);
        let kv_dim = f64::from(model.kv_heads) * head_dim;
        let expert_layers = f64::from(model.expert_layers());
        let dense_layers = layers - expert_layers;
        let dense_matrices = dense_layers * 2.0 * hidden * f64::from(model.dense_feed_forward());
        let (count, per_token, expert_matrices) = match &model.experts {
            None => (0.0, 0.0, 0.0),
            Some(Experts { count, per_token, feed_forward, .. }) => (
                f64::from(*count),
                f64::from(*per_token),
                expert_layers * 2.0 * hidden * f64::from(*feed_forward),
            ),
        };
        let attention_matrices = layers * (hidden * (hidden + 2.0 * kv_dim) + hidden * hidden);
        let peak = gpu.peak_tflops(model.weight_bytes) * 1e6;
        Roofline {
            token_flops: (2.0 * (attention_matrices + dense_matrices + expert_matrices * per_token)
                + layers * 2.0 * hidden)
                / tp,
            attention_flops: layers * heads * (4.0 * head_dim + 5.0) / tp,
            prefill_rate: peak * gpu.prefill_mfu,
            decode_rate: peak * gpu.decode_mfu,
            dense_weight_bytes: (attention_matrices + dense_matrices) * model.weight_bytes / tp,
            expert_weight_bytes: expert_matrices * model.weight_bytes / tp,
            experts: count,
            expert_miss: if count > 0.0 { (count - per_token) / count } else { 1.0 },
            kv_bytes: 2.0 * layers * kv_dim * model.dtype_bytes / tp,
            activation_bytes: layers * hidden * model.dtype_bytes / tp,
            bandwidth: gpu.bandwidth_tbs * 1e6,
        }
    }

    /// Returns the time of a step over a batch that is not empty, in microseconds.
    pub(super) fn step_us(&self, batch: &StepBatch) -> f64 {
        let prefill_flops = self.token_flops * batch.prefill_tokens as f64
            + self.attention_flops * (batch.prefill_attention as f64 / 2.0);
        let decode_flops =
            self.token_flops * batch.decodes as f64 + self.attention_flops * batch.decode_context as f64;
        let compute = prefill_flops / self.prefill_rate + decode_flops / self.decode_rate;

        let tokens = batch.tokens() as f64;
        let context = (batch.prefill_context + batch.decode_context) as f64;
        // Experts that at least one of the step's tokens visits, each token choosing evenly.
        let visited = self.experts * (1.0 - libm::pow(self.expert_miss, tokens));
        let bytes = self.dense_weight_bytes
            + self.expert_weight_bytes * visited
            + self.kv_bytes * (tokens + context)
            + self.activation_bytes * tokens;
        compute.max(bytes / self.bandwidth)
    }
}
