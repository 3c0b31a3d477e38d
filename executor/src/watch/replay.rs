//! The command that repeats a run, where nobody has said another.

/// Returns the command that repeats what this process does on this thread: a test by its name, a programme with its
/// arguments. A simulation takes all else from there.
#[expect(clippy::disallowed_methods, reason = "for the reader of a report; no run depends on it")]
pub(crate) fn replay_command() -> String {
    let mut arguments = std::env::args();
    let programme = arguments.next().unwrap_or_default();
    let programme =
        std::path::Path::new(&programme).file_name().unwrap_or_default().to_string_lossy().into_owned();
    match std::thread::current().name() {
        // The harness names a test's thread after the test.
        Some(test) if test != "main" => format!("cargo test -- --exact {test}"),
        _ => std::iter::once(programme).chain(arguments).collect::<Vec<_>>().join(" "),
    }
}
