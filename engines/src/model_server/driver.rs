//! The task that drives an engine: takes requests in, waits for steps, hands tokens out.

use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use executor::sync::{mpsc, oneshot};
use executor::{Class, Instant, Rt};
use router::prefix::kv_events::KvBatch;
use rustc_hash::FxHashMap;

use super::block_hash;
use super::generation::{Command, Delivery, EngineHandle, Event, Sampler, Submission, Tokens};
use super::kv_events::Publisher;
use super::published::{Lifetime, Shared};
use crate::engine::latency::{Latency, StepBatch};
use crate::engine::{
    BlockHash, ConfigError, Engine, EngineConfig, FinishReason, Model, Next, RequestId, RowKind, Token,
};

/// How long vLLM's loop sleeps when requests wait but none can be scheduled (model-server spec 5.3).
const POLL: Duration = Duration::from_millis(1);

/// How much faster or slower than modelled an engine may step.
pub const TIME_SCALES: RangeInclusive<f64> = 0.001..=1000.0;

/// An engine with the task state around it; [`Driver::run`] is the task.
pub struct Driver {
    rt: Rt,
    engine: Engine,
    latency: Latency,
    commands: mpsc::Receiver<Command>,
    requests: Active,
    published: Shared,
    /// When the batches in flight end, the oldest first.
    ends: VecDeque<Instant>,
    /// Requests for the next turn.
    arrived: Vec<Submission>,
    /// Who waits for the engine to rest, the oldest first.
    rests: VecDeque<oneshot::Sender<()>>,
    /// How much longer than modelled a step takes.
    time_scale: f64,
    gaps: Option<Gaps>,
}

type Gaps = Box<dyn FnMut(Duration, u64)>;

/// The requests in the engine.
#[derive(Debug, Default)]
struct Active {
    by_id: FxHashMap<RequestId, Request>,
    block_size: usize,
    /// `None` where nobody listens to KV events.
    publisher: Option<Publisher>,
    /// When the last step ended, the one that is being completed included.
    stepped: Instant,
}

#[derive(Debug)]
struct Request {
    sampler: Sampler,
    delivery: Delivery,
    events: mpsc::UnboundedSender<Event>,
    /// Known tokens behind the last full block.
    tail: Vec<Token>,
    root: BlockHash,
    lifetime: Lifetime,
}

impl Driver {
    /// Returns the driver of a new engine, and a handle to it.
    ///
    /// # Errors
    /// When no vLLM would start with this configuration.
    pub fn new(rt: &Rt, config: EngineConfig, latency: Latency) -> Result<(Self, EngineHandle), ConfigError> {
        let block_size = config.block_size;
        let published = Shared::new(&config);
        let engine = Engine::new(config)?;
        // Bounded by the requests that clients have open.
        let (sender, commands) = rt.mpsc_unbounded();
        let handle = EngineHandle {
            rt: rt.clone(),
            commands: sender,
            ids: Arc::new(AtomicU64::new(0)),
            block_size,
            published: published.clone(),
        };
        let driver = Driver {
            rt: rt.clone(),
            engine,
            latency,
            commands,
            requests: Active {
                by_id: FxHashMap::default(),
                block_size: block_size as usize,
                publisher: None,
                stepped: rt.now(),
            },
            published,
            ends: VecDeque::new(),
            arrived: Vec::new(),
            rests: VecDeque::new(),
            time_scale: 1.0,
            gaps: None,
        };
        Ok((driver, handle))
    }

    /// Calls `watch` for tokens that followed another of their request: the gap between them, and how many
    /// tokens of a step had that gap.
    pub fn watch_gaps(&mut self, watch: impl FnMut(Duration, u64) + 'static) {
        self.gaps = Some(Box::new(watch));
    }

    /// Makes every step take `factor` times as long as modelled.
    ///
    /// # Panics
    /// When the factor is none of [`TIME_SCALES`].
    pub fn scale_time(&mut self, factor: f64) {
        assert!(TIME_SCALES.contains(&factor), "steps cannot take {factor} times as long");
        self.time_scale = factor;
    }

    /// Calls `publish` at the end of each step that changed the prefix cache, with what vLLM would publish.
    pub fn publish_kv_events(&mut self, publish: impl FnMut(&KvBatch) + 'static) {
        self.engine.record_kv_events();
        let block_size = self.engine.config().block_size;
        self.requests.publisher = Some(Publisher::new(block_size, Box::new(publish)));
    }

