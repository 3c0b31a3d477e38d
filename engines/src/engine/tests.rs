//! Facts of model-server spec 5, and what holds in every run.

use proptest::prelude::*;

use super::testing::{Bench, Seen};
use super::*;

fn synchronous() -> EngineConfig {
    EngineConfig { async_scheduling: false, ..EngineConfig::new(Profile::VLLM_0_21, 1_000, 4_096) }
}

fn asynchronous() -> EngineConfig {
    EngineConfig { async_scheduling: true, ..synchronous() }
}

#[test]
fn a_threshold_caps_each_request_and_the_budget_all_of_them() {
    let mut bench = Bench::new(EngineConfig {
        max_num_batched_tokens: 1024,
        long_prefill_token_threshold: 400,
        ..synchronous()
    });
    for id in 0..3 {
        bench.add(id, id, 800, 9);
    }
    assert_eq!(bench.rows(), [(0, 400, 0), (1, 400, 0), (2, 224, 0)]);
    assert_eq!(bench.rows(), [(0, 400, 400), (1, 400, 400), (2, 224, 224)]);
    assert_eq!(bench.rows(), [(0, 1, 800), (1, 1, 800), (2, 352, 448)]);
}

#[test]
fn without_chunks_a_prompt_that_does_not_fit_holds_back_all_behind_it() {
    for (chunked, rows) in [(true, vec![(0, 800, 0), (1, 224, 0)]), (false, vec![(0, 800, 0)])] {
        let mut bench = Bench::new(EngineConfig {
            max_num_batched_tokens: 1024,
            max_num_seqs: 3,
            max_model_len: 1024,
            enable_chunked_prefill: chunked,
            ..synchronous()
        });
        for (id, prompt) in [(0, 800), (1, 800), (2, 10), (3, 10)] {
            bench.add(id, id, prompt, 9);
        }
        assert_eq!(bench.rows(), rows, "chunked {chunked}");
    }
}

#[test]
fn an_identical_prompt_of_the_same_step_is_hit_and_a_last_token_recomputed() {
    let mut bench = Bench::new(asynchronous());
    bench.add(1, 7, 100, 2);
    bench.add(2, 7, 100, 2);
    assert_eq!(bench.rows(), [(1, 100, 0), (2, 4, 96)]);
    // Four whole blocks hit three.
    let mut bench = Bench::new(synchronous());
    bench.add(1, 7, 64, 1);
    bench.turn();
    bench.add(2, 7, 64, 1);
    assert_eq!(bench.rows(), [(2, 16, 48)]);
}

#[test]
fn blocks_are_shared_and_freed_as_upstream_tests_say() {
    let mut bench = Bench::new(EngineConfig { num_gpu_blocks: 11, ..asynchronous() });
    bench.add(0, 7, 55, 9);
    bench.engine.turn();
    assert_eq!(bench.blocks(0), [1, 2, 3, 4]);
    bench.add(1, 7, 53, 9);
    bench.engine.turn();
    assert_eq!(bench.blocks(1), [1, 2, 3, 5]);
    assert_eq!(bench.engine.gauges().free_blocks, 5);
    assert_eq!(bench.engine.gauges().usage, 0.5);
    bench.engine.abort(RequestId(0));
    bench.engine.abort(RequestId(1));
    assert_eq!(bench.engine.free_queue().collect::<Vec<_>>(), [6, 7, 8, 9, 10, 4, 5, 3, 2, 1]);
}

#[test]
fn the_first_decode_preempts_the_last_request_whose_late_token_is_kept() {
    let mut bench =
        Bench::new(EngineConfig { num_gpu_blocks: 11, enable_prefix_caching: false, ..asynchronous() });
    bench.add(1, 1, 80, 5);
    bench.add(2, 2, 80, 5);
    assert_eq!(bench.turn().rows, [(1, 80, 0), (2, 80, 0)]);
    let second = bench.turn();
    assert_eq!((second.rows, second.preempted), (vec![(1, 1, 80)], vec![2]));
    assert_eq!(second.outputs, [(1, 100), (2, 100)]);
    assert_eq!(bench.engine.waiting().collect::<Vec<_>>(), [RequestId(2)]);
    let mut outputs = Vec::new();
    while bench.engine.has_work() {
        outputs.extend(bench.turn().outputs);
    }
    let of_second: Vec<Token> = outputs.iter().filter(|(id, _)| *id == 2).map(|(_, token)| *token).collect();
    assert_eq!(of_second, [101, 102, 103, 104]);
}

#[test]
fn a_length_is_foreseen_and_an_eos_is_not() {
    for (eos_at, scheduled) in [(None, 39 + 5), (Some(1), 39 + 3)] {
        let mut bench = Bench::new(asynchronous());
        bench.add(1, 1, 40, 5);
        bench.model.eos.extend(eos_at.map(|position| (1, position)));
        let mut tokens = 0;
        while bench.engine.has_work() {
            tokens += bench.rows().iter().map(|row| row.1).sum::<u32>();
        }
        // P + m - 1 for a length; one decode more than needed for EOS at the second token.
        assert_eq!(tokens, scheduled, "EOS at {eos_at:?}");
    }
}

