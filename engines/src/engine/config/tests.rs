use super::*;

fn config() -> EngineConfig {
    EngineConfig::new(Profile::VLLM_0_21, 1_000, 4_096)
}

#[test]
fn defaults_are_vllms() {
    let config = config();
    assert_eq!((config.max_num_seqs, config.max_num_batched_tokens, config.block_size), (256, 2048, 16));
    assert!(config.async_scheduling && config.scheduler_reserve_full_isl && config.enable_prefix_caching);
    let old = EngineConfig::new(Profile::VLLM_0_10, 1_000, 4_096);
    assert!(!old.async_scheduling && !old.scheduler_reserve_full_isl);
    assert_eq!(config.check(), Ok(()));
    assert_eq!(config.check_capacity(), Ok(()));
}

#[test]
fn what_no_vllm_starts_with_is_refused() {
    let good = config();
    let cases = [
        (EngineConfig { block_size: 0, ..good.clone() }, "block_size is 0; 1 to 1048576 are accepted"),
        (
            EngineConfig { num_gpu_blocks: 1, ..good.clone() },
            "num_gpu_blocks is 1; 2 to 67108864 are accepted",
        ),
        (EngineConfig { max_loras: Some(0), ..good.clone() }, "max_loras is 0; 1 to 1048576 are accepted"),
        (
            EngineConfig { max_num_batched_tokens: 255, ..good.clone() },
            "max_num_batched_tokens (255) must be at least max_num_seqs (256)",
        ),
        (
            EngineConfig { enable_chunked_prefill: false, ..good.clone() },
            "max_num_batched_tokens (2048) must be at least max_model_len (4096) when chunked prefill is off",
        ),
        (EngineConfig { watermark: f64::NAN, ..good }, "watermark is NaN; it must be at least 0 and below 1"),
    ];
    for (config, message) in cases {
        assert_eq!(config.check().unwrap_err().to_string(), message);
    }
}

#[test]
fn the_null_block_holds_nothing() {
    let config = EngineConfig { num_gpu_blocks: 256, ..config() };
    let error =
        "max_model_len is 4096, but 256 KV blocks of 16 tokens (one of them unused) hold only 4080 tokens";
    assert_eq!(config.check_capacity().unwrap_err().to_string(), error);
    assert_eq!(EngineConfig { num_gpu_blocks: 257, ..config }.check_capacity(), Ok(()));
}

#[test]
fn profiles_are_found_by_name() {
    for profile in Profile::ALL {
        assert_eq!(Profile::named(profile.name()), Some(profile));
    }
    assert_eq!(Profile::default().name(), "vllm-0.21");
    assert_eq!(Profile::named("vllm-0.22"), None);
}

#[test]
fn the_watermark_is_a_floor_and_younger_than_0_21() {
    let spare = |profile| EngineConfig { profile, watermark: 0.0199, ..config() }.spare_blocks();
    assert_eq!(spare(Profile::VLLM_0_21), 0);
    assert_eq!(spare(Profile::VLLM_0_25), 19);
}
