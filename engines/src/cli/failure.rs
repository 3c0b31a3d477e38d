use std::fmt;

use router::config::problem::Problems;

use crate::InputError;
use crate::cluster::SimulationError;

/// Why a command could not do what it was asked: one paragraph for each cause, each with its place and what is
/// accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    causes: Vec<String>,
}

impl Failure {
    /// The exit code of a process that was asked for what it cannot do.
    pub const EXIT_CODE: u8 = 2;

    /// Returns the failure with one cause.
    pub fn new(cause: impl fmt::Display) -> Self {
        Failure { causes: vec![cause.to_string()] }
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, cause) in self.causes.iter().enumerate() {
            let end = if index > 0 { "\n" } else { "" };
            write!(f, "{end}error: {cause}")?;
        }
        Ok(())
    }
}

impl From<InputError> for Failure {
    fn from(error: InputError) -> Self {
        Failure::new(error)
    }
}

impl From<Vec<InputError>> for Failure {
    fn from(errors: Vec<InputError>) -> Self {
        Failure { causes: errors.iter().map(ToString::to_string).collect() }
    }
}

impl<K> From<Problems<K>> for Failure {
    fn from(problems: Problems<K>) -> Self {
        Failure { causes: problems.list().iter().map(ToString::to_string).collect() }
    }
}

impl From<SimulationError> for Failure {
    fn from(error: SimulationError) -> Self {
        match error {
            SimulationError::Router(problems) => problems.into(),
            SimulationError::Engine(error) | SimulationError::Workload(error) => error.into(),
        }
    }
}
