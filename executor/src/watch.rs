//! The watchdog: what a simulated run must not do, and how a report says that it did.
//!
//! It is part of every run. What it costs on the way is a comparison here and a store there; everything dear (names,
//! backtraces, tables of who woke whom) is gathered only once something is wrong.

mod autopsy;
mod check;
mod finding;
mod frames;
mod graph;
mod monitor;
mod policy;
mod replay;
mod repoll;
mod report;

pub use check::{Divergence, Side, self_check};
pub use finding::{Finding, FindingKind, TaskReport, Wait};
pub use policy::{Policy, Watchdog};
pub use report::{Outcome, Peaks, RunReport};

pub(crate) use autopsy::{Autopsy, EVENTS as AUTOPSY_EVENTS};
pub(crate) use frames::own_frames;
pub(crate) use graph::cycles;
pub(crate) use monitor::{Beat, describe};
pub(crate) use replay::replay_command;
pub(crate) use repoll::capturing;
