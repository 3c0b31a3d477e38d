use std::num::NonZeroU32;
use std::path::Path;

use super::*;
use crate::hardware::{KvOptions, bundled_model, gpu, kv_capacity};

/// Builds one of the batches that the reference numbers were printed for.
fn batch(name: &str) -> StepBatch {
    let mut batch = StepBatch::default();
    for part in name.split('+') {
        let decodes = |batch: &mut StepBatch, count: u32| {
            (0..count).for_each(|i| batch.add_decode(1000 + i));
        };
        match part {
            "empty" => {}
            "p1" => batch.add_prefill(0, 1, 1),
            "p512" => batch.add_prefill(0, 512, 512),
            "p2048" => batch.add_prefill(0, 2048, 2048),
            "p4096@2048" => batch.add_prefill(2048, 2048, 4096),
            "d1@512" => batch.add_decode(512),
            "d32" | "d32@1000..1031" => decodes(&mut batch, 32),
            "d128@1000..1127" => decodes(&mut batch, 128),
            other => panic!("no batch {other}"),
        }
    }
    batch
}

fn placement(model: &str, gpu_name: &str, tp: u32) -> Placement {
    Placement {
        model: bundled_model(model).unwrap(),
        gpu: gpu(gpu_name).unwrap(),
        tp: NonZeroU32::new(tp).unwrap(),
    }
}

/// The table of engines-blis 13.4: qwen3-14b, microseconds.
#[test]
fn steps_take_what_the_specification_prints() {
    let columns = [
        ("roofline", "H100", 1),
        ("roofline", "H100", 2),
        ("roofline", "A100-SXM", 1),
        ("roofline", "L40S", 1),
        ("trained-physics", "H100", 1),
        ("trained-physics", "H100", 2),
    ];
    for (name, expected) in [
        ("empty", [1, 1, 1, 1, 1, 1]),
        ("p1", [5759, 2879, 9462, 22331, 12165, 6790]),
        ("p512", [22428, 11214, 84234, 86200, 14291, 7946]),
        ("p2048", [92635, 46317, 347912, 356032, 21274, 11720]),
        ("p4096@2048", [100427, 50213, 377175, 385979, 21802, 11984]),
        ("d1@512", [5784, 2892, 9503, 22428, 12210, 6812]),
        ("d32", [7354, 3677, 12082, 28514, 15396, 8479]),
        ("d128@1000..1127", [12438, 6219, 45980, 89154, 25697, 13860]),
        ("p512+d32", [24598, 12299, 95707, 108445, 17530, 9642]),
    ] {
        let steps = columns.map(|(backend, gpu, tp)| {
            Latency::from_name(backend, &placement("qwen3-14b", gpu, tp)).unwrap().step_us(&batch(name))
        });
        assert_eq!(steps, expected, "{name}");
    }
}

/// Every step time and KV capacity of the reference file, where it is at hand: exactly, or one microsecond
/// where the order of the additions decides a truncation.
#[test]
fn steps_and_capacities_equal_the_reference_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/oracle/blis_latency_kv.json");
    let Ok(json) = std::fs::read(&path) else {
        eprintln!("skipped: {} is not here", path.display());
        return;
    };
    let models: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let (mut steps, mut capacities) = (0, 0);
    for model in models.as_array().unwrap() {
        let name = model["model"].as_str().unwrap();
        for (key, blocks) in model["kv"].as_object().unwrap() {
            let (gpu, tp) = key.split_once("/tp").unwrap();
            let capacity = kv_capacity(&placement(name, gpu, tp.parse().unwrap()), KvOptions::default());
            assert_eq!(capacity.as_ref().ok().map(|c| c.blocks), blocks.as_u64(), "{name} {key}");
            if let Ok(capacity) = capacity {
                assert_eq!(model["kvBytesPerToken"][tp], capacity.bytes_per_token, "{name} {key}");
            }
            capacities += 1;
        }
        for (key, batches) in model["step_us"].as_object().unwrap() {
            let (gpu, rest) = key.split_once("/tp").unwrap();
            let (tp, backend) = rest.split_once('/').unwrap();
            let latency = Latency::from_name(backend, &placement(name, gpu, tp.parse().unwrap())).unwrap();
            for (batch_name, expected) in batches.as_object().unwrap() {
                let step = latency.step_us(&batch(batch_name));
                assert!(step.abs_diff(expected.as_u64().unwrap()) <= 1, "{name} {key} {batch_name}: {step}");
                steps += 1;
            }
        }
    }
    assert_eq!((steps, capacities), (2754, 208));
}

#[test]
fn a_fixed_step_takes_its_time_and_at_least_one_microsecond() {
    assert_eq!(Latency::Fixed(250).step_us(&batch("p1")), 250);
    let means = Latency::Means { ttft_us: 300, itl_us: 20 };
    assert_eq!(["p1", "p1+d32", "d32"].map(|text| means.step_us(&batch(text))), [300, 300, 20]);
    assert_eq!(Latency::Fixed(0).step_us(&batch("p1")), 1);
    assert_eq!(Latency::Fixed(250).step_us(&batch("empty")), 1);
}

#[test]
fn a_backend_that_cannot_describe_the_placement_is_refused() {
    let uneven = placement("qwen2.5-7b-instruct", "H100", 8);
    assert!(Latency::from_name("roofline", &uneven).is_ok());
    let error = Latency::from_name("trained-physics", &uneven).unwrap_err().to_string();
    assert!(error.contains("a divisor of its 28 heads and 4 key-value heads"), "{error}");
    let error = Latency::from_name("rooflin", &uneven).unwrap_err().to_string();
    assert!(error.ends_with(r#"did you mean "roofline"?"#), "{error}");
}
