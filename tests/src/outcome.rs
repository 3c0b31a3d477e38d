//! What became of one conformance case, and who says so.

use serde_json::Value;

/// The result of running one case against our code.
///
/// A case that differs although its vector says `"parity": "optional: …"` is still [`Outcome::Failed`]: the
/// runner, which reads that mark, counts it apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Our answer equals the recorded one.
    Passed,
    /// Our answer differs; the text is the first difference.
    Failed(String),
    /// The case asks for something no code exists for; the text is the reason.
    ///
    /// On the level of a case the reason comes from the router's support list (the case configures a plugin type
    /// that the list calls not built), or from the one table of a subject that names features without code and the
    /// requests that ask for them. A case never skips itself by its id or by its outcome.
    NotBuilt(String),
}

/// Who answers for the cases of a file of vectors.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    /// The function that runs one case of the named file (`folder/file`).
    Built(fn(file: &str, case: &Value) -> Outcome),
    /// No code exists for the subject yet, and what is missing.
    NotBuilt(&'static str),
}
