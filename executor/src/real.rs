//! The host for production: tokio.

mod builder;
mod core;
mod http;
mod interrupt;
mod park;
mod server;
mod signal;
mod timer;

pub use builder::{Real, RealBuilder};
pub use interrupt::{Interrupt, Signal};
pub use server::Server;
pub use signal::termination;

pub(crate) use core::Core;
pub(crate) use http::Client;
pub(crate) use park::{Park, Unpark, pair};
pub(crate) use timer::Timer;
