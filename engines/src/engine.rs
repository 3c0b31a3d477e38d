//! One simulated vLLM engine.

pub mod latency;
