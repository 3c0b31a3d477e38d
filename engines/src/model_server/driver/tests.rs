use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use executor::{Instant, Real, Rt, Sim};
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::engine::latency::Latency;
use crate::engine::{EngineConfig, FinishReason, Profile, Token};
use crate::model_server::published::Published;
use crate::model_server::{Delivery, Driver, EngineHandle, Event, Generate, Sampler, Tokens};

/// Runs `test` beside an engine of 63 usable blocks whose steps take 1 ms.
fn with_engine<F: Future<Output = ()>>(test: impl FnOnce(Rt, EngineHandle) -> F) {
    let real = Real::builder().current_thread().seed(1).build().unwrap();
    real.run(|rt| async move {
        let config = EngineConfig::new(Profile::VLLM_0_21, 64, 1024);
        let (driver, handle) = Driver::new(&rt, config, Latency::Fixed(1_000)).unwrap();
        drop(rt.daemon("engine", driver.run()));
        rt.timeout(Duration::from_secs(30), test(rt.clone(), handle)).await.unwrap();
    });
}

fn prompt(tokens: u32) -> Arc<[Token]> {
    (0..tokens).collect()
}

async fn to_the_end(handle: &EngineHandle, generate: &Generate) -> Vec<Event> {
    let mut generation = handle.generate(generate);
    let mut events = Vec::new();
    while let Some(event) = generation.next().await {
        events.push(event);
    }
    events
}

