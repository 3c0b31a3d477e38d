//! Recorded workloads: the Mooncake and the Azure trace formats.

mod azure;
mod lines;
mod mooncake;
mod mooncake_row;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use super::Request;
use crate::InputError;
use crate::input_file;
use azure::Columns;
use lines::Lines;
pub use mooncake_row::MooncakeRow;

/// Arrival times at most this long after the first one.
const MAX_SPAN: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The formats that traces are read in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// JSON lines with `timestamp` (ms), `input_length`, `output_length` and `hash_ids`, one id for each
    /// 512-token block of the prompt; equal ids are equal prefixes.
    Mooncake,
    /// CSV with a header and the columns `TIMESTAMP`, `ContextTokens`, `GeneratedTokens`; no prompt shares a
    /// prefix with another.
    Azure,
}

/// Reads a trace line by line, holding one line at a time.
///
/// Arrival times count from the first row. The iterator ends with its first error.
#[derive(Debug)]
pub struct TraceReader {
    lines: Lines,
    parser: Parser,
    next_index: u64,
    /// Time of the first row and of the row before, since the format's epoch.
    first_and_last: Option<(Duration, Duration)>,
    failed: bool,
}

#[derive(Debug)]
enum Parser {
    Mooncake,
    Azure(Columns),
}

/// One row as both formats give it.
struct Row {
    /// Since an epoch of the format's own.
    time: Duration,
    time_field: &'static str,
    prompt: super::Prompt,
    output_tokens: u32,
}

impl TraceReader {
    /// Opens the trace at `path`; its format is told by its first line.
    ///
    /// # Errors
    /// When the file cannot be read, is empty, or begins like neither format.
    pub fn open(path: &Path) -> Result<Self, InputError> {
        let source = path.display().to_string();
        let file = input_file::open(path, "the trace", "a Mooncake JSONL or an Azure CSV file")?;
        Self::from_reader(&source, Box::new(BufReader::with_capacity(1 << 16, file)))
    }

    /// Reads the trace from `reader`; errors name `source`.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn from_reader(source: &str, reader: Box<dyn BufRead + Send>) -> Result<Self, InputError> {
        let mut lines = Lines::new(source, reader);
        let first = lines.peek()?.unwrap_or_default();
        let parser = if first.trim_start().starts_with('{') {
            Parser::Mooncake
        } else {
            match Columns::from_header(first) {
                Ok(columns) => {
                    lines.skip_peeked();
                    if lines.peek()?.is_none() {
                        let error = InputError::new("the trace has a header and no rows");
                        return Err(lines.place(error.accepted("at least one row")));
                    }
                    Parser::Azure(columns)
                }
                Err(error) => return Err(lines.place(error)),
            }
        };
        Ok(TraceReader { lines, parser, next_index: 0, first_and_last: None, failed: false })
    }

    /// Returns the format that the first line showed.
    pub fn format(&self) -> TraceFormat {
        match self.parser {
            Parser::Mooncake => TraceFormat::Mooncake,
            Parser::Azure(_) => TraceFormat::Azure,
        }
    }

    fn read(&mut self) -> Result<Option<Request>, InputError> {
        let index = self.next_index;
        let Some(line) = self.lines.next_line()? else { return Ok(None) };
        let row = match &self.parser {
            Parser::Mooncake => mooncake::parse(line),
            Parser::Azure(columns) => columns.parse(line, index),
        };
        let request =
            row.and_then(|row| self.place_in_time(index, row)).map_err(|error| self.lines.place(error))?;
        self.next_index += 1;
        Ok(Some(request))
    }

    fn place_in_time(&mut self, index: u64, row: Row) -> Result<Request, InputError> {
        let Row { time, time_field, prompt, output_tokens } = row;
        let (first, last) = self.first_and_last.unwrap_or((time, time));
        if time < last {
            return Err(InputError::new(format!("arrives {:?} before the row above it", last - time))
                .accepted("rows in the order of their times")
                .field(time_field));
        }
        let arrival = time - first;
        if arrival > MAX_SPAN {
            return Err(InputError::new("arrives more than ten years after the first row")
                .accepted("traces of at most ten years")
                .field(time_field));
        }
        self.first_and_last = Some((first, time));
        Ok(Request { index, arrival, prompt, output_tokens, tenant: None })
    }
}

impl Iterator for TraceReader {
    type Item = Result<Request, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.read().transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}

/// Refuses a count of tokens outside `1..=MAX_TOKENS`.
fn tokens(field: &'static str, found: &str, number: Option<u64>) -> Result<u32, InputError> {
    match number {
        Some(number @ 1..) if number <= u64::from(super::MAX_TOKENS) => Ok(number as u32),
        _ => Err(InputError::new(format!("{found} is no number of tokens"))
            .accepted(format!("a whole number from 1 to {}", super::MAX_TOKENS))
            .field(field)),
    }
}

#[cfg(test)]
mod tests;
