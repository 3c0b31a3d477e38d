use std::fmt;
use std::process::ExitCode;

use executor::Signal;
use router::config::problem::Problems;

use crate::InputError;
use crate::cluster::SimulationError;

/// Why a command could not do what it was asked: one paragraph for each cause, each with its place and what is
/// accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    causes: Vec<String>,
    exit_code: u8,
}

impl Failure {
    /// The exit code of a process that was asked for what it cannot do.
    const BAD_INPUT: u8 = 2;
    /// The exit code of a process whose results could not be written.
    const LOST_OUTPUT: u8 = 1;
    /// The exit code of a process that was to find no difference and found one.
    const DIFFERING: u8 = 3;

    /// Returns the failure of a process that was asked for what it cannot do, with one cause.
    pub fn new(cause: impl fmt::Display) -> Self {
        Failure { causes: vec![cause.to_string()], exit_code: Self::BAD_INPUT }
    }

    /// Returns the failure of a process that did its work and could not write what it gave.
    pub fn lost_output(cause: impl fmt::Display) -> Self {
        Failure { causes: vec![cause.to_string()], exit_code: Self::LOST_OUTPUT }
    }

    /// Returns the failure of a process that compared and found a difference.
    pub fn differing(cause: impl fmt::Display) -> Self {
        Failure { causes: vec![cause.to_string()], exit_code: Self::DIFFERING }
    }

    /// Returns the failure of a process that was asked to end before its work was done.
    pub fn interrupted(signal: Signal) -> Self {
        let cause = format!("interrupted by {signal}: what is printed and written is the run up to there");
        Failure { causes: vec![cause], exit_code: signal.exit_code() }
    }

    /// Returns the code that the process ends with: 1 when output was lost, 2 for bad input, 3 for a
    /// difference, 128 and its number for a signal.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit_code)
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

/// In the order of their places in the file, those without a place first.
impl From<Vec<InputError>> for Failure {
    fn from(mut errors: Vec<InputError>) -> Self {
        errors.sort_by_key(|error| (error.place().line, error.place().column));
        let causes = errors.iter().map(ToString::to_string).collect();
        Failure { causes, exit_code: Self::BAD_INPUT }
    }
}

/// In the order of their places in the file, those without a place first.
impl<K> From<Problems<K>> for Failure {
    fn from(problems: Problems<K>) -> Self {
        let mut problems: Vec<_> = problems.list().iter().collect();
        problems.sort_by_key(|problem| problem.at);
        let causes = problems.iter().map(ToString::to_string).collect();
        Failure { causes, exit_code: Self::BAD_INPUT }
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
