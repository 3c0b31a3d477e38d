use std::time::Duration;

use jiff::civil::DateTime;

use super::{Row, tokens};
use crate::InputError;
use crate::workload::{Prompt, Segment};

const NAMES: [&str; 3] = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"];
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Where the three columns stand in a row; others are ignored.
#[derive(Debug)]
pub(super) struct Columns {
    positions: [usize; 3],
    count: usize,
}

impl Columns {
    /// Finds the columns in the header.
    pub(super) fn from_header(header: &str) -> Result<Self, InputError> {
        let names: Vec<&str> = header.split(',').map(str::trim).collect();
        let mut positions = [0; 3];
        for (position, name) in positions.iter_mut().zip(NAMES) {
            let Some(found) = names.iter().position(|found| *found == name) else {
                return Err(InputError::new(if header.is_empty() {
                    "the trace is empty".to_owned()
                } else {
                    format!("the first line is neither a JSON object nor a header with the column {name}")
                })
                .accepted(format!(
                    "Mooncake JSONL (timestamp, input_length, output_length, hash_ids) or Azure CSV ({})",
                    NAMES.join(",")
                )));
            };
            *position = found;
        }
        Ok(Columns { positions, count: names.len() })
    }

    /// Reads one line; the prompt of row `index` is one segment of its own.
    pub(super) fn parse(&self, line: &str, index: u64) -> Result<Row, InputError> {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        if cells.len() != self.count {
            return Err(InputError::new(format!("{} columns", cells.len()))
                .accepted(format!("{}, as in the header", self.count)));
        }
        let [time, context, generated] = self.positions.map(|position| cells[position]);
        let input = tokens(NAMES[1], &format!("{context:?}"), context.parse().ok())?;
        Ok(Row {
            time: parse_time(time)?,
            time_field: NAMES[0],
            prompt: Prompt::new([Segment { id: index, tokens: input }]),
            output_tokens: tokens(NAMES[2], &format!("{generated:?}"), generated.parse().ok())?,
        })
    }
}

fn parse_time(text: &str) -> Result<Duration, InputError> {
    let since_epoch = text.parse::<DateTime>().ok().map(|time| time.duration_since(EPOCH));
    since_epoch.and_then(|since| Duration::try_from(since).ok()).ok_or_else(|| {
        InputError::new(format!("{text:?} is no time"))
            .accepted("YYYY-MM-DD hh:mm:ss.fraction from 1970 on")
            .field(NAMES[0])
    })
}
