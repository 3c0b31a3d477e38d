use super::*;

const SMALL: &str = r#"{"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100,
    "intermediate_size": 128, "torch_dtype": "bfloat16""#;

fn parse(more: &str) -> Result<Model, InputError> {
    parse_config("m", format!("{SMALL}{more}}}").as_bytes())
}

fn refusal(more: &str) -> String {
    parse(more).unwrap_err().to_string()
}

#[test]
fn absent_keys_have_their_defaults() {
    let model = parse("").unwrap();
    assert_eq!((model.kv_heads, model.head_dim(), model.weight_bytes), (4, 16, 2.0));
    assert_eq!((model.experts, model.latent, model.max_model_len), (None, None, None));
}

#[test]
fn text_config_overrides() {
    assert_eq!(parse(r#", "text_config": {"num_hidden_layers": 7}"#).unwrap().layers, 7);
}

#[test]
fn experts_are_found_under_every_name_and_shared_ones_are_multiplied() {
    for key in
        ["num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts", "num_routed_experts"]
    {
        let model = parse(&format!(
            r#", "{key}": 8, "num_experts_per_tok": 2, "n_shared_experts": 3, "moe_intermediate_size": 32"#
        ));
        let experts = model.unwrap().experts.unwrap();
        assert_eq!((experts.count, experts.per_token, experts.shared_feed_forward), (8, 2, 96), "{key}");
    }
    let dense = parse(r#", "num_experts": 1, "n_routed_experts": 4"#).unwrap();
    assert_eq!(dense.experts.unwrap().count, 4, "a count below 2 is passed over");
}

#[test]
fn weights_are_as_small_as_the_quantization_says() {
    for (more, bytes) in [
        (r#", "quantization_config": {"bits": 4}"#, 0.5),
        (r#", "quantization_config": {"bits": "4"}"#, 0.5),
        (r#", "quantization_config": {"quant_method": "fp8"}"#, 1.0),
        (
            r#", "quantization_config": {"quant_method": "compressed-tensors", "config_groups":
                {"b": {"weights": {"num_bits": 8}}, "a": {"weights": {"num_bits": 4}}}}"#,
            0.5,
        ),
        (r#", "quantization_config": {"quant_method": "other"}"#, 2.0),
    ] {
        assert_eq!(parse(more).unwrap().weight_bytes, bytes, "{more}");
    }
    for (name, bits) in [("m-w4a16", Some(4.0)), ("M-FP8-dynamic", Some(8.0)), ("fp80", None), ("wa1", None)]
    {
        assert_eq!(bits_in_name(name), bits, "{name}");
    }
}

#[test]
fn the_longest_sequence_follows_the_rotary_scaling() {
    for (scaling, length) in [
        ("null", 1000),
        (r#"{"type": "linear", "factor": 2.0}"#, 2000),
        (r#"{"rope_type": "llama3", "factor": 8.0}"#, 1000),
        (r#"{"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 500}"#, 2000),
    ] {
        let model =
            parse(&format!(r#", "max_position_embeddings": 1000, "rope_scaling": {scaling}"#)).unwrap();
        assert_eq!(model.max_model_len, Some(length), "{scaling}");
    }
}

#[test]
fn what_cannot_be_modelled_is_refused_by_name() {
    for (more, message) in [
        (r#", "head_dim": -1"#, "head_dim: -1 is no size; accepted: a whole number from 0 to 100000000"),
        (
            r#", "num_attention_heads": 5"#,
            "num_attention_heads: 5 heads do not divide the hidden size 64; accepted: a divisor of hidden_size, or a head_dim",
        ),
        (
            r#", "torch_dtype": "float8""#,
            r#"torch_dtype: unknown data type "float8"; accepted: float32, float16, bfloat16, int8, uint8, fp8, int4, nf4"#,
        ),
        (
            r#", "hidden_act": "relu""#,
            r#"hidden_act: activation "relu" has no known weight count; accepted: silu, swiglu, geglu, situ"#,
        ),
        (
            r#", "num_hidden_layers": 0"#,
            "num_hidden_layers: missing; accepted: a whole number from 1 to 100000000",
        ),
    ] {
        assert_eq!(refusal(more), message);
    }
    assert!(refusal(r#", "num_experts_per_tok": 2"#).contains("experts are mentioned"));
    let truncated = parse_config("m", b"{\"hidden_size\": 64,").unwrap_err();
    assert_eq!((truncated.place().line, truncated.place().column), (Some(1), Some(19)));
}
