//! The simulation: a single-threaded executor on a discrete-event clock.

mod builder;
mod cell;
mod core;
mod digest;
mod inbox;
mod lane;
mod net;
mod pipe;
mod ring;
mod schedule;
mod services;
mod slot;
mod task;
mod ticket;
mod timer;
mod trace;
mod waker;
mod wheel;

pub use builder::{Run, Sim, SimBuilder};
pub use net::{Fault, FaultKind, Link, Links, Network, When};
pub use pipe::Pipe;
pub use schedule::{Choice, ChoiceError, ChoiceId, Choices, Schedule};
pub use services::{EndpointInUse, Simulation};
pub use trace::{Cause, Event, EventSink, TaskStart};

pub(crate) use core::Id;
pub(crate) use services::send;
pub(crate) use task::TaskRef;
pub(crate) use task::spawn;
pub(crate) use ticket::{Park, Unpark, pair};
pub(crate) use timer::Timer;
