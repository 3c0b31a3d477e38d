//! What can be wrong with a journal.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no journal to read or write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}; accepted: {accepted}", .path.display())]
pub struct JournalError {
    path: PathBuf,
    problem: String,
    accepted: String,
}

impl JournalError {
    pub(super) fn new(path: &Path, problem: impl fmt::Display, accepted: impl fmt::Display) -> Self {
        let (problem, accepted) = (problem.to_string(), accepted.to_string());
        JournalError { path: path.to_owned(), problem, accepted }
    }

    pub(super) fn io(path: &Path, what: &str, error: &io::Error) -> Self {
        Self::new(path, format!("cannot {what}: {error}"), "a folder that this process may use")
    }

    /// Returns the file or folder that it is about.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Where the reading of a journal ended before the end of its files, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment.
    pub file: PathBuf,
    /// First byte in it that was not read.
    pub offset: u64,
    /// What is there instead of a whole frame.
    pub reason: String,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, Cut { offset, reason, .. }) = (self.file.display(), self);
        write!(f, "cut at the last whole frame: {file}, byte {offset}: {reason}")
    }
}