fn end(events: &[Event]) -> (FinishReason, Tokens) {
    match events.last() {
        Some(Event::Finished { finish, tokens, .. }) => (finish.reason, *tokens),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_second_equal_prompt_finds_all_blocks_but_the_last() {
    with_engine(|_, handle| async move {
        let generate = Generate::exactly(prompt(64), 5, Sampler::Constant(7));
        let first = to_the_end(&handle, &generate).await;
        assert_eq!(first[0], Event::Token { token: 7, cached: 0 });
        assert_eq!(first.len(), 2, "first and last only");
        assert_eq!(end(&first), (FinishReason::Length, Tokens { prompt: 64, cached: 0, output: 5 }));
        // Model-server spec 5.5: a prompt of exactly n blocks hits n - 1 of them.
        let second = to_the_end(&handle, &generate).await;
        assert_eq!(end(&second), (FinishReason::Length, Tokens { prompt: 64, cached: 48, output: 5 }));
        let salted = Generate { cache_salt: "tenant".into(), ..generate };
        assert_eq!(end(&to_the_end(&handle, &salted).await).1.cached, 0);
    });
}

#[test]
fn a_conversation_finds_the_blocks_that_were_generated() {
    with_engine(|_, handle| async move {
        let generate = Generate::exactly(prompt(40), 30, Sampler::Seeded { seed: 3, vocabulary: 1000 });
        let generate = Generate { delivery: Delivery::EveryToken, ..generate };
        let answer = to_the_end(&handle, &generate).await;
        let mut history: Vec<Token> = prompt(40).to_vec();
        history.extend(answer.iter().filter_map(|event| match event {
            Event::Token { token, .. } | Event::Finished { token, .. } => Some(*token),
            Event::Aborted(_) | Event::Refused(_) => None,
        }));
        assert_eq!(history.len(), 70);
        history.extend([1, 2, 3]);
        let next = Generate { prompt: history.into(), ..generate };
        // 70 tokens known, the last of them not computed: four full blocks.
        assert_eq!(end(&to_the_end(&handle, &next).await).1.cached, 64);
    });
}

#[test]
fn a_stop_token_ends_a_request() {
    with_engine(|_, handle| async move {
        let generate = Generate::exactly(prompt(10), 100, Sampler::Constant(7));
        let generate = Generate { stop_tokens: vec![7], min_tokens: 3, ..generate };
        let (reason, tokens) = end(&to_the_end(&handle, &generate).await);
        assert_eq!(reason, FinishReason::Stop);
        assert!(tokens.output >= 3, "{tokens:?}");
    });
}

#[test]
fn a_dropped_stream_aborts_its_request() {
    with_engine(|rt, handle| async move {
        let mut generation = handle.generate(&Generate::exactly(prompt(10), 900, Sampler::Constant(7)));
        assert_eq!(generation.next().await, Some(Event::Token { token: 7, cached: 0 }));
        assert_eq!(handle.published().lock().gauges.running, 1);
        drop(generation);
        while handle.published().lock().gauges.running > 0 {
            rt.sleep(Duration::from_millis(1)).await;
        }
        let published = handle.published().lock().clone();
        assert_eq!((published.aborted, published.gauges.free_blocks), (1, 63));
    });
}

#[test]
fn a_request_that_cannot_fit_is_refused() {
    with_engine(|_, handle| async move {
        let events = to_the_end(&handle, &Generate::exactly(prompt(2000), 5, Sampler::Constant(7))).await;
        assert!(matches!(events[..], [Event::Refused(_)]), "{events:?}");
    });
}

/// Model-server spec 2.2: while a preempted request waits, the counter still shows the old value.
#[test]
fn a_preemption_counts_with_the_next_output_of_its_request() {
    let real = Real::builder().current_thread().seed(1).build().unwrap();
    real.run(|rt| async move {
        let config =
            EngineConfig { async_scheduling: false, ..EngineConfig::new(Profile::VLLM_0_21, 64, 1000) };
        let (driver, handle) = Driver::new(&rt, config, Latency::Fixed(200)).unwrap();
        drop(rt.daemon("engine", driver.run()));
        // 25 blocks each at first and 38 at last, of 63.
        let ask = |seed| Generate::exactly(prompt(400), 200, Sampler::Seeded { seed, vocabulary: 1000 });
        let streams = [1, 2].map(|seed| Generate { cache_salt: seed.to_string(), ..ask(seed) });
        let [first, second] = &streams;
        let mut waited = 0;
        let watching = async {
            loop {
                let published = handle.published().lock().clone();
                // Both were admitted long ago.
                if published.generation_tokens > 100 && published.waiting() > 0 {
                    assert_eq!(published.preemptions, 0);
                    waited += 1;
                }
                if published.length_limited == 2 {
                    break;
                }
                rt.sleep(Duration::from_micros(100)).await;
            }
        };
        let both = futures::future::join(to_the_end(&handle, first), to_the_end(&handle, second));
        futures::future::join(both, watching).await;
        assert!(waited > 0, "one was preempted");
        assert_eq!(handle.published().lock().preemptions, 1);
    });
}

/// Published values at odd moments, and every event with its time.
fn observed(seed: u64, asynchronous: bool, fuses: bool) -> (Vec<Published>, Vec<(u64, Instant, Event)>) {
    let run = Sim::builder().seed(seed).build().run(move |rt| async move {
        let config = EngineConfig {
            async_scheduling: asynchronous,
            ..EngineConfig::new(Profile::VLLM_0_21, 200, 1024)
        };
        let (mut driver, handle) = Driver::new(&rt, config, Latency::Fixed(700)).unwrap();
        driver.set_fusion(fuses);
        drop(rt.daemon("engine", driver.run()));
        let mut draws = rt.stream("requests");
        let events = RefCell::new(Vec::new());
        let requests = FuturesUnordered::new();
        for number in 0..40u64 {
            let start = Duration::from_micros(draws.below(400_000));
            let (tokens, output) = (1 + draws.below(300) as u32, 1 + draws.below(200) as u32);
            // Some leave at their first token, some look at each.
            let (leaves, looks) = (draws.below(5) == 0, draws.below(8) == 0);
            let (rt, handle, events) = (rt.clone(), handle.clone(), &events);
            requests.push(async move {
                rt.sleep(start).await;
                let sampler = Sampler::Seeded { seed: number % 3, vocabulary: 1000 };
                let delivery = if looks { Delivery::EveryToken } else { Delivery::FirstAndLast };
                let generate = Generate { delivery, ..Generate::exactly(prompt(tokens), output, sampler) };
                let mut generation = handle.generate(&generate);
                while let Some(event) = generation.next().await {
                    events.borrow_mut().push((number, rt.now(), event));
                    if leaves {
                        rt.sleep(Duration::from_micros(1_000 * number)).await;
                        break;
                    }
                }
            });
        }
        let reads = async {
            let mut reads = Vec::new();
            for _ in 0..700 {
                rt.sleep(Duration::from_micros(1_313)).await;
                reads.push(handle.published().lock().clone());
            }
            reads
        };
        let (reads, ()) = futures::future::join(reads, requests.collect()).await;
        (reads, events.take())
    });
    run.unwrap()
}

#[test]
fn fused_steps_show_what_single_ones_show() {
    for (seed, asynchronous) in (0..20).flat_map(|seed| [(seed, false), (seed, true)]) {
        let [single, fused] = [false, true].map(|fuses| observed(seed, asynchronous, fuses));
        assert!(single.0.last().is_some_and(|published| published.aborted > 0));
        assert_eq!(single, fused, "seed {seed}, asynchronous: {asynchronous}");
    }
}