#[test]
fn a_request_that_arrives_while_a_batch_runs_is_first_in_the_batch_after_the_next() {
    let mut bench = Bench::new(asynchronous());
    bench.add(1, 1, 10, 9);
    assert_eq!(bench.engine.turn().next, Next::Turn);
    assert_eq!(bench.engine.turn().next, Next::Complete);
    // Batch 1 runs, batch 2 is queued.
    bench.add(2, 2, 10, 9);
    assert_eq!(bench.engine.complete(&mut bench.model).batch, 1);
    assert_eq!(bench.rows(), [(1, 1, 11), (2, 10, 0)]);
    assert_eq!(bench.engine.next_to_complete().map(Batch::number), Some(3));
}

#[test]
fn stops_are_looked_for_in_order() {
    let stop = |token| Finish { reason: FinishReason::Stop, stop_token: token };
    let length = Finish { reason: FinishReason::Length, stop_token: None };
    let request = || NewRequest { eos: Some(101), ..NewRequest::new(RequestId(1), 10, 4) };
    let cases = [
        (request(), 2, stop(None)),
        (NewRequest { eos: None, ..request() }, 4, length),
        (NewRequest { stop_tokens: vec![7, 100], ..request() }, 1, stop(Some(100))),
        (NewRequest { min_tokens: 3, stop_tokens: vec![102], ..request() }, 3, stop(Some(102))),
    ];
    for (request, outputs, finish) in cases {
        let mut bench = Bench::new(synchronous());
        bench.add_request(1, request.clone());
        let seen: Vec<Seen> = (0..outputs).map(|_| bench.turn()).collect();
        assert_eq!(seen.last().map(|seen| seen.finished.clone()), Some(vec![(1, finish)]), "{request:?}");
        assert_eq!(bench.engine.gauges().free_blocks, 999);
    }
}

#[test]
fn a_request_waits_for_an_adapter_slot_and_others_pass_it() {
    let mut bench = Bench::new(EngineConfig { max_loras: Some(1), ..synchronous() });
    for (id, adapter) in [(1, Some(1)), (2, Some(2)), (3, None), (4, Some(1))] {
        let adapter = adapter.map(AdapterId);
        bench.add_request(id, NewRequest { adapter, ..NewRequest::new(RequestId(id), 10, 2) });
    }
    assert_eq!(bench.rows(), [(1, 10, 0), (3, 10, 0), (4, 10, 0)]);
    let gauges = bench.engine.gauges();
    assert_eq!((gauges.running, gauges.waiting, gauges.skipped), (3, 0, 1));
    assert_eq!(bench.engine.skipped().collect::<Vec<_>>(), [RequestId(2)]);
}

