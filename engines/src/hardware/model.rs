/// The shape of a model: what decides its size, its KV cache and its step times.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The name requests give.
    pub name: String,
    /// Transformer layers.
    pub layers: u32,
    /// Hidden size.
    pub hidden: u32,
    /// Attention heads.
    pub heads: u32,
    /// Key and value heads.
    pub kv_heads: u32,
    /// The size of one head where the configuration states it; it need not be `hidden / heads`.
    pub head_dim: Option<u32>,
    /// Vocabulary size.
    pub vocab: u32,
    /// Inner size of the feed-forward block.
    pub feed_forward: u32,
    /// Inner size of the dense feed-forward blocks where it differs from that of the experts.
    pub dense_feed_forward: Option<u32>,
    /// Mixture of experts; `None` for a dense model.
    pub experts: Option<Experts>,
    /// Multi-head latent attention; `None` for models that cache keys and values.
    pub latent: Option<LatentAttention>,
    /// Bytes of one activation, and of one element of the KV cache.
    pub dtype_bytes: f64,
    /// Bytes of one weight: below `dtype_bytes` for a quantized model, 0.5 at four bits.
    pub weight_bytes: f64,
    /// Whether the output layer shares the weights of the embedding.
    pub tied_embeddings: bool,
    /// The longest sequence the model was made for, prompt and output together.
    pub max_model_len: Option<u32>,
}

/// The experts of a mixture-of-experts model.
#[derive(Clone, Debug, PartialEq)]
pub struct Experts {
    /// Experts in a layer, at least 2.
    pub count: u32,
    /// Experts a token visits.
    pub per_token: u32,
    /// Inner size of one expert.
    pub feed_forward: u32,
    /// Inner size of the shared expert, 0 without one.
    pub shared_feed_forward: u32,
    /// Dense layers between two layers with experts, 0 when every layer has them.
    pub interleave_step: u32,
    /// Leading layers that are dense.
    pub first_dense: u32,
}

/// What multi-head latent attention caches for a token and layer instead of keys and values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatentAttention {
    /// Elements of the compressed keys and values.
    pub kv_lora_rank: u32,
    /// Elements of the rotary part of the key.
    pub rope_head_dim: u32,
}

impl Model {
    /// Returns the size of one attention head as the memory sees it: the stated one, else `hidden / heads`.
    pub fn head_dim(&self) -> u32 {
        self.head_dim.unwrap_or(self.hidden / self.heads)
    }

    /// Returns the inner size of a dense feed-forward block.
    pub fn dense_feed_forward(&self) -> u32 {
        self.dense_feed_forward.unwrap_or(self.feed_forward)
    }

    /// Returns how many layers the step-time formulas count as layers with experts (engines-blis 13.1).
    ///
    /// They look at the interleaving only: leading dense layers count as layers with experts.
    pub fn expert_layers(&self) -> u32 {
        match &self.experts {
            None => 0,
            Some(experts) => self.layers / (experts.interleave_step + 1),
        }
    }

    /// Returns the number of parameters (engines-blis 11).
    ///
    /// Every layer behind the leading dense ones counts as one with experts, also in an interleaved model.
    pub fn parameters(&self) -> f64 {
        let (layers, hidden, vocab) = (f64::from(self.layers), f64::from(self.hidden), f64::from(self.vocab));
        let kv_dim = f64::from(self.kv_heads) * f64::from(self.head_dim());
        let attention = layers * (hidden * (hidden + 2.0 * kv_dim) + hidden * hidden + 2.0 * hidden);
        let feed_forward = match &self.experts {
            None => layers * 3.0 * hidden * f64::from(self.feed_forward),
            Some(experts) => {
                let dense_layers = f64::from(experts.first_dense.min(self.layers));
                let count = f64::from(experts.count);
                let expert_layer = 3.0 * hidden * f64::from(experts.feed_forward) * count
                    + 3.0 * hidden * f64::from(experts.shared_feed_forward)
                    + count * hidden;
                (layers - dense_layers) * expert_layer
                    + dense_layers * 3.0 * hidden * f64::from(self.dense_feed_forward())
            }
        };
        let output = if self.tied_embeddings { 0.0 } else { vocab * hidden };
        vocab * hidden + attention + feed_forward + output + hidden
    }

    /// Returns the bytes that one token's KV cache takes on each of `tp` GPUs (engines-blis 11).
    ///
    /// A latent cache is not split: each GPU holds the whole.
    pub fn kv_bytes_per_token(&self, tp: u32) -> f64 {
        let layers = f64::from(self.layers);
        match self.latent {
            Some(latent) => {
                layers * (f64::from(latent.kv_lora_rank) + f64::from(latent.rope_head_dim)) * self.dtype_bytes
            }
            None => {
                let kv_dim = f64::from(self.head_dim()) * f64::from(self.kv_heads);
                layers * 2.0 * kv_dim * self.dtype_bytes / f64::from(tp)
            }
        }
    }
}
