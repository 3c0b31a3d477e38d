//! The simulated vLLM engine core: a pure state machine over token steps.
//!
//! [`Engine`] decides what vLLM v1 decides between two model executions: which requests run in a step and how many
//! of their tokens, which KV blocks they get, which request is preempted, what a finished batch changes, and what
//! the gauges and KV events say afterwards (model-server spec 5). It holds no clock, task, random source or token
//! text. Whoever drives it owns time: it calls [`Engine::turn`], waits as long as its latency model says for the
//! batch that [`Engine::next_to_complete`] shows, and hands in the answers with [`Engine::complete`].
//!
//! ```
//! use engines::engine::{BlockHash, Engine, EngineConfig, Model, NewRequest, Next, Profile, RequestId, Token};
//!
//! struct Filler;
//! impl Model for Filler {
//!     fn sample(&mut self, _: RequestId, position: u32) -> Token {
//!         position
//!     }
//!     fn hash_block(&mut self, request: RequestId, block: u32, _: Option<BlockHash>) -> BlockHash {
//!         BlockHash(request.0 << 32 | u64::from(block))
//!     }
//! }
//!
//! let mut engine = Engine::new(EngineConfig::new(Profile::VLLM_0_21, 1_000, 4_096))?;
//! engine.add(NewRequest::new(RequestId(1), 15, 3))?;
//! let mut tokens = 0;
//! loop {
//!     match engine.turn().next {
//!         Next::Turn => {}
//!         Next::Complete => tokens += engine.complete(&mut Filler).outputs.len(),
//!         Next::Rest => break,
//!     }
//! }
//! assert_eq!(tokens, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | file | idea |
//! | --- | --- |
//! | `step_loop` | the loop: one turn, batches in flight, pause and reset |
//! | `scheduler` | what runs in a step (spec 5.4) and what a finished batch changes (5.7) |
//! | `kv_cache`, `block_pool` | blocks of a request; all blocks, their free order and their hashes (5.6) |
//! | `profile`, `config` | what differs between vLLM releases (5.9); the options (5.1) |
//! | `request`, `wait_queue` | a request's state; the queues it waits in (5.2) |
//! | `batch`, `events`, `metrics` | what a step holds, emits and counts |
//! | `latency` | how long a step takes |

mod batch;
mod block_pool;
mod config;
mod events;
mod kv_cache;
pub mod latency;
mod metrics;
mod profile;
mod request;
mod scheduler;
mod step_loop;
mod wait_queue;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use self::batch::{Batch, Row, RowKind};
pub use self::block_pool::BlockId;
pub use self::config::{ConfigError, EngineConfig, SchedulingPolicy};
pub use self::events::{KvEvent, KvEvents};
pub use self::metrics::{Gauges, Lookups, Stats};
pub use self::profile::Profile;
pub use self::request::{
    AdapterId, AddError, BlockHash, Finish, FinishReason, NewRequest, Output, RequestId, Token,
};
pub use self::scheduler::Admission;
pub use self::step_loop::{Engine, Model, Next, PauseMode, Paused, Reset, Turn, Update};