    /// Says whether steps are fused, as they are at first; nothing that can be seen depends on it.
    pub fn set_fusion(&mut self, fuses: bool) {
        self.engine.set_fusion(fuses);
    }

    /// Steps the engine until every handle is gone and the last request has ended.
    pub async fn run(mut self) {
        loop {
            self.take_commands();
            for submission in std::mem::take(&mut self.arrived) {
                self.add(submission);
            }
            let turn = self.engine.turn();
            if turn.scheduled {
                self.start_batch();
            }
            if turn.next == Next::Complete {
                if let Some(end) = self.ends.front() {
                    self.rt.sleep_until_in(Class::Engine, *end).await;
                }
                self.take_commands();
                self.complete();
            }
            if self.engine.polls() {
                self.rt.sleep_until_in(Class::Engine, self.rt.now() + POLL).await;
            } else if turn.next == Next::Rest && self.arrived.is_empty() {
                self.settle();
                let Some(command) = self.commands.recv().await else { return };
                self.take(command);
            }
        }
    }

    fn take_commands(&mut self) {
        while let Some(command) = self.commands.try_recv() {
            self.take(command);
        }
    }

    /// Aborts at once; a new request waits for the next turn.
    fn take(&mut self, command: Command) {
        self.engine.catch_up(&mut self.requests);
        match command {
            Command::Generate(submission) => self.arrived.push(*submission),
            Command::Abort(id) => {
                let before = self.arrived.len();
                self.arrived.retain(|submission| submission.request.id != id);
                if self.engine.abort(id) || self.arrived.len() < before {
                    let request = self.requests.remove(id);
                    let mut published = self.published.lock();
                    published.aborted += 1;
                    published.preemptions += request.map_or(0, |request| request.lifetime.preemptions);
                }
            }
            Command::ResetPrefixCache => {
                self.engine.reset_prefix_cache(false);
            }
            Command::Pause { mode, clear_cache, rests } => self.pause(mode, clear_cache, rests),
            Command::Resume => self.engine.resume(),
            // Whoever asked may be gone.
            Command::CachedBlocks(reply) => drop(reply.send(self.engine.cached_blocks())),
            // One that has ended meanwhile is counted already.
            Command::Stop(id) => {
                if self.engine.abort(id)
                    && let Some(request) = self.requests.remove(id)
                {
                    self.published.lock().finished(FinishReason::Stop, &request.lifetime);
                }
            }
        }
    }

    fn add(&mut self, submission: Submission) {
        let Submission { request, tail, root, sampler, delivery, choices, events, content } = submission;
        let id = request.id;
        let lifetime = Lifetime {
            tokens: Tokens { prompt: request.prompt_tokens, ..Tokens::default() },
            max_tokens: request.max_tokens,
            choices,
            arrived: Instant::from_nanos(request.arrival),
            scheduled: None,
            preemptions: 0,
            first_token: None,
            last_token: None,
        };
        match self.engine.add(request) {
            Ok(()) => {
                let request = Request { sampler, delivery, events, tail, root, lifetime };
                self.requests.by_id.insert(id, request);
                if let Some(publisher) = &mut self.requests.publisher {
                    publisher.begun(id, content);
                }
            }
            // A stream that nobody reads any more is dropped with its sender.
            Err(error) => drop(events.send(Event::Refused(error))),
        }
    }

    /// Notes when the batch scheduled last will end, and what its admissions found in the prefix cache.
    fn start_batch(&mut self) {
        let Some(batch) = self.engine.newest() else { return };
        let now = self.rt.now();
        let start = self.ends.back().copied().unwrap_or(now).max(now);
        let end = match batch.is_empty() {
            true => start,
            false => start + self.step_time(batch.work()),
        };
        self.ends.push_back(end);
        for id in batch.preempted() {
            if let Some(request) = self.requests.by_id.get_mut(id) {
                request.lifetime.preemptions += 1;
            }
        }
        // Admitted requests stand behind the running ones.
        for row in batch.rows().iter().rev().take_while(|row| row.kind != RowKind::Continued) {
            if row.kind == RowKind::New
                && let Some(request) = self.requests.by_id.get_mut(&row.request)
                && request.lifetime.scheduled.is_none()
            {
                request.lifetime.scheduled = Some(now);
                request.lifetime.tokens.cached = row.computed;
            }
        }
    }

