//! The seam between Lockstep's code and whatever runs it.

#![deny(missing_docs)]

mod stream;
mod time;

pub use stream::Stream;
pub use time::{Instant, WallTime};
