//! The Endpoint Picker: which model server shall answer a request.
//!
//! One request passes, in this order: a parser ([`request`]), the director ([`director`]), the data
//! producers, the scheduler ([`scheduling`]); beside it the data layer ([`data_layer`]) keeps what is known of
//! each endpoint. Every capability is a plugin ([`plugin`]); a configuration file ([`config`]) names the
//! plugins and wires them.
//!
//! The core is `!Send` and lock-free: it lives on one thread, and every effect that is not computation goes
//! through [`executor`], so the same code decides in production and in simulation.

pub mod admission;
pub mod attributes;
pub mod candidates;
pub mod cli;
pub mod config;
pub mod data_key;
pub mod data_layer;
pub mod director;
pub mod embed;
pub mod endpoint;
pub mod error;
pub mod explain;
pub mod flow_control;
pub mod headers;
pub mod latency_predictor;
pub mod metrics;
mod outbound;
pub mod plugin;
pub mod prefix;
pub mod producers;
pub mod request;
pub mod request_control;
pub mod scheduling;
pub mod server;
pub mod support;
