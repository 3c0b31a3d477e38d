//! The host that can be recorded: the simulation's executor, driven by the wall clock.
//!
//! [`Live`] runs hosted code on one thread, event by event, as [`Sim`](crate::Sim) does; only time comes from
//! outside. So does everything else that no seed decides: requests, answers, endpoints that come and go. It all
//! enters at one place, one input after the other, and is stamped and journalled there as it is taken.
//! [`Replay`] runs the same code over the journal: same inputs, same times, and so the same polls, draws and
//! decisions.
//!
//! # How an input enters
//!
//! Hosted code [opens](Intake::open) a [`Port`] and hands the [`Inlet`] that it gets to whoever is outside, on any
//! thread. What is sent there waits in a queue. When nothing is due inside, the host reads the clock; fires the
//! timers that are due by then, one instant after the other, each at its own time; and then takes one input, at
//! the time that it read. The next one is taken when nothing is due again. Replay does the same with recorded
//! times, so it does not matter how late a timer was on the wall.
//!
//! Answers to requests that hosted code sends through [`Rt::http`](crate::Rt::http) are inputs as well: sockets
//! are tokio's, and an answer enters whole.
//!
//! # What hosted code must keep to
//!
//! The rules for all hosts, and: a handle [`Rt`](crate::Rt) of this host works on its thread only, and
//! [`Rt::blocking`](crate::Rt::blocking) runs inline, so it must compute and not read files or sockets. A wake
//! from another thread that is no input works, but no replay repeats it: it is a finding.

mod builder;
mod exchanges;
mod port;
mod queue;
mod replay;
mod wall;
mod world;

pub use builder::{Live, LiveBuilder, StartError};
pub use port::{Inlet, Intake, Port};
pub use replay::{Replay, Told};

pub(crate) use exchanges::Sent;
pub(crate) use world::{Moment, Next, World};
