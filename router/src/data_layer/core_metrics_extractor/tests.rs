mod facts;

use std::sync::Arc;

use super::*;
use crate::data_key::DataKey;
use crate::data_layer::engine_gauges::{CacheConfig, EngineGauges, LoraInfo};
use crate::data_layer::text_format::Exposition;

fn extractor(parameters: serde_json::Value) -> Result<CoreMetricsExtractor, String> {
    CoreMetricsExtractor::new(&serde_json::from_value(parameters).expect("parameters of the type"))
}

fn default_extractor() -> CoreMetricsExtractor {
    CoreMetricsExtractor::new(&CoreMetricsParameters::default()).expect("defaults are accepted")
}

fn text(body: &str) -> Payload {
    Payload::Metrics(Families::Text(Exposition::parse(body.to_owned().into()).expect("an exposition")))
}

fn labelled(labels: &[(&str, &str)]) -> Endpoint {
    let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let metadata = EndpointMetadata { labels, ..EndpointMetadata::default() };
    Endpoint { metadata: Rc::new(metadata), ..Endpoint::default() }
}

fn names(models: &BTreeMap<String, i64>) -> Vec<&str> {
    models.keys().map(String::as_str).collect()
}

const NOW: Instant = Instant::from_nanos(7);

const FULL: &str = "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 7\n\
    # TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3\n\
    # TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.55\n\
    # TYPE vllm:lora_requests_info gauge\nvllm:lora_requests_info{running_lora_adapters=\"adapter-a,adapter-b\",\
    waiting_lora_adapters=\" adapter-c ,,\",max_lora=\"4\"} 1700000000.5\n\
    # TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"512\"} 1\n";

#[test]
fn a_full_scrape_sets_everything() {
    let mut endpoint = Endpoint::default();
    default_extractor().extract(&text(FULL), &mut endpoint, NOW).unwrap();
    let metrics = endpoint.metrics;
    assert_eq!((metrics.waiting_queue_size, metrics.running_requests_size), (7, 3));
    assert_eq!(metrics.kv_cache_usage_percent, 0.55);
    assert_eq!(names(&metrics.active_models), ["adapter-a", "adapter-b"]);
    assert_eq!(names(&metrics.waiting_models), ["adapter-c"]);
    assert_eq!(metrics.max_active_models, 4);
    assert_eq!((metrics.cache_block_size, metrics.cache_num_blocks), (16, 512));
    assert_eq!(metrics.update_time, Some(NOW));
}

#[test]
fn what_is_missing_keeps_its_value_and_what_is_there_counts_as_an_update() {
    let extractor = default_extractor();
    let mut endpoint = Endpoint::default();
    extractor.extract(&text(FULL), &mut endpoint, Instant::ZERO).unwrap();
    let before = endpoint.metrics.clone();
    let part = text("# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 9\n");
    let error = extractor.extract(&part, &mut endpoint, NOW).unwrap_err();
    assert_eq!(error.problems.len(), 3, "running, usage and cache info, but not adapters: {error}");
    assert_eq!(endpoint.metrics, Metrics { waiting_queue_size: 9, update_time: Some(NOW), ..before });
}

#[test]
fn nothing_read_is_no_update() {
    let mut endpoint = Endpoint::default();
    let error = default_extractor().extract(&text(""), &mut endpoint, NOW).unwrap_err();
    assert_eq!(error.problems.len(), 4);
    assert_eq!(endpoint.metrics, Metrics::default());
}

#[test]
fn the_label_names_the_engine() {
    let body = text(
        "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 1\n\
        # TYPE sglang:num_queue_reqs gauge\nsglang:num_queue_reqs 2\n\
        # TYPE nv_inference_pending_request_count gauge\nnv_inference_pending_request_count 3\n",
    );
    for (labels, waiting) in [
        (&[][..], 1),
        (&[("llm-d.ai/engine-type", "sglang")], 2),
        (&[("inference.networking.k8s.io/engine-type", "triton")], 3),
        (&[("inference.networking.k8s.io/engine-type", "triton"), ("llm-d.ai/engine-type", "sglang")], 2),
        (&[("inference.networking.k8s.io/engine-type", "triton"), ("llm-d.ai/engine-type", "")], 3),
        (&[("llm-d.ai/engine-type", "unknown-engine")], 1),
        (&[("llm-d.ai/engine-type", "default")], 1),
    ] {
        let mut endpoint = labelled(labels);
        let _ = default_extractor().extract(&body, &mut endpoint, NOW);
        assert_eq!(endpoint.metrics.waiting_queue_size, waiting, "{labels:?}");
    }
}

#[test]
fn a_configured_engine_stands_in_the_place_of_a_built_in_one() {
    let extractor = extractor(serde_json::json!({
        "engineConfigs": [{"name": "vllm", "queuedRequestsSpec": "q{a=1}",
            "customMetrics": [{"attributeKey": "with/slash", "metricSpec": "q"}]}]
    }))
    .unwrap();
    let mut endpoint = Endpoint::default();
    extractor.extract(&text("# TYPE q counter\nq 21.9\nq{a=\"1\"} 22.9\n"), &mut endpoint, NOW).unwrap();
    assert_eq!(endpoint.metrics.waiting_queue_size, 22);
    let custom = endpoint.attributes.get(&DataKey::plain("with/slash"));
    assert_eq!(custom, Some(&ScalarMetricValue(21.9)));
}

