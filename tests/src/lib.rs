//! What the tests that need more than one crate have in common.
//!
//! The conformance runner is `conformance/main.rs`, with the subjects beside it. Its rules (how vectors are stored
//! and split into cases, how cases run, how two answers are compared, what is printed) are modules of this
//! library, where the ordinary test harness checks them.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod cases;
pub mod compare;
pub mod outcome;
pub mod report;
pub mod rig;
pub mod run;
pub mod vectors;
