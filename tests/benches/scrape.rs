//! CPU time of one scrape: the page that a real vLLM served, from its bytes to an endpoint's metrics.

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use executor::Instant;
use router::data_layer::core_metrics_extractor::CoreMetricsExtractor;
use router::data_layer::engine_gauges::EngineGauges;
use router::data_layer::families::Families;
use router::data_layer::text_format::Exposition;
use router::data_layer::{Extractor, Payload};
use router::endpoint::Endpoint;
use tests::vectors;

/// Two data-parallel ranks on one page: 61.9 kB.
const PAGE: &str = "model_server/metrics/0.21.0-dp2_end.txt";

fn scrape(c: &mut Criterion) {
    let files = vectors::open().expect("the vectors are in the project");
    let page = Bytes::from(files.get(PAGE).expect("the page is among the vectors").clone());
    let extractor = CoreMetricsExtractor::new(&Default::default()).expect("defaults are accepted");
    let mut endpoint = Endpoint::default();
    let mut group = c.benchmark_group("scrape");
    group.throughput(Throughput::Bytes(page.len() as u64));
    group.bench_function("text", |b| {
        b.iter(|| {
            let exposition = Exposition::parse(black_box(page.clone())).expect("a real page");
            let payload = Payload::Metrics(Families::Text(exposition));
            // The page has no adapters and is complete otherwise.
            extractor.extract(&payload, &mut endpoint, Instant::ZERO).expect("complete");
        });
    });
    group.finish();
    c.bench_function("scrape/gauges", |b| {
        b.iter(|| {
            let payload = Payload::Metrics(Families::Gauges(black_box(EngineGauges::default())));
            extractor.extract(&payload, &mut endpoint, Instant::ZERO).expect("complete");
        });
    });
}

criterion_group!(benches, scrape);
criterion_main!(benches);
