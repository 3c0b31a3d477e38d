//! Journals of simulations: what goes into them, and what is read from them.
//!
//! A simulation has no inputs from outside: its journal holds the command that repeats it, its decisions, and,
//! unlike that of production, every event, so that two runs can be compared event by event also across builds.
//! The container is [`executor::journal`].

mod chain;
mod events;
mod setup;
mod take;

pub use chain::{Chain, Step};
pub use events::{EventRecord, TaskRecord};
pub use setup::{SUBJECT, Setup};
pub use take::{DecisionRecord, Recording};
