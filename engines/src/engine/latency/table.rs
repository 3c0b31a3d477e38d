use std::path::Path;
use std::sync::Arc;

use csv::{ReaderBuilder, StringRecord};

use super::StepBatch;
use crate::InputError;
use crate::input_file;

/// The columns of a table, of which the first three say which batch was measured.
const COLUMNS: [&str; 4] = ["prefill_tokens", "decode_requests", "decode_context", "step_us"];

/// The axes of the grid.
const AXES: usize = COLUMNS.len() - 1;

/// Step times that were measured, with straight lines between them.
///
/// The batches are a whole grid of prompt tokens computed, decoding requests and tokens that these had computed
/// before; a batch between its points gets the time between those of the corners around it, linear along each axis.
/// Below the first point of an axis its time is taken, beyond the last the line goes on.
#[derive(Clone, Debug, PartialEq)]
pub struct Table(Arc<Grid>);

#[derive(Debug, PartialEq)]
struct Grid {
    /// The points of each axis, growing.
    axes: [Vec<f64>; AXES],
    /// The time at each point in microseconds, the last axis running fastest.
    times: Vec<f64>,
}

impl Table {
    /// Reads a table from a CSV file with the columns `prefill_tokens`, `decode_requests`, `decode_context` and
    /// `step_us`, in any order; other columns are ignored.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and column: a column or a number that is missing, a number below
    /// zero or none, a batch that stands twice, a point of the grid that was not measured.
    pub fn open(path: &Path) -> Result<Self, InputError> {
        let text = input_file::read_text(path, "the table of step times", "a CSV file")?;
        Self::parse(&text).map_err(|error| error.in_source(path.display().to_string()))
    }

    fn parse(text: &str) -> Result<Self, InputError> {
        let mut reader = ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
        let header = reader.headers().map_err(|error| broken(&error))?.clone();
        let mut places = [0; COLUMNS.len()];
        for (place, name) in places.iter_mut().zip(COLUMNS) {
            let found = header.iter().position(|column| column == name);
            *place = found.ok_or_else(|| {
                InputError::new("the column is missing").accepted(COLUMNS.join(",")).field(name).at_line(1)
            })?;
        }
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(|error| broken(&error))?;
            let line = record.position().map_or(0, csv::Position::line);
            let mut row = [0.0; COLUMNS.len()];
            for ((number, place), name) in row.iter_mut().zip(places).zip(COLUMNS) {
                *number = read(&record, place).map_err(|error| error.field(name).at_line(line))?;
            }
            rows.push((row, line));
        }
        Self::of(&rows)
    }

    fn of(rows: &[([f64; COLUMNS.len()], u64)]) -> Result<Self, InputError> {
        if rows.is_empty() {
            return Err(InputError::new("the table has no rows").accepted("at least one measured batch"));
        }
        let axes: [Vec<f64>; AXES] = std::array::from_fn(|axis| {
            let mut points: Vec<f64> = rows.iter().map(|(row, _)| row[axis]).collect();
            points.sort_by(f64::total_cmp);
            points.dedup();
            points
        });
        let count = axes.iter().try_fold(1_usize, |count, points| count.checked_mul(points.len()));
        let Some(count) = count.filter(|count| *count <= rows.len()) else {
            return Err(hole(&axes, rows));
        };
        let mut times = vec![f64::NAN; count];
        for (row, line) in rows {
            let mut index = 0;
            for (points, value) in axes.iter().zip(row) {
                index = index * points.len() + points.partition_point(|point| point < value);
            }
            if !times[index].is_nan() {
                return Err(InputError::new("the batch stands twice").at_line(*line));
            }
            times[index] = row[AXES];
        }
        match times.iter().any(|time| time.is_nan()) {
            true => Err(hole(&axes, rows)),
            false => Ok(Table(Arc::new(Grid { axes, times }))),
        }
    }

    /// Returns the time of a step in microseconds.
    pub(super) fn step_us(&self, batch: &StepBatch) -> f64 {
        let Grid { axes, times } = &*self.0;
        let place = [batch.prefill_tokens, batch.decodes, batch.decode_context];
        let mut cells = [(0, 0.0); AXES];
        for ((cell, points), value) in cells.iter_mut().zip(axes).zip(place) {
            *cell = self::cell(points, value as f64);
        }
        let mut sum = 0.0;
        // Each bit of a corner's number says whether it is the far one along an axis.
        for corner in 0..1_usize << AXES {
            let (mut index, mut weight) = (0, 1.0);
            for (axis, ((near, part), points)) in cells.iter().zip(axes).enumerate() {
                let far = corner >> axis & 1 == 1;
                index = index * points.len() + (near + usize::from(far)).min(points.len() - 1);
                weight *= if far { *part } else { 1.0 - part };
            }
            if weight != 0.0 {
                sum += weight * times[index];
            }
        }
        sum.max(0.0)
    }
}

