//! Time as the runtime tells it.

mod instant;

pub use instant::{Instant, WallTime};
