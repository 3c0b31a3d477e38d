//! The seam between Lockstep's code and whatever runs it.
//!
//! Code that waits, measures time, starts work, draws random numbers or talks to another process does so
//! through one handle, [`Rt`]. Two hosts stand behind it: [`Real`], which is tokio, and [`Sim`], a
//! single-threaded executor on a discrete-event clock. The handle is one concrete type (an enum inside), so no
//! type parameter spreads through the code that is hosted.
//!
//! | need | call |
//! | --- | --- |
//! | time | [`Rt::now`], [`Rt::wall`] |
//! | waiting for time | [`Rt::sleep`], [`Rt::sleep_until`], [`Rt::timeout`], [`Rt::deadline`], [`Rt::interval`] |
//! | work beside this task | [`Rt::spawn`], [`Rt::spawn_local`], [`Rt::daemon`], [`Rt::blocking`] |
//! | waiting for anything else | [`Rt::park`], the channels of [`sync`] ([`Rt::oneshot`], [`Rt::mpsc`], ...) |
//! | random numbers | [`Rt::stream`] |
//! | state of the runtime | [`Rt::local`] |
//! | outbound HTTP | [`Rt::http`] |
//!
//! # Rules for hosted code
//!
//! 1. No clock, timer, task, thread, socket or entropy of `std` or tokio: only the handle's.
//! 2. No iteration over a map with a random hasher, no unbiased `select!`, no order by address.
//! 3. Cancelling is dropping. A future that is dropped gives back what it was about to take.
//! 4. A pure decision takes `now: Instant` and `&mut Stream` as arguments; only the shell holds an `Rt`.
//!
//! # Invariants of the simulation
//!
//! 1. Order is the order of (time, class, sequence); sequence is the order of scheduling, unless a [`Schedule`] permutes it.
//! 2. Time never decreases, and moves only when nothing is due, to exactly the next event.
//! 3. A task is queued at most once. A waker schedules the poll of its task at the current instant.
//! 4. A waker is sound on any thread and after its executor; a stale one wakes nobody.
//! 5. Code runs only inside an event. Dropping a future is part of an event, too.
//! 6. The digest of a run is a function of its seed, its configuration and the program.

#![deny(missing_docs)]
// Of the whole crate, because the lint looks for its level here: it is about the one `thread_local!` of `sim::waker`.
#![expect(
    clippy::disallowed_macros,
    reason = "a thread knows which simulation it runs; all other state is there"
)]

#[expect(
    clippy::disallowed_methods,
    reason = "runs that have nothing in common share the machine's processors"
)]
mod explore;
pub mod http;
pub mod hyper;
#[expect(
    clippy::disallowed_methods,
    reason = "a recording is written beside the run, by a thread of its own"
)]
pub mod journal;
#[expect(clippy::disallowed_methods, reason = "the host is where the real clock and sockets come in")]
pub mod live;
mod local;
mod park;
#[expect(clippy::disallowed_methods, reason = "the host is where the real clock, tasks and entropy come in")]
mod real;
mod rt;
mod sim;
mod stream;
pub mod sync;
mod task;
mod time;
mod watch;

pub use explore::{Dependence, Exploration, Swap, explore};
pub use park::{Abandoned, Park, Unpark, Why};
pub use real::{Interrupt, Real, RealBuilder, Server, Signal, termination};
pub use rt::Rt;
pub use sim::{
    Cause, Choice, ChoiceError, ChoiceId, Choices, EndpointInUse, Event, EventSink, Fault, FaultKind, Link,
    Links, Network, Pipe, Run, Schedule, Sim, SimBuilder, Simulation, TaskStart, When,
};
pub use stream::Stream;
pub use task::{AbortHandle, JoinError, JoinHandle};
pub use time::{Class, Elapsed, Instant, Interval, Missed, Sleep, Timeout, WallTime};
pub use watch::{
    Divergence, Finding, FindingKind, Outcome, Peaks, Policy, RunReport, Side, TaskReport, Wait, Watchdog,
    self_check,
};
