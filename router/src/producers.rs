//! Data producers.
