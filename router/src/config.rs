//! The configuration file of the Endpoint Picker.
//!
//! [`loader::load`] turns a text into an [`assembly::Assembly`]: every plugin built and wired, or every problem
//! found, with its place. Below it, [`schema`] is the document as written; [`yaml`] reads a text into a tree that
//! knows the place of every node, [`decode`] turns such a tree into typed values without accepting anything it
//! does not know, and [`problem`] is what both report. Those three serve every file of ours, not only this one.

pub mod assembly;
pub mod check;
pub mod decode;
pub mod effective;
pub mod fault;
pub mod gates;
pub mod graph;
pub mod json_schema;
pub mod loader;
pub mod notice;
pub mod problem;
pub mod scalars;
pub mod schema;
pub mod shape;
pub mod yaml;