    fn step_time(&self, work: &StepBatch) -> Duration {
        let modelled = Duration::from_micros(self.latency.step_us(work));
        if self.time_scale == 1.0 { modelled } else { modelled.mul_f64(self.time_scale) }
    }

    fn complete(&mut self) {
        self.ends.pop_front();
        let now = self.rt.now();
        let previous_step = std::mem::replace(&mut self.requests.stepped, now);
        let update = self.engine.complete(&mut self.requests);
        if let Some(publisher) = &mut self.requests.publisher {
            publisher.publish(update.events, self.rt.wall().unix_nanos() as f64 / 1e9);
        }
        let mut published = self.published.lock();
        published.update(&update.stats);
        let (mut prompt_tokens, mut generated) = (0, 0);
        // Most tokens of a step follow their predecessors by the same time.
        let mut run = (Duration::ZERO, 0);
        for output in update.outputs {
            let Some(request) = self.requests.by_id.get_mut(&output.request) else { continue };
            let lifetime = &mut request.lifetime;
            lifetime.tokens.output += 1;
            generated += 1;
            published.preemptions += std::mem::take(&mut lifetime.preemptions);
            let previous = lifetime.last_token.replace(now);
            if let Some(previous) = previous {
                let gap = now.since(previous);
                if gap != run.0 && run.1 > 0 {
                    published.next_tokens(run.0, run.1);
                    watch(&mut self.gaps, run);
                    run.1 = 0;
                }
                run = (gap, run.1 + 1);
            } else {
                lifetime.first_token = Some(now);
                prompt_tokens += u64::from(lifetime.tokens.prompt);
                published.first_token(lifetime, now);
            }
            // A reader that is gone has sent its abort.
            match output.finish {
                Some(finish) => {
                    let Some(request) = self.requests.remove(output.request) else { continue };
                    let tokens = request.lifetime.tokens;
                    published.finished(finish.reason, &request.lifetime);
                    drop(request.events.send(Event::Finished { token: output.token, finish, tokens }));
                }
                None if previous.is_none() || request.delivery == Delivery::EveryToken => {
                    let cached = request.lifetime.tokens.cached;
                    drop(request.events.send(Event::Token { token: output.token, cached }));
                }
                None => {}
            }
        }
        if run.1 > 0 {
            published.next_tokens(run.0, run.1);
            watch(&mut self.gaps, run);
        }
        if update.unlisted > 0 {
            // Each of them has a token of the step before, too.
            let gap = (now.since(previous_step), update.unlisted as u64);
            published.next_tokens(gap.0, gap.1);
            watch(&mut self.gaps, gap);
            generated += gap.1;
        }
        published.step(prompt_tokens, generated);
    }
}

fn watch(gaps: &mut Option<Gaps>, (gap, tokens): (Duration, u64)) {
    if let Some(gaps) = gaps {
        gaps(gap, tokens);
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("engine", &self.engine)
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}

impl Active {
    fn remove(&mut self, id: RequestId) -> Option<Request> {
        if let Some(publisher) = &mut self.publisher {
            publisher.ended(id);
        }
        self.by_id.remove(&id)
    }
}

impl Model for Active {
    fn sample(&mut self, request: RequestId, position: u32) -> Token {
        let Some(active) = self.by_id.get_mut(&request) else { return 0 };
        let token = active.sampler.sample(position);
        active.tail.push(token);
        if let Some(publisher) = &mut self.publisher {
            publisher.generated(request, token);
        }
        token
    }

    fn hash_block(&mut self, request: RequestId, _: u32, parent: Option<BlockHash>) -> BlockHash {
        let Some(request) = self.by_id.get_mut(&request) else { return BlockHash(0) };
        let full = self.block_size.min(request.tail.len());
        let hash = block_hash::next(parent.unwrap_or(request.root), &request.tail[..full]);
        request.tail.drain(..full);
        hash
    }

    fn is_silent(&self, request: RequestId) -> bool {
        // KV events tell the tokens of each block as it is filled.
        let is_told = self.publisher.is_some();
        !is_told && self.by_id.get(&request).is_some_and(|request| request.delivery == Delivery::FirstAndLast)
    }

    fn skip(&mut self, request: RequestId, positions: Range<u32>) {
        let Some(request) = self.by_id.get_mut(&request) else { return };
        request.lifetime.tokens.output += positions.len() as u32;
        request.lifetime.last_token = Some(self.stepped);
        request.tail.extend(positions.map(|position| request.sampler.sample(position)));
    }
}

mod pause;
#[cfg(test)]
mod tests;