#[test]
fn what_the_front_end_refuses_is_refused() {
    let mut bench = Bench::new(synchronous());
    bench.add(1, 1, 10, 1);
    let new = |id, prompt, max| NewRequest::new(RequestId(id), prompt, max);
    let cases = [
        (new(1, 10, 1), "a request with id 1 is in the engine already"),
        (new(2, 0, 1), "the prompt is empty"),
        (new(2, 4_096, 1), "the prompt has 4096 tokens; max_model_len 4096 allows at most 4095"),
        (new(2, 10, 0), "max_tokens is 0; at least 1 is needed"),
        (NewRequest { min_tokens: 2, ..new(2, 10, 1) }, "min_tokens is 2; max_tokens 1 is the most"),
        (new(2, 32, 1), "0 block hashes for a prompt of 2 full blocks"),
    ];
    for (request, message) in cases {
        assert_eq!(bench.engine.add(request).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_paused_engine_comes_to_rest_and_keeps_or_drops_its_requests() {
    for (mode, running, waiting) in
        [(PauseMode::Keep, 1, 1), (PauseMode::Abort, 0, 0), (PauseMode::Wait, 0, 1)]
    {
        let mut bench = Bench::new(EngineConfig { max_num_seqs: 1, ..asynchronous() });
        bench.add(1, 1, 40, 6);
        bench.add(2, 2, 40, 6);
        bench.turn();
        let paused = bench.engine.pause(mode, false);
        assert!(!paused.done, "a batch is in flight");
        assert_eq!(paused.aborted.len(), if mode == PauseMode::Abort { 2 } else { 0 });
        while bench.engine.has_work() {
            assert_eq!(bench.engine.settle(), None);
            bench.turn();
        }
        assert_eq!(bench.engine.settle(), Some(Vec::new()));
        assert_eq!(bench.engine.settle(), None);
        let gauges = bench.engine.gauges();
        assert_eq!((gauges.running, gauges.waiting), (running, waiting), "{mode:?}");
        bench.engine.resume();
        assert_eq!(bench.engine.has_work(), running + waiting > 0);
    }
}

#[test]
fn the_shape_of_a_step_tells_prefills_from_decodes() {
    let mut bench = Bench::new(synchronous());
    bench.add(1, 1, 40, 9);
    bench.turn();
    bench.add(2, 2, 30, 9);
    bench.engine.turn();
    let mut work = latency::StepBatch::default();
    work.add_decode(40);
    work.add_prefill(0, 30, 30);
    assert_eq!(bench.engine.newest().map(Batch::work), Some(&work));
}

#[derive(Clone, Debug)]
enum Op {
    Add { family: u64, prompt: u32, max_tokens: u32, priority: i64, adapter: Option<u32>, eos: u32 },
    Abort(u64),
    Turn,
    Reset(bool),
    Admit(Admission),
}

fn op() -> impl Strategy<Value = Op> {
    let add = (0u64..4, 1u32..70, 1u32..30, 0i64..3, prop::option::of(1u32..4), 0u32..40);
    prop_oneof![
        4 => add.prop_map(|(family, prompt, max_tokens, priority, adapter, eos)| {
            Op::Add { family, prompt, max_tokens, priority, adapter, eos }
        }),
        1 => (0u64..60).prop_map(Op::Abort),
        12 => Just(Op::Turn),
        1 => any::<bool>().prop_map(Op::Reset),
        1 => prop_oneof![Just(Admission::All), Just(Admission::RunningOnly), Just(Admission::Nothing)]
            .prop_map(Op::Admit),
    ]
}

fn any_config() -> impl Strategy<Value = EngineConfig> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (0usize..6, 1u32..6, 8u32..60, 12u32..40, 0u32..20, flags, 0.0f64..0.2).prop_map(
        |(profile, seqs, budget, blocks, threshold, (is_async, caching, reserve, priority), watermark)| {
            EngineConfig {
                max_num_seqs: seqs,
                max_num_batched_tokens: budget,
                block_size: 8,
                enable_prefix_caching: caching,
                long_prefill_token_threshold: threshold,
                policy: if priority { SchedulingPolicy::Priority } else { SchedulingPolicy::Fcfs },
                async_scheduling: is_async,
                scheduler_reserve_full_isl: reserve,
                max_loras: Some(1),
                watermark,
                enable_kv_cache_events: true,
                // The longest request, 100 tokens, fits into 13 blocks besides the null block and the watermark.
                ..EngineConfig::new(Profile::ALL[profile], blocks + 10, 100)
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No step exceeds the budget or the cap of running requests, no block is lost, and in the end every request
    /// has ended with no more tokens than it asked for.
    #[test]
    fn invariants_hold_and_every_request_ends(config in any_config(), ops in prop::collection::vec(op(), 0..150)) {
        let mut bench = Bench::new(config.clone());
        let mut left = std::collections::BTreeMap::new();
        let mut added = 0;
        let check = |bench: &Bench, seen: &Seen| {
            let gauges = bench.engine.gauges();
            prop_assert!(gauges.running <= config.max_num_seqs as usize);
            prop_assert!(seen.rows.iter().map(|row| row.1).sum::<u32>() <= config.max_num_batched_tokens);
            prop_assert!(seen.rows.iter().all(|row| row.1 > 0));
            prop_assert_eq!(bench.engine.free_queue().count(), gauges.free_blocks as usize);
            prop_assert_eq!(gauges.waiting + gauges.skipped,
                bench.engine.waiting().count() + bench.engine.skipped().count());
            Ok(())
        };
        let account = |left: &mut std::collections::BTreeMap<u64, u32>, seen: &Seen| {
            for (id, _) in &seen.outputs {
                let tokens = left.get_mut(id).expect("only unfinished requests have output");
                *tokens = tokens.checked_sub(1).expect("no request has more tokens than it asked for");
            }
            for (id, _) in &seen.finished {
                left.remove(id);
            }
        };
        for op in ops {
            match op {
                Op::Add { family, prompt, max_tokens, priority, adapter, eos } => {
                    added += 1;
                    bench.model.eos.push((added, eos));
                    left.insert(added, max_tokens);
                    let request = NewRequest::new(RequestId(added), prompt, max_tokens);
                    let adapter = adapter.map(AdapterId);
                    bench.add_request(family, NewRequest { priority, adapter, eos: Some(2), ..request });
                }
                Op::Abort(id) => {
                    prop_assert_eq!(bench.engine.abort(RequestId(id)), left.remove(&id).is_some());
                }
                Op::Turn => {
                    let seen = bench.turn();
                    check(&bench, &seen)?;
                    account(&mut left, &seen);
                }
                // A reset that preempts loses an output in 0.21 when asynchronous, and the request may never end.
                Op::Reset(running) => {
                    bench.engine.reset_prefix_cache(running && !config.async_scheduling);
                }
                Op::Admit(admission) => bench.engine.set_admission(admission),
            }
        }
        bench.engine.set_admission(Admission::All);
        for _ in 0..20_000 {
            if !bench.engine.has_work() {
                break;
            }
            let seen = bench.turn();
            check(&bench, &seen)?;
            account(&mut left, &seen);
        }
        prop_assert!(!bench.engine.has_work(), "requests are stuck: {left:?}");
        prop_assert!(left.is_empty());
        prop_assert_eq!(bench.engine.gauges().free_blocks, config.num_gpu_blocks - 1);
    }
}
