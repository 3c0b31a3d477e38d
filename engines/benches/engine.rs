//! The cost of the engine core: decode steps, and steps in which a long prompt waits for KV blocks.

use criterion::{BatchSize, Bencher, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use engines::engine::{BlockHash, Engine, EngineConfig, Model, NewRequest, Next, Profile, RequestId, Token};

const BLOCK: u32 = 16;
const MODEL_LEN: u32 = 1 << 17;
/// Steps of one run; throughput is counted in them.
const STEPS: u64 = 2_000;

struct Filler;

impl Model for Filler {
    fn sample(&mut self, _: RequestId, position: u32) -> Token {
        position
    }

    fn hash_block(&mut self, request: RequestId, block: u32, _: Option<BlockHash>) -> BlockHash {
        BlockHash(1 << 63 | request.0 << 32 | u64::from(block))
    }
}

fn request(id: u64, prompt: u32) -> NewRequest {
    let hash = |block: u64| BlockHash((id << 32 | block).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    NewRequest {
        block_hashes: (0..u64::from(prompt / BLOCK)).map(hash).collect(),
        ..NewRequest::new(RequestId(id), prompt, MODEL_LEN)
    }
}

/// An engine that decodes `running` requests of 100 prompt tokens.
fn decoding(running: u32, num_gpu_blocks: u32) -> Engine {
    let config = EngineConfig {
        max_num_seqs: 1024,
        max_num_batched_tokens: 8192,
        enable_kv_cache_events: true,
        ..EngineConfig::new(Profile::VLLM_0_21, num_gpu_blocks, MODEL_LEN)
    };
    let mut engine = Engine::new(config).expect("the options are good");
    for id in 0..u64::from(running) {
        engine.add(request(id, 100)).expect("the request is good");
    }
    for _ in 0..16 {
        step(&mut engine);
    }
    engine
}

fn step(engine: &mut Engine) -> usize {
    loop {
        if engine.turn().next == Next::Complete {
            return engine.complete(&mut Filler).outputs.len();
        }
    }
}

/// Times runs of [`STEPS`] steps, each on an engine that `prepare` makes.
fn time(bencher: &mut Bencher<'_>, prepare: impl FnMut() -> Engine) {
    let run = |engine: &mut Engine| (0..STEPS).map(|_| step(engine)).sum::<usize>();
    bencher.iter_batched_ref(prepare, run, BatchSize::PerIteration);
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("decode");
    group.throughput(Throughput::Elements(STEPS));
    for running in [1, 20, 256] {
        group.bench_function(BenchmarkId::new("running", running), |bencher| {
            time(bencher, || decoding(running, 40_000));
        });
    }
    group.bench_function("running 21, head refused", |bencher| time(bencher, refused_head));
    group.finish();
}

/// The head of the queue finds 1,000 blocks of its prompt in the cache and has no room for the rest.
fn refused_head() -> Engine {
    let mut engine = decoding(20, 6_000);
    engine.add(request(100, 16_000)).expect("the request is good");
    for _ in 0..4 {
        step(&mut engine);
    }
    let mut long = request(101, MODEL_LEN - 1);
    long.block_hashes[..1_000].copy_from_slice(&request(100, 16_000).block_hashes);
    engine.add(long).expect("the request is good");
    step(&mut engine);
    assert_eq!(engine.gauges().waiting, 1);
    engine
}

criterion_group!(benches, decode);
criterion_main!(benches);