/// The point below `value`, and how far it is towards the next; beyond the last two points the line goes on.
fn cell(points: &[f64], value: f64) -> (usize, f64) {
    let near =
        points.partition_point(|point| *point <= value).saturating_sub(1).min(points.len().saturating_sub(2));
    match points.get(near + 1) {
        Some(next) => (near, ((value - points[near]) / (next - points[near])).max(0.0)),
        None => (near, 0.0),
    }
}

fn read(record: &StringRecord, place: usize) -> Result<f64, InputError> {
    let text = record.get(place).unwrap_or_default();
    match text.parse::<f64>() {
        Ok(number) if (0.0..=1e15).contains(&number) => Ok(number),
        _ => {
            Err(InputError::new(format!("{text:?} is no measured number"))
                .accepted("a number from 0 to 1e15"))
        }
    }
}

fn broken(error: &csv::Error) -> InputError {
    let wrong = InputError::new(error.to_string());
    match error.position() {
        Some(position) => wrong.at_line(position.line()),
        None => wrong,
    }
}

/// Names the first point of the grid that no row has.
fn hole(axes: &[Vec<f64>; AXES], rows: &[([f64; COLUMNS.len()], u64)]) -> InputError {
    let [prefills, decodes, contexts] = axes;
    let mut points = prefills
        .iter()
        .flat_map(|prefill| decodes.iter().map(move |decode| (prefill, decode)))
        .flat_map(|(prefill, decode)| contexts.iter().map(move |context| [*prefill, *decode, *context]));
    let missing = points.find(|point| !rows.iter().any(|(row, _)| row[..AXES] == *point)).unwrap_or_default();
    let [prefill, decode, context] = missing;
    InputError::new(format!(
        "no row has prefill_tokens {prefill}, decode_requests {decode} and decode_context {context}"
    ))
    .accepted("a row for every combination of the values that the columns have")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEASURED: &str = "\
prefill_tokens,decode_requests,decode_context,step_us
0,0,0,10
0,8,0,30
100,0,0,110
100,8,0,150
";

    fn batch(prefill: u32, decodes: u32, context: u32) -> StepBatch {
        let mut batch = StepBatch::default();
        if prefill > 0 {
            batch.add_prefill(0, prefill, prefill);
        }
        (0..decodes).for_each(|_| batch.add_decode(context));
        batch
    }

    #[test]
    fn a_time_lies_on_the_lines_between_the_measured_ones() {
        let table = Table::parse(MEASURED).unwrap();
        for (prefill, decodes, us) in [
            (0, 8, 30.0),
            (100, 0, 110.0),
            (100, 8, 150.0),
            (0, 4, 20.0),
            (50, 0, 60.0),
            // Between four corners: half of each axis, (10 + 30 + 110 + 150) / 4.
            (50, 4, 75.0),
            // Beyond the last points the lines go on.
            (200, 0, 210.0),
            (0, 16, 50.0),
        ] {
            // A context that was not varied does not matter.
            let step = table.step_us(&batch(prefill, decodes, 1000));
            assert!((step - us).abs() < 1e-9, "{prefill} {decodes}: {step}");
        }
    }

    #[test]
    fn a_line_that_goes_down_stops_at_zero_and_below_the_first_point_its_time_is_taken() {
        let table =
            Table::parse("prefill_tokens,decode_requests,decode_context,step_us\n10,0,0,50\n20,0,0,10\n");
        let table = table.unwrap();
        for (prefill, us) in [(5, 50.0), (15, 30.0), (20, 10.0), (22, 2.0), (1000, 0.0)] {
            let step = table.step_us(&batch(prefill, 0, 0));
            assert!((step - us).abs() < 1e-9, "{prefill}: {step}");
        }
    }

    #[test]
    fn what_is_no_table_is_said_with_its_place() {
        let header = "prefill_tokens,decode_requests,decode_context,step_us\n";
        for (text, said) in [
            (String::new(), "prefill_tokens: the column is missing"),
            ("a,b\n1,2\n".to_owned(), "1: prefill_tokens: the column is missing; accepted: prefill_tokens,"),
            (header.to_owned(), "no rows"),
            (format!("{header}1,2,3\n"), "2: "),
            (format!("{header}1,2,3,-4\n"), "2: step_us: \"-4\" is no measured number; accepted"),
            (format!("{header}1,2,3,4\n1,x,3,4\n"), "3: decode_requests: \"x\""),
            (format!("{header}1,2,NaN,4\n"), "decode_context: \"NaN\""),
            (format!("{header}1,2,3,4\n1,2,3,5\n"), "3: the batch stands twice"),
            (format!("{header}0,1,0,4\n1,0,0,5\n"), "no row has prefill_tokens 0, decode_requests 0"),
            (format!("{header}0,0,0,4\n1,1,0,5\n0,1,0,1\n0,0,0,2\n"), "stands twice"),
        ] {
            let error = Table::parse(&text).expect_err(&text).to_string();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }
}
