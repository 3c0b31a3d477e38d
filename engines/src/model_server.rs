//! Simulated model servers: an engine, the task that drives it, and the front ends before it.

mod api;
mod block_hash;
mod driver;
mod generation;
mod histogram;
mod kv_events;
mod published;
mod text;
mod tokenizer;

pub use api::{Adapter, InProcessCall, ModelServer, Receipt, ServerOptions};
pub use driver::{Driver, TIME_SCALES};
pub use generation::{Delivery, EngineHandle, Event, Generate, Generation, Sampler, Tokens, Writer};
pub use histogram::Histogram;
pub use published::{Histograms, Published, Shared};
pub use text::{Stops, Text};
pub use tokenizer::{Ending, Message, Tokenizer};
