use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use router::explain::Explanation;
use serde::Serialize;

use super::{Decision, Observer, RequestEnd, Summary};
use crate::InputError;

const REQUESTS: &str = "requests.csv";
pub(super) const DECISIONS: &str = "decisions.jsonl";
const SUMMARY: &str = "summary.json";

/// The columns of `requests.csv`.
const COLUMNS: [&str; 9] = [
    "request_id",
    "arrival_s",
    "endpoint",
    "prompt_tokens",
    "output_tokens",
    "prefix_hit_tokens",
    "ttft_ms",
    "e2e_ms",
    "outcome",
];

/// The files of a run: `requests.csv` and `decisions.jsonl` are written while it runs, a row for each request
/// when it ends and a line for each decision; `summary.json` at its end.
///
/// After the first error nothing more is written; [`Files::finish`] returns it. Files that are dropped before they
/// are finished are removed: a part of a run is not left behind without a word that it is one.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    requests: csv::Writer<File>,
    decisions: BufWriter<File>,
    explains: bool,
    error: Option<InputError>,
    finished: bool,
}

#[derive(Serialize)]
struct DecisionLine<'a> {
    request_id: &'a str,
    time_s: f64,
    endpoint: Option<&'a str>,
    candidates: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a Explanation>,
}

impl Files {
    /// Creates the folder and the files in it; files of an earlier run are replaced.
    ///
    /// # Errors
    /// When the folder or a file cannot be created.
    pub fn create(folder: &Path) -> Result<Self, InputError> {
        if folder.exists() && !folder.is_dir() {
            let error = InputError::new("exists and is no folder").accepted(OUT);
            return Err(error.in_source(folder.display().to_string()));
        }
        fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
        // What is there of an earlier run would be taken for this one's.
        match fs::remove_file(folder.join(SUMMARY)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(unwritable(&folder.join(SUMMARY), &error));
            }
            _ => {}
        }
        let create = |name: &str| {
            let path = folder.join(name);
            File::create(&path).map_err(|error| unwritable(&path, &error))
        };
        let mut requests = csv::Writer::from_writer(create(REQUESTS)?);
        let header = requests.write_record(COLUMNS).map_err(io::Error::from);
        header.map_err(|error| unwritable(&folder.join(REQUESTS), &error))?;
        let decisions = BufWriter::with_capacity(1 << 16, create(DECISIONS)?);
        Ok(Files {
            folder: folder.to_owned(),
            requests,
            decisions,
            explains: false,
            error: None,
            finished: false,
        })
    }

    /// Makes every line of `decisions.jsonl` carry the reason of its decision, where `explains` says so.
    #[must_use]
    pub fn explaining(mut self, explains: bool) -> Self {
        self.explains = explains;
        self
    }

    /// Writes what is buffered, and `summary.json`.
    ///
    /// # Errors
    /// The first error of the run.
    pub fn finish(mut self, summary: &Summary) -> Result<(), InputError> {
        let flushed = self.requests.flush();
        self.keep(REQUESTS, flushed);
        let flushed = self.decisions.flush();
        self.keep(DECISIONS, flushed);
        let written = serde_json::to_vec_pretty(summary).map_err(io::Error::from).and_then(|mut json| {
            json.push(b'\n');
            fs::write(self.folder.join(SUMMARY), json)
        });
        self.keep(SUMMARY, written);
        self.finished = true;
        self.error.take().map_or(Ok(()), Err)
    }

    fn keep(&mut self, name: &str, result: io::Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert_with(|| unwritable(&self.folder.join(name), &error));
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        if !self.finished {
            for name in [REQUESTS, DECISIONS] {
                // Nobody is left to be told.
                let _ = fs::remove_file(self.folder.join(name));
            }
        }
    }
}

impl Observer for Files {
    fn wants_explanations(&self) -> bool {
        self.explains
    }

    fn decided(&mut self, decision: &Decision<'_>) {
        if self.error.is_some() {
            return;
        }
        let line = DecisionLine {
            request_id: &request_id(decision.request),
            time_s: decision.at.as_secs_f64(),
            endpoint: decision.endpoint.ok(),
            candidates: decision.candidates,
            refused: decision.endpoint.err(),
            explanation: decision.explanation,
        };
        let written = serde_json::to_writer(&mut self.decisions, &line).map_err(io::Error::from);
        let written = written.and_then(|()| self.decisions.write_all(b"\n"));
        self.keep(DECISIONS, written);
    }

    fn tokens_followed(&mut self, _: std::time::Duration, _: u64) {}

    fn request_ended(&mut self, request: &RequestEnd<'_>) {
        if self.error.is_some() {
            return;
        }
        let millis = |duration: std::time::Duration| format!("{:.3}", duration.as_secs_f64() * 1e3);
        let row = [
            request_id(request.request),
            format!("{:.6}", request.arrival.as_secs_f64()),
            request.endpoint.unwrap_or_default().to_owned(),
            request.prompt_tokens.to_string(),
            request.output_tokens.to_string(),
            request.prefix_hit_tokens.to_string(),
            request.ttft().map(millis).unwrap_or_default(),
            millis(request.e2e()),
            request.outcome.name().to_owned(),
        ];
        let written = self.requests.write_record(row).map_err(io::Error::from);
        self.keep(REQUESTS, written);
    }
}

/// The name of a request in the files.
pub(super) fn request_id(index: u64) -> String {
    format!("request-{index}")
}

/// What `--out` accepts.
const OUT: &str = "a folder that can be written, for --out";

fn unwritable(path: &Path, error: &io::Error) -> InputError {
    InputError::new(format!("cannot write: {error}")).accepted(OUT).in_source(path.display().to_string())
}