#[test]
fn parameters_that_make_no_sense_are_refused() {
    for (parameters, problem) in [
        (serde_json::json!({"engineConfigs": [{}]}), "engine config name cannot be empty"),
        (
            serde_json::json!({"engineConfigs": [{"name": "default"}]}),
            "engine config name cannot be \"default\" (reserved)",
        ),
        (
            serde_json::json!({"engineConfigs": [{"name": "a"}, {"name": "a"}]}),
            "mapping for engine type \"a\" already exists",
        ),
        (
            serde_json::json!({"defaultEngine": "b"}),
            "defaultEngine \"b\" not found in engineConfigs; known: vllm, sglang, trtllm-serve, triton-tensorrt-llm, triton",
        ),
        (
            serde_json::json!({"engineConfigs": [{"name": "a", "customMetrics": [{"metricSpec": "m"}]}]}),
            "engine config \"a\": custom metric attributeKey cannot be empty",
        ),
        (
            serde_json::json!({"engineConfigs": [{"name": "a", "customMetrics": [{"attributeKey": "k"}]}]}),
            "engine config \"a\": custom metric \"k\" spec cannot be empty",
        ),
    ] {
        assert_eq!(extractor(parameters).unwrap_err(), problem);
    }
}

/// The text that a server with these gauges would show.
fn as_text(gauges: &EngineGauges) -> String {
    let EngineGauges { model_name, engine, waiting, running, kv_cache_usage, cache_config, lora } = gauges;
    let labels = format!("model_name=\"{model_name}\",engine=\"{engine}\"");
    let mut text = format!(
        "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{{{labels}}} {waiting}\n\
         # TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{{{labels}}} {running}\n\
         # TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{{{labels}}} {kv_cache_usage}\n\
         # TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{block_size=\"{}\",engine=\"{engine}\",\
         num_gpu_blocks=\"{}\"}} 1\n",
        cache_config.block_size, cache_config.num_gpu_blocks
    );
    if let Some(LoraInfo { running, waiting, max_lora, since }) = lora {
        text.push_str(&format!(
            "# TYPE vllm:lora_requests_info gauge\nvllm:lora_requests_info{{engine=\"{engine}\",max_lora=\"{max_lora}\",\
             running_lora_adapters=\"{running}\",waiting_lora_adapters=\"{waiting}\"}} {since}\n"
        ));
    }
    text
}

mod typed_gauges {
    use proptest::prelude::*;

    use super::*;

    fn gauges() -> impl Strategy<Value = EngineGauges> {
        let adapters = || "[a-c]{0,2}(, ?[a-c]){0,2}".prop_map(Arc::<str>::from);
        let lora = (adapters(), adapters(), 0..9_u32, 0.0..2e9)
            .prop_map(|(running, waiting, max_lora, since)| LoraInfo { running, waiting, max_lora, since });
        let cache = (1..256_u32, 0..100_000_u64)
            .prop_map(|(block_size, num_gpu_blocks)| CacheConfig { block_size, num_gpu_blocks });
        (0..3_u32, 0..2000_u64, 0..2000_u64, 0.0..=1.0, cache, proptest::option::of(lora)).prop_map(
            |(engine, waiting, running, kv_cache_usage, cache_config, lora)| EngineGauges {
                model_name: "m0".into(),
                engine,
                waiting,
                running,
                kv_cache_usage,
                cache_config,
                lora,
            },
        )
    }

    proptest! {
        #[test]
        fn text_and_gauges_agree(gauges in gauges()) {
            let of_one_rank = extractor(serde_json::json!({"engineConfigs": [{"name": "vllm",
                "queuedRequestsSpec": "vllm:num_requests_waiting{engine=1,model_name=m0}",
                "loraSpec": "vllm:lora_requests_info{max_lora=3}",
                "cacheInfoSpec": "vllm:cache_config_info{engine=0}",
                "customMetrics": [{"attributeKey": "k", "metricSpec": "vllm:kv_cache_usage_perc"}]}]}));
            for extractor in [default_extractor(), of_one_rank.unwrap()] {
                let (mut from_text, mut from_gauges) = (Endpoint::default(), Endpoint::default());
                let text = text(&as_text(&gauges));
                let typed = Payload::Metrics(Families::Gauges(gauges.clone()));
                prop_assert_eq!(
                    extractor.extract(&text, &mut from_text, NOW),
                    extractor.extract(&typed, &mut from_gauges, NOW)
                );
                prop_assert_eq!(from_text.metrics, from_gauges.metrics);
                let key = DataKey::plain("k");
                prop_assert_eq!(
                    from_text.attributes.get::<ScalarMetricValue>(&key),
                    from_gauges.attributes.get::<ScalarMetricValue>(&key)
                );
            }
        }
    }
}
