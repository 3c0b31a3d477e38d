//! The configuration file of the Endpoint Picker.
//!
//! [`yaml`] reads a text into a tree that knows the place of every node, [`decode`] turns such a tree into
//! typed values without accepting anything it does not know, and [`problem`] is what both report. The three
//! serve every file of ours, not only this one.

pub mod decode;
pub mod fault;
pub mod gates;
pub mod graph;
pub mod problem;
pub mod scalars;
pub mod schema;
pub mod yaml;
