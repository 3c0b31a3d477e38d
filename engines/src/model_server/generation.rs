//! What a front end asks an engine for, and what it gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use executor::sync::{mpsc, oneshot};
use executor::{Instant, Rt};

use super::block_hash;
use super::kv_events::Content;
use super::published::Shared;
use crate::engine::{AdapterId, AddError, BlockHash, Finish, NewRequest, PauseMode, RequestId, Token};

/// How often a request's stream speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// One event a token: what a client on a socket sees.
    EveryToken,
    /// The first token and the last: all that a simulated client looks at.
    FirstAndLast,
}

/// How tokens are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// Always this one.
    Constant(Token),
    /// A fixed function of the seed and the position, below the size of the vocabulary.
    Seeded {
        /// Seed, one a request.
        seed: u64,
        /// Tokens of the vocabulary.
        vocabulary: u32,
    },
    /// What a front end's client gets to read.
    Writer(Writer),
}

/// A model that writes words, a fixed function of the seed and the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Seed, one a request.
    pub seed: u64,
    /// The first of the tokens that are words.
    pub first: Token,
    /// How many there are.
    pub words: u32,
    /// The token that it always takes instead, from position `above` on.
    pub forced: Option<Token>,
    /// The token that ends its text, at each position from `above` on with one chance in the given number.
    pub end: Option<(Token, u32)>,
    /// Positions below hold words only.
    pub above: u32,
}

impl Sampler {
    pub(super) fn sample(self, position: u32) -> Token {
        match self {
            Sampler::Constant(token) => token,
            Sampler::Seeded { seed, vocabulary } => below(vocabulary, mix(seed, position)),
            Sampler::Writer(writer) => writer.sample(position),
        }
    }
}

impl Writer {
    fn sample(self, position: u32) -> Token {
        let bits = mix(self.seed, position);
        if position >= self.above {
            if let Some(forced) = self.forced {
                return forced;
            }
            // The low bits, so that the end does not hang together with the word.
            if let Some((end, odds)) = self.end
                && below(odds, bits << 32) == 0
            {
                return end;
            }
        }
        self.first + below(self.words, bits)
    }
}

/// The finalizer of SplitMix64: every bit of the input moves every bit of the output.
fn mix(seed: u64, position: u32) -> u64 {
    let mut z = seed.wrapping_add(u64::from(position).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Scales 64 bits to a number below `n`.
fn below(n: u32, bits: u64) -> u32 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u32
}

/// A request for tokens.
#[derive(Clone, Debug)]
pub struct Generate {
    /// The prompt.
    pub prompt: Arc<[Token]>,
    /// Most tokens to generate.
    pub max_tokens: u32,
    /// Fewest tokens before a stop token counts.
    pub min_tokens: u32,
    /// End-of-sequence token; `None` ignores it.
    pub eos: Option<Token>,
    /// Further tokens that end the request.
    pub stop_tokens: Vec<Token>,
    /// Smaller is served first, where the engine schedules by priority.
    pub priority: i64,
    /// Separates the prefix cache of tenants; empty = shared.
    pub cache_salt: String,
    /// Adapter by name and number.
    pub adapter: Option<(String, AdapterId)>,
    /// How tokens are chosen.
    pub sampler: Sampler,
    /// How often the stream speaks.
    pub delivery: Delivery,
    /// Choices that the client asked for together, this one among them.
    pub choices: u32,
}

impl Generate {
    /// Returns a request for exactly `output_tokens` behind `prompt`, reported at its first and last token.
    pub fn exactly(prompt: Arc<[Token]>, output_tokens: u32, sampler: Sampler) -> Self {
        Generate {
            prompt,
            max_tokens: output_tokens,
            min_tokens: 0,
            eos: None,
            stop_tokens: Vec::new(),
            priority: 0,
            cache_salt: String::new(),
            adapter: None,
            sampler,
            delivery: Delivery::FirstAndLast,
            choices: 1,
        }
    }
}

/// Tokens of a finished request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Of the prompt.
    pub prompt: u32,
    /// Of the prompt, found in the prefix cache at the first admission.
    pub cached: u32,
    /// Generated.
    pub output: u32,
}

/// What a generation's stream says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A token that is not the last; with [`Delivery::FirstAndLast`] only the first.
    Token {
        /// The token.
        token: Token,
        /// Tokens of the prompt found in the prefix cache at the first admission.
        cached: u32,
    },
    /// The last token, and with it the end: one event, so that a reader can answer with both at once.
    Finished {
        /// The last token.
        token: Token,
        /// Why.
        finish: Finish,
        /// How many.
        tokens: Tokens,
    },
    /// The engine ended the request by itself, because it was paused; nothing else comes.
    Aborted(Tokens),
    /// The engine would not take the request; nothing else comes.
    Refused(AddError),
}

/// A request as it travels to the engine's task.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) request: NewRequest,
    pub(super) tail: Vec<Token>,
    pub(super) root: BlockHash,
    pub(super) sampler: Sampler,
    pub(super) delivery: Delivery,
    pub(super) choices: u32,
    pub(super) events: mpsc::UnboundedSender<Event>,
    pub(super) content: Content,
}

/// What an engine's task is told.
#[derive(Debug)]
pub(super) enum Command {
    Generate(Box<Submission>),
    Abort(RequestId),
    /// Forgets the prefix cache, if no block is in use.
    ResetPrefixCache,
    /// Asks what the prefix cache finds.
    CachedBlocks(oneshot::Sender<Vec<BlockHash>>),
    /// Ends a request whose text has come to a stop string.
    Stop(RequestId),
    /// Stops scheduling; answers once the engine has come to rest.
    Pause {
        mode: PauseMode,
        clear_cache: bool,
        rests: oneshot::Sender<()>,
    },
    /// Schedules again.
    Resume,
}

