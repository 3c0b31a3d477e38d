//! Why the lint could not be run.

use std::fmt;
use std::path::Path;

/// What went wrong, where, and what to do about it, in one message.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure(message.into())
    }

    /// A failure of `doing` something with the file at `path`.
    pub(crate) fn file(doing: &str, path: &Path, error: impl fmt::Display) -> Self {
        Failure(format!("cannot {doing} {}: {error}", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
