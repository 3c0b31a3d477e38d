use std::fmt;
use std::io::{BufRead, Read};

use crate::InputError;

/// Longer lines are refused: a row of a million-token prompt takes some 20 kB.
const MAX_LINE: u64 = 4 << 20;

/// The lines of a text file, one in memory at a time, each with its number; empty lines are passed over.
pub(super) struct Lines {
    source: String,
    reader: Box<dyn BufRead + Send>,
    line: Vec<u8>,
    number: u64,
    /// Whether `line` was read but not handed out.
    peeked: bool,
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("source", &self.source).field("number", &self.number).finish()
    }
}

impl Lines {
    pub(super) fn new(source: &str, reader: Box<dyn BufRead + Send>) -> Self {
        Lines { source: source.to_owned(), reader, line: Vec::new(), number: 0, peeked: false }
    }

    /// Returns the next line and leaves it to be read again.
    pub(super) fn peek(&mut self) -> Result<Option<&str>, InputError> {
        self.peeked = self.next_line()?.is_some();
        if self.peeked { self.text().map(Some) } else { Ok(None) }
    }

    /// Drops the line that [`Lines::peek`] returned.
    pub(super) fn skip_peeked(&mut self) {
        self.peeked = false;
    }

    /// Returns the next line without its end, `None` behind the last.
    pub(super) fn next_line(&mut self) -> Result<Option<&str>, InputError> {
        while !std::mem::take(&mut self.peeked) {
            self.line.clear();
            self.number += 1;
            let read = self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut self.line);
            match read {
                Ok(0) => return Ok(None),
                Ok(length) if length as u64 == MAX_LINE && self.line.last() != Some(&b'\n') => {
                    let error = InputError::new("the line is too long");
                    return Err(self.place(error.accepted(format!("at most {MAX_LINE} bytes a line"))));
                }
                Ok(_) => {}
                Err(error) => return Err(self.place(InputError::new(format!("cannot read on: {error}")))),
            }
            self.line.truncate(self.line.trim_ascii_end().len());
            if self.number == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
                self.line.drain(..3);
            }
            self.peeked = !self.line.is_empty();
        }
        self.text().map(Some)
    }

    fn text(&self) -> Result<&str, InputError> {
        std::str::from_utf8(&self.line).map_err(|error| {
            self.place(
                InputError::new("not valid UTF-8").accepted("text").at_column(error.valid_up_to() as u64 + 1),
            )
        })
    }

    /// Adds the file and the current line to an error.
    pub(super) fn place(&self, error: InputError) -> InputError {
        error.at_line(self.number.max(1)).in_source(self.source.clone())
    }
}
