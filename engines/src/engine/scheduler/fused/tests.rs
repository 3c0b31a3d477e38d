//! Fused and single steps, side by side.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::engine::block_pool::BlockId;
use crate::engine::latency::StepBatch;
use crate::engine::metrics::{Gauges, Stats};
use crate::engine::request::{BlockHash, Finish, NewRequest, RequestId, Token};
use crate::engine::{Engine, EngineConfig, Model, Next, PauseMode, Profile, SchedulingPolicy};

/// Keeps every token, and hashes blocks by what it kept.
#[derive(Default)]
struct Keeper {
    tokens: BTreeMap<u64, Vec<(u32, Token)>>,
}

impl Model for Keeper {
    fn sample(&mut self, request: RequestId, position: u32) -> Token {
        let token = position * 31 + request.0 as u32 * 7;
        self.tokens.entry(request.0).or_default().push((position, token));
        token
    }

    fn hash_block(&mut self, request: RequestId, block: u32, parent: Option<BlockHash>) -> BlockHash {
        let kept = self.tokens.get(&request.0).map_or(0, Vec::len) as u64;
        let parent = parent.map_or(0, |hash| hash.0.rotate_left(7));
        BlockHash(parent ^ (1 << 63 | request.0 << 40 | kept << 20 | u64::from(block)))
    }

    fn is_silent(&self, request: RequestId) -> bool {
        request.0 % 13 != 12
    }
}

#[derive(Clone, Debug)]
enum Action {
    Add { family: u64, prompt: u32, output: u32, priority: i64, eos: bool },
    Abort { among: usize },
    Pause { mode: PauseMode, turns: usize },
    Reset { preempts: bool },
}

/// When an action happens: before a turn, or between it and its completion, where aborts are taken.
#[derive(Clone, Debug)]
struct Step {
    turns: usize,
    mid_step: bool,
    action: Action,
}

#[derive(Debug, PartialEq)]
struct Seen {
    scheduled: Option<(u64, StepBatch, Vec<RequestId>)>,
    next: Next,
    completed: Option<(u64, usize, Stats)>,
    events: String,
    ended: Vec<(RequestId, Token, Finish)>,
    gauges: Gauges,
    running: Vec<RequestId>,
    waiting: Vec<RequestId>,
    free: Vec<BlockId>,
    polls: bool,
}

struct Run {
    engine: Engine,
    model: Keeper,
    added: u64,
    fused: usize,
    seen: Vec<Seen>,
}

impl Run {
    fn new(config: &EngineConfig, fuses: bool) -> Self {
        let mut engine = Engine::new(config.clone()).expect("the options are good");
        engine.set_fusion(fuses);
        Self { engine, model: Keeper::default(), added: 0, fused: 0, seen: Vec::new() }
    }

    fn act(&mut self, action: &Action) {
        // A request that an abort takes away is asked for its tokens before.
        if !matches!(action, Action::Add { .. }) {
            self.engine.catch_up(&mut self.model);
        }
        match *action {
            Action::Add { family, prompt, output, priority, eos } => {
                let request = NewRequest::new(RequestId(self.added), prompt, output);
                self.added += 1;
                let block_hashes = (0..u64::from(prompt / 4)).map(|block| BlockHash(family << 20 | block));
                let (block_hashes, arrival) = (block_hashes.collect(), self.added);
                let eos = eos.then_some(31 * 9);
                let request = NewRequest { block_hashes, priority, arrival, eos, ..request };
                self.engine.add(request).expect("the request is good");
            }
            Action::Abort { among } => {
                let id = RequestId(among as u64 % self.added.max(1));
                self.engine.abort(id);
            }
            Action::Pause { mode, turns } => {
                self.engine.pause(mode, false);
                self.turns(turns);
                self.engine.resume();
            }
            Action::Reset { preempts } => drop(self.engine.reset_prefix_cache(preempts)),
        }
    }

    fn turns(&mut self, turns: usize) {
        for _ in 0..turns {
            self.turn(None);
        }
    }

