//! Configuration spec 6.3: the table of engines, and what upstream's own tests give and expect.

use super::*;

/// Extracts a scrape of gauges from an endpoint of this engine.
fn scrape(engine: &str, lines: &[&str]) -> (Metrics, usize) {
    let mut body = String::new();
    for line in lines {
        let name = line.split([' ', '{']).next().unwrap_or_default();
        if !body.contains(&format!("# TYPE {name} ")) {
            body += &format!("# TYPE {name} gauge\n");
        }
        body += &format!("{line}\n");
    }
    let mut endpoint = super::labelled(&[("llm-d.ai/engine-type", engine)]);
    let extracted = default_extractor().extract(&text(&body), &mut endpoint, NOW);
    (endpoint.metrics, extracted.map_or_else(|error| error.problems.len(), |()| 0))
}

#[test]
fn each_engine_publishes_under_its_own_names() {
    let sizes = |m: &Metrics| {
        let load = (m.waiting_queue_size, m.running_requests_size, m.kv_cache_usage_percent);
        (load, (m.cache_block_size, m.cache_num_blocks))
    };
    for (engine, lines, load, cache) in [
        (
            "vllm",
            &[
                "vllm:num_requests_waiting 7",
                "vllm:num_requests_running 3",
                "vllm:kv_cache_usage_perc 0.55",
                "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"512\"} 1",
            ][..],
            (7, 3, 0.55),
            (16, 512),
        ),
        (
            "sglang",
            &[
                "sglang:num_queue_reqs 7",
                "sglang:num_running_reqs 3",
                "sglang:token_usage 0.55",
                "sglang:cache_config_info{page_size=\"64\",num_pages=\"11147\"} 1",
            ],
            (7, 3, 0.55),
            (64, 11_147),
        ),
        (
            "trtllm-serve",
            &[
                "trtllm_num_requests_waiting 7",
                "trtllm_num_requests_running 3",
                "trtllm_kv_cache_utilization 0.55",
                "trtllm_kv_cache_tokens_per_block 32",
                "trtllm_kv_cache_max_blocks 4096",
            ],
            (7, 3, 0.55),
            (32, 4096),
        ),
        (
            "triton-tensorrt-llm",
            &[
                "nv_trt_llm_request_metrics{model=\"m\",request_type=\"waiting\"} 7",
                "nv_trt_llm_request_metrics{model=\"m\",request_type=\"scheduled\"} 3",
                "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\"} 0.42",
                "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"tokens_per\"} 64",
                "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\"} 6239",
            ],
            (7, 3, 0.42),
            (64, 6239),
        ),
        (
            "triton",
            &["nv_inference_pending_request_count 7", "nv_inference_exec_count 3"],
            (7, 3, 0.0),
            (0, 0),
        ),
    ] {
        let (metrics, problems) = scrape(engine, lines);
        assert_eq!((sizes(&metrics), problems), ((load, cache), 0), "{engine}");
        assert_eq!(metrics.update_time, Some(NOW), "{engine}");
    }
}

#[test]
fn of_several_samples_the_latest_counts_then_the_first() {
    let waiting = |lines: &[&str]| scrape("vllm", lines).0.waiting_queue_size;
    for (lines, want) in [
        (&["vllm:num_requests_waiting 5"][..], 5),
        (&["vllm:num_requests_waiting{e=\"0\"} 5 3000", "vllm:num_requests_waiting{e=\"1\"} 6 1000"], 5),
        (&["vllm:num_requests_waiting{e=\"0\"} 5 1000", "vllm:num_requests_waiting{e=\"1\"} 6 3000"], 6),
        (&["vllm:num_requests_waiting{e=\"0\"} 5", "vllm:num_requests_waiting{e=\"1\"} 6"], 5),
        (&["vllm:num_requests_waiting{e=\"0\"} 5 -1", "vllm:num_requests_waiting{e=\"1\"} 6"], 6),
        (&["vllm:num_requests_waiting 5.9"], 5),
    ] {
        assert_eq!(waiting(lines), want, "{lines:?}");
    }
}

#[test]
fn of_several_lora_series_the_one_with_the_greatest_value_counts() {
    let newer = "vllm:lora_requests_info{running_lora_adapters=\"lora1\",max_lora=\"2\"} 3000";
    let older = "vllm:lora_requests_info{running_lora_adapters=\"lora2,lora3\",max_lora=\"4\"} 1000";
    for lines in [[newer, older], [older, newer]] {
        let metrics = scrape("vllm", &lines).0;
        assert_eq!((names(&metrics.active_models), metrics.max_active_models), (vec!["lora1"], 2));
    }
    let unreadable = "vllm:lora_requests_info{running_lora_adapters=\"lora1\",max_lora=\"two\"} 1";
    let (metrics, problems) = scrape("vllm", &[unreadable]);
    assert_eq!((names(&metrics.active_models), metrics.max_active_models), (vec!["lora1"], 0));
    assert_eq!(problems, 5, "the maximum, waiting, running, usage and cache info");
}

#[test]
fn an_engine_without_specifications_is_read_without_a_problem() {
    let parameters = serde_json::json!({ "defaultEngine": "none", "engineConfigs": [{ "name": "none" }] });
    let mut endpoint = Endpoint::default();
    assert_eq!(extractor(parameters).unwrap().extract(&text(FULL), &mut endpoint, NOW).ok(), Some(()));
    assert_eq!(endpoint.metrics, Metrics::default());
}
