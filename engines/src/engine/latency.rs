//! How long one step of an engine takes, from the shape of its batch alone (engines-blis 13).

mod batch;
mod roofline;
mod table;
mod trained_physics;

pub use batch::StepBatch;
pub use roofline::Roofline;
pub use table::Table;
pub use trained_physics::TrainedPhysics;

use crate::InputError;
use crate::hardware::Placement;

/// The names of the backends that are built from a [`Placement`].
pub const BACKENDS: [&str; 2] = ["roofline", "trained-physics"];

/// A model of step times.
///
/// Pure: one batch, one time. The backends disagree, on prefill by a factor of four, so a result should name
/// the one it was made with.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// The larger of computing and reading memory at the GPU's peak rates.
    Roofline(Roofline),
    /// Physical terms with coefficients fitted on measured runs.
    TrainedPhysics(TrainedPhysics),
    /// Times between measured ones.
    Table(Table),
    /// What a request sees on an engine of its own: a step that computes prompts takes the time to the first token, any
    /// other that between tokens. A prompt that takes several steps takes the first several times.
    Means {
        /// Time to the first token, in microseconds.
        ttft_us: u64,
        /// Inter-token latency, in microseconds.
        itl_us: u64,
    },
    /// The same time for every step, in microseconds: for tests and for mock servers.
    Fixed(u64),
}

/// Time that a request spends beside the steps, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overheads {
    /// From arrival until the scheduler sees the request.
    pub queueing: u64,
    /// Added to each output token.
    pub output_token: u64,
    /// Added once to a request with output.
    pub post_decode: u64,
}

impl Latency {
    /// Builds the backend `name` for `placement`.
    ///
    /// # Errors
    /// When the name is none of [`BACKENDS`], or the backend cannot describe the placement.
    pub fn from_name(name: &str, placement: &Placement) -> Result<Self, InputError> {
        match name {
            "roofline" => Ok(Latency::Roofline(Roofline::new(placement))),
            "trained-physics" => Ok(Latency::TrainedPhysics(TrainedPhysics::new(placement)?)),
            _ => Err(InputError::unknown("latency backend", name, BACKENDS)),
        }
    }

    /// Returns how long a step over `batch` takes: whole microseconds, at least 1.
    pub fn step_us(&self, batch: &StepBatch) -> u64 {
        if batch.is_empty() {
            return 1;
        }
        match self {
            Latency::Roofline(roofline) => whole_us(roofline.step_us(batch)),
            Latency::TrainedPhysics(physics) => whole_us(physics.step_us(batch)),
            Latency::Table(table) => whole_us(table.step_us(batch).round()),
            Latency::Means { ttft_us, itl_us } => {
                (if batch.prefills > 0 { *ttft_us } else { *itl_us }).max(1)
            }
            Latency::Fixed(us) => (*us).max(1),
        }
    }

    /// Returns the time a request spends beside the steps.
    pub fn overheads(&self) -> Overheads {
        match self {
            Latency::TrainedPhysics(_) => TrainedPhysics::OVERHEADS,
            Latency::Roofline(_) | Latency::Table(_) | Latency::Means { .. } | Latency::Fixed(_) => {
                Overheads::default()
            }
        }
    }
}

/// Truncates to at least one microsecond; the cast saturates, also for infinity.
fn whole_us(us: f64) -> u64 {
    (us as u64).max(1)
}

#[cfg(test)]
mod tests;
