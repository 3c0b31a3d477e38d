//! The simulated server's page of metrics has the series of a real vLLM's, in its order.

use engines::engine::latency::Latency;
use engines::engine::{EngineConfig, Profile};
use engines::model_server::{Driver, ModelServer, ServerOptions};
use executor::Real;
use executor::http::Body;
use tests::vectors;

/// A page as recorded from a server that has served nothing.
const RECORDED: &str = "model_server/metrics/0.21.0-idle_fresh.txt";

/// The types and series of vLLM's families, each line without its value unless that is 0 or 1; explanations are left
/// out, and the options of the cache, of which a simulated engine has fewer.
fn series(page: &str) -> Vec<&str> {
    let ours = page.lines().filter(|line| line.starts_with("vllm:") || line.starts_with("# TYPE vllm:"));
    ours.filter(|line| !line.starts_with("vllm:cache_config_info"))
        .map(|line| match line.rsplit_once(' ') {
            Some((series, value)) if line.starts_with("vllm:") && !["0.0", "1.0"].contains(&value) => series,
            _ => line,
        })
        .collect()
}

#[test]
fn an_idle_server_shows_the_series_of_a_real_one() {
    let files = vectors::open().expect("the vectors travel with the project");
    let recorded = std::str::from_utf8(&files[RECORDED]).unwrap();
    let real = Real::builder().current_thread().seed(1).build().unwrap();
    let page = real.run(|rt| async move {
        let config = EngineConfig { block_size: 32, ..EngineConfig::new(Profile::VLLM_0_21, 512, 4096) };
        let (driver, handle) = Driver::new(&rt, config, Latency::Fixed(0)).unwrap();
        drop(rt.daemon("engine", driver.run()));
        let server = ModelServer::new(&rt, "0", vec![handle], ServerOptions::new("tiny", 4096));
        let request = http::Request::get("/metrics").body(Body::Empty).unwrap();
        server.handle(request).await.into_body().bytes(1 << 20).await.unwrap()
    });
    let page = std::str::from_utf8(&page).unwrap();
    let (want, got) = (series(recorded), series(page));
    assert!(want.len() > 300, "the recorded page has {} lines", want.len());
    for (want, got) in want.iter().zip(&got) {
        assert_eq!(want, got);
    }
    assert_eq!(want.len(), got.len());
    let cache = page.lines().find(|line| line.starts_with("vllm:cache_config_info")).unwrap();
    assert!(cache.contains("block_size=\"32\"") && cache.contains("num_gpu_blocks=\"512\""), "{cache}");
}
