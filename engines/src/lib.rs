//! Simulated model servers, the cluster around them, workloads and reports.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod cli;
pub mod cluster;
pub mod engine;
pub mod hardware;
mod input_error;
mod input_file;
pub mod model_server;
pub mod recording;
pub mod report;
pub mod scenario;
pub mod workload;

pub use input_error::{InputError, Place};
