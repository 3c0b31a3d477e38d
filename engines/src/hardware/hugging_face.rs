use serde_json::{Map, Value};

use super::{Experts, LatentAttention, Model};
use crate::InputError;

/// No size in a model's configuration is larger; it keeps every product exact in a double.
const MAX_SIZE: u64 = 100_000_000;

/// Reads the shape of the model `name` from a Hugging Face `config.json` (engines-blis 12).
///
/// Keys under `text_config` override those above; keys that decide nothing here are ignored.
///
/// # Errors
/// When the text is no JSON object, a size is missing or out of range, the data type is unknown, the heads do
/// not divide the hidden size, or the activation is one whose feed-forward block has another number of
/// matrices. The error names line and column, or the key.
pub fn parse_config(name: &str, json: &[u8]) -> Result<Model, InputError> {
    let value: Value = serde_json::from_slice(json).map_err(|error| {
        InputError::new(format!("not valid JSON: {error}"))
            .accepted("a Hugging Face config.json")
            .at_column(error.column() as u64)
            .at_line(error.line() as u64)
    })?;
    let Value::Object(mut keys) = value else {
        return Err(InputError::new("not a JSON object").accepted("a Hugging Face config.json"));
    };
    if let Some(Value::Object(text)) = keys.remove("text_config") {
        keys.extend(text);
    }
    Config(keys).model(name)
}

struct Config(Map<String, Value>);

impl Config {
    fn model(&self, name: &str) -> Result<Model, InputError> {
        let hidden = self.required(&["hidden_size"])?;
        let heads = self.required(&["num_attention_heads"])?;
        let head_dim = self.first(&["head_dim"])?;
        if head_dim.is_none() && hidden % heads != 0 {
            return Err(InputError::new(format!("{heads} heads do not divide the hidden size {hidden}"))
                .accepted("a divisor of hidden_size, or a head_dim")
                .field("num_attention_heads"));
        }
        let dtype_bytes = self.dtype_bytes()?;
        let feed_forward = self.required(&["intermediate_size", "ffn_hidden_size"])?;
        self.check_activation()?;
        Ok(Model {
            name: name.to_owned(),
            layers: self.required(&["num_hidden_layers"])?,
            hidden,
            heads,
            kv_heads: self
                .first(&["num_key_value_heads", "num_kv_heads", "multi_query_group_num"])?
                .unwrap_or(heads),
            head_dim,
            vocab: self.required(&["vocab_size"])?,
            feed_forward,
            dense_feed_forward: self.first(&["intermediate_size_mlp"])?,
            experts: self.experts(feed_forward)?,
            latent: self.latent()?,
            dtype_bytes,
            weight_bytes: self.weight_bytes(name)?.unwrap_or(dtype_bytes),
            tied_embeddings: self.0.get("tie_word_embeddings") == Some(&Value::Bool(true)),
            max_model_len: self.max_model_len()?,
        })
    }

    /// Returns the first of `keys` that holds a size above zero.
    fn first(&self, keys: &[&str]) -> Result<Option<u32>, InputError> {
        for key in keys {
            match self.0.get(*key) {
                None | Some(Value::Null) => {}
                Some(value) => match value.as_u64().filter(|size| *size <= MAX_SIZE) {
                    Some(0) => {}
                    Some(size) => return Ok(Some(size as u32)),
                    None => {
                        return Err(InputError::new(format!("{value} is no size"))
                            .accepted(format!("a whole number from 0 to {MAX_SIZE}"))
                            .field(*key));
                    }
                },
            }
        }
        Ok(None)
    }

    fn required(&self, keys: &[&str]) -> Result<u32, InputError> {
        self.first(keys)?.ok_or_else(|| {
            InputError::new("missing")
                .accepted(format!("a whole number from 1 to {MAX_SIZE}"))
                .field(keys.join(" or "))
        })
    }

    fn experts(&self, feed_forward: u32) -> Result<Option<Experts>, InputError> {
        const COUNTS: [&str; 5] =
            ["num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts", "num_routed_experts"];
        let mut count = None;
        for key in COUNTS {
            count = count.or(self.first(&[key])?.filter(|count| *count >= 2));
        }
        let shared_count = self.first(&["n_shared_experts"])?;
        let per_token = self.first(&["num_experts_per_tok"])?;
        let Some(count) = count else {
            if shared_count.or(per_token).is_some_and(|n| n > 1) {
                return Err(InputError::new("experts are mentioned, but not how many a layer has")
                    .accepted("a whole number from 2")
                    .field(COUNTS.join(" or ")));
            }
            return Ok(None);
        };
        let expert_feed_forward = self.first(&["moe_intermediate_size"])?.unwrap_or(feed_forward);
        let shared = match self.first(&["shared_expert_intermediate_size"])? {
            Some(size) => size,
            None => shared_count.unwrap_or(0).saturating_mul(expert_feed_forward),
        };
        Ok(Some(Experts {
            count,
            per_token: per_token.unwrap_or(0).min(count),
            feed_forward: expert_feed_forward,
            shared_feed_forward: shared,
            interleave_step: self.first(&["interleave_moe_layer_step"])?.unwrap_or(0),
            first_dense: self.first(&["first_k_dense_replace"])?.unwrap_or(0),
        }))
    }

