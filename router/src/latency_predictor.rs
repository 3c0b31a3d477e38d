//! Predicts latencies by asking a server, and teaches it what was measured (request-control spec 8.6).

mod client;
mod coalescer;
mod rows;
mod settings;
mod training;

pub use client::Client;
pub use rows::{Prediction, PredictionRow, RowError, TrainingEntry};
pub use settings::{Settings, SettingsError};

use futures::future::LocalBoxFuture;

/// Why there is no prediction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PredictionError {
    /// Nothing was asked.
    #[error("no prediction requests provided")]
    NoRows,
    /// More rows than the server takes at once.
    #[error("too many requests: {rows} (max: {most})")]
    TooManyRows {
        /// Rows asked for.
        rows: usize,
        /// Rows that are taken.
        most: usize,
    },
    /// A row out of range.
    #[error("validation failed for request {row}: {error}")]
    Row {
        /// Which one, from 0.
        row: usize,
        /// What is wrong with it.
        error: RowError,
    },
    /// The server gave no answer that is of use.
    #[error("{0}")]
    Server(String),
}

/// What a plugin asks for latencies.
pub trait LatencyPredictor {
    /// Predicts one latency a row, in their order.
    fn predict(
        &self,
        rows: Vec<PredictionRow>,
    ) -> LocalBoxFuture<'static, Result<Vec<Prediction>, PredictionError>>;

    /// Takes a measured latency to learn from.
    fn learn(&self, entry: TrainingEntry);
}
