use std::io::{self, ErrorKind, Write};

use super::Failure;

/// Writes `text` to standard output, at once.
///
/// A reader that has gone (`lockstep run | head -1`) has what it wanted: that is no failure.
///
/// # Errors
/// When the text cannot be written: a full disk, a closed output.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::lost_output(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a failure to standard error; where that is gone too, the exit code is what remains to be said.
pub fn print_failure(failure: &Failure) {
    let _ = writeln!(io::stderr().lock(), "{failure}");
}
