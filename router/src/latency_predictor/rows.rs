use executor::WallTime;
use serde::{Deserialize, Serialize, Serializer};

/// An endpoint as the predictor sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PredictionRow {
    /// KV cache in use, 0 to 1.
    #[serde(serialize_with = "number")]
    pub kv_cache_percentage: f64,
    /// Tokens of the prompt.
    pub input_token_length: i64,
    /// Requests that wait.
    pub num_request_waiting: i64,
    /// Requests that run.
    pub num_request_running: i64,
    /// Tokens generated so far.
    pub num_tokens_generated: i64,
    /// Share of the prompt that the endpoint's prefix cache holds, 0 to 1.
    #[serde(serialize_with = "number")]
    pub prefix_cache_score: f64,
    /// Multimodal items, by size.
    pub encoder_input_size: i64,
    /// Those that the endpoint's encoder cache holds.
    pub encoder_matched_size: i64,
    /// Role of the endpoint; empty = none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_type: String,
    /// Prompt tokens in flight.
    pub prefill_tokens_in_flight: i64,
    /// Output tokens in flight.
    pub decode_tokens_in_flight: i64,
}

/// A latency that was measured, with what was known when the request was sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainingEntry {
    /// KV cache in use, 0 to 1.
    #[serde(serialize_with = "number")]
    pub kv_cache_percentage: f64,
    /// Tokens of the prompt.
    pub input_token_length: i64,
    /// Requests that waited.
    pub num_request_waiting: i64,
    /// Requests that ran.
    pub num_request_running: i64,
    /// Tokens generated before.
    pub num_tokens_generated: i64,
    /// Time to the first token; 0 = the entry is not about it. Unit: milliseconds.
    #[serde(serialize_with = "number")]
    pub actual_ttft_ms: f64,
    /// Time an output token; 0 = the entry is not about it. Unit: milliseconds.
    #[serde(serialize_with = "number")]
    pub actual_tpot_ms: f64,
    /// When it was measured.
    #[serde(serialize_with = "rfc_3339")]
    pub timestamp: WallTime,
    /// Share of the prompt that the endpoint's prefix cache held, 0 to 1.
    #[serde(serialize_with = "number")]
    pub prefix_cache_score: f64,
    /// Multimodal items, by size.
    pub encoder_input_size: i64,
    /// Those that the endpoint's encoder cache held.
    pub encoder_matched_size: i64,
    /// Role of the endpoint; empty = none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod_type: String,
    /// Prompt tokens in flight.
    pub prefill_tokens_in_flight: i64,
    /// Output tokens in flight.
    pub decode_tokens_in_flight: i64,
}

/// Latencies that the predictor expects. Unit: milliseconds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
pub struct Prediction {
    /// Time to the first token.
    #[serde(default)]
    pub ttft_ms: f64,
    /// Time an output token.
    #[serde(default)]
    pub tpot_ms: f64,
}

/// A value that the predictor would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// A share that is none.
    #[error("{0} must be between 0.0 and 1.0")]
    Share(&'static str),
    /// A count or a time below zero.
    #[error("{0} must be non-negative")]
    Negative(&'static str),
    /// More items matched than there are.
    #[error("encoder_matched_size must be between 0 and encoder_input_size")]
    Encoder,
}

impl PredictionRow {
    /// Checks that each value is in its range.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), RowError> {
        share("kv_cache_percentage", self.kv_cache_percentage)?;
        count("input_token_length", self.input_token_length)?;
        count("num_request_waiting", self.num_request_waiting)?;
        count("num_request_running", self.num_request_running)?;
        count("num_tokens_generated", self.num_tokens_generated)?;
        share("prefix_cache_score", self.prefix_cache_score)?;
        encoder(self.encoder_input_size, self.encoder_matched_size)?;
        count("prefill_tokens_in_flight", self.prefill_tokens_in_flight)?;
        count("decode_tokens_in_flight", self.decode_tokens_in_flight)
    }
}

impl TrainingEntry {
    /// Returns an entry about what `row` says, without a latency yet.
    pub fn new(row: PredictionRow, timestamp: WallTime) -> Self {
        TrainingEntry {
            kv_cache_percentage: row.kv_cache_percentage,
            input_token_length: row.input_token_length,
            num_request_waiting: row.num_request_waiting,
            num_request_running: row.num_request_running,
            num_tokens_generated: row.num_tokens_generated,
            actual_ttft_ms: 0.0,
            actual_tpot_ms: 0.0,
            timestamp,
            prefix_cache_score: row.prefix_cache_score,
            encoder_input_size: row.encoder_input_size,
            encoder_matched_size: row.encoder_matched_size,
            pod_type: row.pod_type,
            prefill_tokens_in_flight: row.prefill_tokens_in_flight,
            decode_tokens_in_flight: row.decode_tokens_in_flight,
        }
    }