    fn turn(&mut self, mid_step: Option<&Action>) {
        let turn = self.engine.turn();
        let scheduled = self.engine.newest().filter(|_| turn.scheduled);
        let scheduled = scheduled.map(|batch| (batch.number(), *batch.work(), batch.preempted().to_vec()));
        if let Some(action) = mid_step {
            self.act(action);
        }
        let (mut completed, mut events, mut ended) = (None, String::new(), Vec::new());
        if turn.next == Next::Complete {
            let update = self.engine.complete(&mut self.model);
            self.fused += usize::from(update.unlisted > 0);
            completed = Some((update.batch, update.outputs.len() + update.unlisted, update.stats));
            events = format!("{:?}", update.events);
            let finish =
                |output: &crate::engine::Output| Some((output.request, output.token, output.finish?));
            ended = update.outputs.iter().filter_map(finish).collect();
        }
        self.seen.push(Seen {
            scheduled,
            next: turn.next,
            completed,
            events,
            ended,
            gauges: self.engine.gauges(),
            running: self.engine.running().collect(),
            waiting: self.engine.waiting().chain(self.engine.skipped()).collect(),
            free: self.engine.free_queue().collect(),
            polls: self.engine.polls(),
        });
    }
}

/// Returns how many steps were fused.
fn same(config: &EngineConfig, steps: &[Step]) -> usize {
    let [single, fused] = [false, true].map(|fuses| {
        let mut run = Run::new(config, fuses);
        for step in steps {
            run.turns(step.turns);
            if step.mid_step {
                run.turn(Some(&step.action));
            } else {
                run.act(&step.action);
            }
        }
        let most = run.seen.len() + 4_000;
        while run.engine.has_work() && run.seen.len() < most {
            run.turn(None);
        }
        run.engine.catch_up(&mut run.model);
        run
    });
    for (turn, (single, fused)) in single.seen.iter().zip(&fused.seen).enumerate() {
        assert_eq!(single, fused, "turn {turn}");
    }
    assert_eq!(single.seen.len(), fused.seen.len());
    assert_eq!(single.model.tokens, fused.model.tokens);
    assert_eq!(single.fused, 0);
    fused.fused
}

fn config() -> impl Strategy<Value = EngineConfig> {
    let profiles = prop::sample::select(Profile::ALL.to_vec());
    let switches = any::<[bool; 5]>();
    (profiles, 40u32..200, 2u32..12, switches).prop_map(|(profile, blocks, seqs, switches)| {
        let [caching, asynchronous, events, priority, capped] = switches;
        EngineConfig {
            max_num_seqs: seqs,
            max_num_batched_tokens: 24,
            block_size: 4,
            enable_prefix_caching: caching,
            async_scheduling: asynchronous,
            enable_kv_cache_events: events,
            policy: if priority { SchedulingPolicy::Priority } else { SchedulingPolicy::Fcfs },
            long_prefill_token_threshold: if capped { 9 } else { 0 },
            ..EngineConfig::new(profile, blocks, 120)
        }
    })
}

fn action() -> impl Strategy<Value = Action> {
    let add = (0u64..4, 1u32..60, 1u32..70, -1i64..2, any::<bool>()).prop_map(
        |(family, prompt, output, priority, eos)| Action::Add {
            family,
            prompt,
            output,
            priority,
            eos: eos && output % 4 == 0,
        },
    );
    let modes = prop::sample::select(vec![PauseMode::Abort, PauseMode::Wait, PauseMode::Keep]);
    prop_oneof![
        12 => add,
        3 => (0usize..40).prop_map(|among| Action::Abort { among }),
        1 => (modes, 1usize..20).prop_map(|(mode, turns)| Action::Pause { mode, turns }),
        1 => any::<bool>().prop_map(|preempts| Action::Reset { preempts }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = (0usize..30, any::<bool>(), action()).prop_map(|(turns, mid_step, action)| Step {
        turns,
        // What the loop takes in the middle of a step are aborts.
        mid_step: mid_step && matches!(action, Action::Abort { .. }),
        action,
    });
    prop::collection::vec(step, 1..40)
}

#[test]
fn fused_steps_equal_single_ones() {
    let fused = Cell::new(0);
    let mut runner = TestRunner::new_with_rng(
        ProptestConfig::with_cases(2_000),
        TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    );
    let run = |(config, steps): (EngineConfig, Vec<Step>)| {
        fused.set(fused.get() + same(&config, &steps));
        Ok(())
    };
    runner.run(&(config(), steps()), run).unwrap();
    assert!(fused.get() > 20_000, "only {} steps were fused", fused.get());
}

#[test]
fn a_lone_request_decodes_in_fused_steps() {
    for asynchronous in [false, true] {
        let config = EngineConfig {
            async_scheduling: asynchronous,
            block_size: 4,
            ..EngineConfig::new(Profile::VLLM_0_21, 1_000, 4_096)
        };
        let action = Action::Add { family: 0, prompt: 10, output: 100, priority: 0, eos: false };
        let fused = same(&config, &[Step { turns: 0, mid_step: false, action }]);
        // All but a few at either end.
        assert!((90..100).contains(&fused), "{fused} steps, asynchronous: {asynchronous}");
    }
}
