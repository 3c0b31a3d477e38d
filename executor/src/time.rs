//! Time as the runtime tells it.

mod class;
mod instant;
mod interval;
mod sleep;
mod timeout;

pub use class::Class;
pub use instant::{Instant, WallTime};
pub use interval::{Interval, Missed};
pub use sleep::Sleep;
pub use timeout::{Elapsed, Timeout};