    /// Checks that each value is in its range.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), RowError> {
        share("kv_cache_percentage", self.kv_cache_percentage)?;
        count("input_token_length", self.input_token_length)?;
        count("num_request_waiting", self.num_request_waiting)?;
        count("num_request_running", self.num_request_running)?;
        count("num_tokens_generated", self.num_tokens_generated)?;
        time("actual_ttft_ms", self.actual_ttft_ms)?;
        time("actual_tpot_ms", self.actual_tpot_ms)?;
        share("prefix_cache_score", self.prefix_cache_score)?;
        encoder(self.encoder_input_size, self.encoder_matched_size)?;
        count("prefill_tokens_in_flight", self.prefill_tokens_in_flight)?;
        count("decode_tokens_in_flight", self.decode_tokens_in_flight)
    }
}

fn share(name: &'static str, value: f64) -> Result<(), RowError> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(RowError::Share(name)) }
}

fn count(name: &'static str, value: i64) -> Result<(), RowError> {
    if value >= 0 { Ok(()) } else { Err(RowError::Negative(name)) }
}

fn time(name: &'static str, value: f64) -> Result<(), RowError> {
    // Not a number is no time either.
    if value >= 0.0 { Ok(()) } else { Err(RowError::Negative(name)) }
}

fn encoder(input: i64, matched: i64) -> Result<(), RowError> {
    count("encoder_input_size", input)?;
    if (0..=input).contains(&matched) { Ok(()) } else { Err(RowError::Encoder) }
}

/// Writes a whole number without a fraction.
fn number<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= LARGEST_EXACT {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}

fn rfc_3339<S: Serializer>(time: &WallTime, serializer: S) -> Result<S::Ok, S::Error> {
    let nanos = i128::from(time.unix_nanos());
    let time = jiff::Timestamp::from_nanosecond(nanos).map_err(serde::ser::Error::custom)?;
    serializer.collect_str(&time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_in_range_or_refused() {
        let row = PredictionRow { prefix_cache_score: 1.0, ..PredictionRow::default() };
        assert_eq!(row.check(), Ok(()));
        let refused = [
            (
                PredictionRow { kv_cache_percentage: 1.5, ..row.clone() },
                RowError::Share("kv_cache_percentage"),
            ),
            (
                PredictionRow { prefix_cache_score: f64::INFINITY, ..row.clone() },
                RowError::Share("prefix_cache_score"),
            ),
            (
                PredictionRow { prefix_cache_score: f64::NAN, ..row.clone() },
                RowError::Share("prefix_cache_score"),
            ),
            (
                PredictionRow { num_request_waiting: -1, ..row.clone() },
                RowError::Negative("num_request_waiting"),
            ),
            (PredictionRow { encoder_matched_size: 1, ..row.clone() }, RowError::Encoder),
        ];
        for (row, error) in refused {
            assert_eq!(row.check(), Err(error), "{row:?}");
        }
        let entry = TrainingEntry::new(row, WallTime::from_unix_nanos(0));
        assert_eq!(entry.check(), Ok(()));
        let late = TrainingEntry { actual_tpot_ms: f64::NAN, ..entry };
        assert_eq!(late.check(), Err(RowError::Negative("actual_tpot_ms")));
    }

    #[test]
    fn an_entry_is_written_as_the_server_reads_it() {
        let row =
            PredictionRow { kv_cache_percentage: 0.5, input_token_length: 3, ..PredictionRow::default() };
        let entry = TrainingEntry {
            actual_ttft_ms: 40.0,
            ..TrainingEntry::new(row, WallTime::from_unix_nanos(1_500_000_000))
        };
        assert_eq!(
            serde_json::to_string(&entry).expect("JSON"),
            concat!(
                r#"{"kv_cache_percentage":0.5,"input_token_length":3,"num_request_waiting":0,"#,
                r#""num_request_running":0,"num_tokens_generated":0,"actual_ttft_ms":40,"actual_tpot_ms":0,"#,
                r#""timestamp":"1970-01-01T00:00:01.5Z","prefix_cache_score":0,"encoder_input_size":0,"#,
                r#""encoder_matched_size":0,"prefill_tokens_in_flight":0,"decode_tokens_in_flight":0}"#
            )
        );
    }
}
