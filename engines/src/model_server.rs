//! Simulated model servers: an engine, the task that drives it, and the front ends before it.

mod block_hash;
mod driver;
mod generation;
mod published;

pub use driver::Driver;
pub use generation::{Delivery, EngineHandle, Event, Generate, Generation, Sampler, Tokens};
pub use published::{Published, Shared};
