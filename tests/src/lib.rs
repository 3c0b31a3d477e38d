//! What the tests that need more than one crate have in common.
//!
//! The conformance runner is `conformance/main.rs`; its parts that carry rules of their own (how two answers
//! are compared, how vectors are stored) live here, where the ordinary test harness checks them.

#![deny(missing_docs)]

pub mod compare;
pub mod outcome;
pub mod vectors;