/// Asks an engine for tokens. Cheap to clone, works on any thread.
#[derive(Clone, Debug)]
pub struct EngineHandle {
    pub(super) rt: Rt,
    pub(super) commands: mpsc::UnboundedSender<Command>,
    pub(super) ids: Arc<AtomicU64>,
    pub(super) block_size: u32,
    pub(super) published: Shared,
}

impl EngineHandle {
    /// Returns what the engine publishes.
    pub fn published(&self) -> &Shared {
        &self.published
    }

    /// Returns the runtime that the engine's task runs on.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// Returns whether the engine's task is there.
    pub fn is_alive(&self) -> bool {
        !self.commands.is_closed()
    }

    /// Forgets the prefix cache at the engine's next turn, if no block is in use then.
    pub fn reset_prefix_cache(&self) {
        // An engine that is gone has no cache.
        drop(self.commands.send(Command::ResetPrefixCache));
    }

    /// Pauses the engine and waits until it rests; with `clear_cache` it drops its prefix cache then.
    ///
    /// Requests that come later wait until [`resume`](Self::resume). Returns whether the engine is there to rest.
    pub async fn pause(&self, mode: PauseMode, clear_cache: bool) -> bool {
        let (rests, rested) = self.rt.oneshot();
        self.commands.send(Command::Pause { mode, clear_cache, rests }).is_ok() && rested.await.is_ok()
    }

    /// Lets a paused engine go on.
    pub fn resume(&self) {
        // An engine that is gone has nothing to go on with.
        drop(self.commands.send(Command::Resume));
    }

    /// Returns the hashes of all blocks that the prefix cache finds, sorted; none when the engine is gone.
    pub async fn cached_blocks(&self) -> Vec<BlockHash> {
        let (reply, hashes) = self.rt.oneshot();
        drop(self.commands.send(Command::CachedBlocks(reply)));
        hashes.await.unwrap_or_default()
    }

    /// Submits a request; its tokens come as events of the returned stream. Dropping the stream before its end
    /// aborts the request.
    ///
    /// The prompt is hashed here, on the caller's thread, not on the engine's.
    pub fn generate(&self, generate: &Generate) -> Generation {
        let id = RequestId(self.ids.fetch_add(1, Ordering::Relaxed));
        let (sender, events) = self.rt.mpsc_unbounded();
        let adapter = generate.adapter.as_ref().map_or("", |(name, _)| name.as_str());
        let root = block_hash::root(&[&generate.cache_salt, adapter]);
        let block_size = self.block_size as usize;
        let request = NewRequest {
            id,
            prompt_tokens: u32::try_from(generate.prompt.len()).unwrap_or(u32::MAX),
            block_hashes: block_hash::chain(root, &generate.prompt, self.block_size),
            max_tokens: generate.max_tokens,
            min_tokens: generate.min_tokens,
            eos: generate.eos,
            stop_tokens: generate.stop_tokens.clone(),
            priority: generate.priority,
            arrival: self.rt.now().as_nanos(),
            adapter: generate.adapter.as_ref().map(|(_, id)| *id),
        };
        let tail = generate.prompt[generate.prompt.len() / block_size * block_size..].to_vec();
        let submission = Submission {
            request,
            tail,
            root,
            sampler: generate.sampler,
            delivery: generate.delivery,
            choices: generate.choices,
            events: sender,
            content: Content::new(
                Arc::clone(&generate.prompt),
                generate.cache_salt.clone(),
                generate.adapter.clone(),
            ),
        };
        // An engine that is gone closes the stream: its sender is dropped with the command.
        drop(self.commands.send(Command::Generate(Box::new(submission))));
        Generation { id, events, abort: Some(self.commands.clone()), submitted: self.rt.now() }
    }
}

/// The events of one request, in order.
#[derive(Debug)]
pub struct Generation {
    id: RequestId,
    events: mpsc::Receiver<Event>,
    /// `None` once the request has ended by itself.
    abort: Option<mpsc::UnboundedSender<Command>>,
    submitted: Instant,
}

impl Generation {
    /// Returns the next event, `None` behind the end or when the engine is gone.
    pub async fn next(&mut self) -> Option<Event> {
        let event = self.events.recv().await;
        self.note(event)
    }

    /// Polls for the next event, see [`next`](Self::next).
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.events.poll_recv(cx).map(|event| self.note(event))
    }

    /// Returns the next event if it has come already.
    pub fn try_next(&mut self) -> Option<Event> {
        let event = self.events.try_recv()?;
        self.note(Some(event))
    }

    /// Ends the request: its text has come to a stop string.
    pub fn stop(mut self) {
        if let Some(commands) = self.abort.take() {
            drop(commands.send(Command::Stop(self.id)));
        }
    }

    /// Returns when the request was submitted.
    pub fn submitted(&self) -> Instant {
        self.submitted
    }

    fn note(&mut self, event: Option<Event>) -> Option<Event> {
        if !matches!(event, Some(Event::Token { .. })) {
            self.abort = None;
        }
        event
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if let Some(commands) = self.abort.take() {
            // A closed channel means that the engine is gone, and the request with it.
            drop(commands.send(Command::Abort(self.id)));
        }
    }
}