    fn latent(&self) -> Result<Option<LatentAttention>, InputError> {
        let (rank, rope) = (self.first(&["kv_lora_rank"])?, self.first(&["qk_rope_head_dim"])?);
        Ok(rank
            .zip(rope)
            .map(|(kv_lora_rank, rope_head_dim)| LatentAttention { kv_lora_rank, rope_head_dim }))
    }

    fn dtype_bytes(&self) -> Result<f64, InputError> {
        let name = ["torch_dtype", "dtype"].iter().find_map(|key| self.0.get(*key)).and_then(Value::as_str);
        match name {
            Some("float32") => Ok(4.0),
            Some("float16" | "bfloat16") => Ok(2.0),
            Some("int8" | "uint8" | "fp8" | "int4" | "nf4") => Ok(1.0),
            other => Err(InputError::new(match other {
                Some(other) => format!("unknown data type {other:?}"),
                None => "missing".to_owned(),
            })
            .accepted("float32, float16, bfloat16, int8, uint8, fp8, int4, nf4")
            .field("torch_dtype")),
        }
    }

    /// Returns the bytes of a quantized weight, from the configuration or else from the model's name.
    fn weight_bytes(&self, name: &str) -> Result<Option<f64>, InputError> {
        let bits = match self.0.get("quantization_config") {
            Some(Value::Object(quantization)) => quantization_bits(quantization),
            _ => None,
        };
        match bits.or_else(|| bits_in_name(name)) {
            Some(bits) if (1.0..=64.0).contains(&bits) => Ok(Some(bits / 8.0)),
            None => Ok(None),
            Some(bits) => Err(InputError::new(format!("{bits} bits a weight"))
                .accepted("1 to 64 bits")
                .field("quantization_config")),
        }
    }

    fn check_activation(&self) -> Result<(), InputError> {
        match self.0.get("hidden_act").and_then(Value::as_str) {
            None | Some("" | "silu" | "swiglu" | "geglu" | "situ") => Ok(()),
            Some(other) => Err(InputError::new(format!("activation {other:?} has no known weight count"))
                .accepted("silu, swiglu, geglu, situ")
                .field("hidden_act")),
        }
    }

    /// The trained length, stretched by the rotary scaling where that is not contained in it already.
    fn max_model_len(&self) -> Result<Option<u32>, InputError> {
        let Some(trained) = self.first(&["max_position_embeddings"])? else { return Ok(None) };
        let Some(Value::Object(scaling)) = self.0.get("rope_scaling") else { return Ok(Some(trained)) };
        let text = |key: &str| scaling.get(key).and_then(Value::as_str);
        let kind = text("type").or_else(|| text("rope_type")).unwrap_or("");
        let factor = scaling.get("factor").and_then(Value::as_f64).unwrap_or(1.0);
        let gemma3 =
            self.0.get("model_type").and_then(Value::as_str).is_some_and(|kind| kind.contains("gemma3"));
        if factor <= 1.0 || gemma3 || matches!(kind, "su" | "longrope" | "llama3") {
            return Ok(Some(trained));
        }
        let base = match scaling.get("original_max_position_embeddings").and_then(Value::as_u64) {
            Some(original) if kind == "yarn" => original as f64,
            _ => f64::from(trained),
        };
        Ok(Some((base * factor).min(MAX_SIZE as f64) as u32))
    }
}

fn quantization_bits(quantization: &Map<String, Value>) -> Option<f64> {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    if let Some(bits) = quantization.get("bits").and_then(number) {
        return Some(bits);
    }
    match quantization.get("quant_method").and_then(Value::as_str) {
        Some("fp8") => Some(8.0),
        Some("compressed-tensors") => {
            let Some(Value::Object(groups)) = quantization.get("config_groups") else { return None };
            let mut names: Vec<&String> = groups.keys().collect();
            names.sort();
            names.into_iter().find_map(|name| groups[name].get("weights")?.get("num_bits").and_then(number))
        }
        _ => None,
    }
}

/// Finds `w<bits>a<n>` or a delimited `fp8` in a model's name.
fn bits_in_name(name: &str) -> Option<f64> {
    let name = name.to_lowercase();
    name.split(|c: char| !c.is_ascii_alphanumeric()).find_map(|word| {
        if word == "fp8" {
            return Some(8.0);
        }
        let (bits, activation) = word.strip_prefix('w')?.split_once('a')?;
        activation.parse::<u32>().ok()?;
        bits.parse().ok()
    })
}

#[cfg(test)]
mod tests;
