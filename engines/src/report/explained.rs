use std::fmt::{self, Display};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use comfy_table::Table;
use router::explain::{CandidateState, Explanation, ProfileTrace};
use serde::{Deserialize, Serialize};

use super::files::{DECISIONS, request_id};
use super::plain_table;
use crate::InputError;
use crate::input_file;

/// The longest line that is read, in bytes: thousands of endpoints with tens of scorers.
const MOST: u64 = 64 << 20;

const ACCEPTED: &str = "the folder of a run that was made with `lockstep run --out DIR --explain`";

/// The decisions of a run, as its files tell them.
#[derive(Debug)]
pub struct ExplainedRun {
    path: PathBuf,
    reader: BufReader<File>,
}

/// A decision with its reason; displays as tables, one a profile.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ExplainedDecision {
    /// The request's id.
    pub request_id: String,
    /// When it was taken, in seconds of simulated time.
    pub time_s: f64,
    /// The endpoint chosen.
    pub endpoint: Option<String>,
    /// How many endpoints could have been chosen.
    pub candidates: usize,
    /// Why none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The reason; `None` where the scheduler was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

impl ExplainedRun {
    /// Opens the decisions in the folder of a run, or the file itself.
    ///
    /// # Errors
    /// When there is none that can be read.
    pub fn open(run: &Path) -> Result<Self, InputError> {
        let path = if run.is_dir() { run.join(DECISIONS) } else { run.to_owned() };
        let reader = BufReader::new(input_file::open(&path, "the decisions", ACCEPTED)?);
        Ok(ExplainedRun { path, reader })
    }

    /// Returns the decisions about a request, in order.
    ///
    /// # Errors
    /// A line that is no decision, with its number, and a decision without a reason.
    pub fn decisions(mut self, request: u64) -> Result<Vec<ExplainedDecision>, InputError> {
        #[derive(Deserialize)]
        struct Named<'a> {
            request_id: &'a str,
        }
        let wanted = request_id(request);
        let mut found = Vec::new();
        let (mut line, mut number) = (Vec::new(), 0);
        let place =
            |error: InputError, number: u64| error.at_line(number).in_source(self.path.display().to_string());
        loop {
            number += 1;
            line.clear();
            let read = self.reader.by_ref().take(MOST + 1).read_until(b'\n', &mut line);
            let read = read.map_err(|error| {
                place(
                    InputError::new(format!("cannot read the decisions: {error}")).accepted(ACCEPTED),
                    number,
                )
            })?;
            if read == 0 {
                return Ok(found);
            }
            if read as u64 > MOST {
                let error =
                    InputError::new("the line is too long").accepted(format!("at most {MOST} bytes a line"));
                return Err(place(error, number));
            }
            let broken = |error: serde_json::Error| {
                place(InputError::new(format!("this is no decision: {error}")).accepted(ACCEPTED), number)
            };
            if serde_json::from_slice::<Named<'_>>(&line).map_err(broken)?.request_id != wanted {
                continue;
            }
            let decision: ExplainedDecision = serde_json::from_slice(&line).map_err(broken)?;
            if decision.explanation.is_none() && decision.refused.is_none() {
                return Err(place(InputError::new("the decision has no reason").accepted(ACCEPTED), number));
            }
            found.push(decision);
        }
    }
}

impl ExplainedDecision {
    /// Returns the decision as one line of JSON, with its end.
    ///
    /// # Panics
    /// Never: it was read from JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("it has text keys and no float that JSON has not") + "\n"
    }
}

impl Display for ExplainedDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExplainedDecision { request_id, time_s, endpoint, candidates, refused, explanation } = self;
        match (endpoint, refused) {
            (Some(endpoint), _) => {
                writeln!(f, "{request_id} at {time_s:.6} s: {endpoint}, one of {candidates} endpoints")?;
            }
            (None, refused) => {
                let why = refused.as_deref().unwrap_or("no endpoint");
                writeln!(f, "{request_id} at {time_s:.6} s: refused of {candidates} endpoints: {why}")?;
            }
        }
        let Some(explanation) = explanation else {
            return writeln!(f, "the scheduler was not asked");
        };
        for profile in &explanation.profiles {
            writeln!(f, "\nprofile {}", profile.profile)?;
            writeln!(f, "{}", table(explanation, profile).trim_fmt())?;
        }
        match &explanation.error {
            None => Ok(()),
            Some(error) => writeln!(f, "\nno endpoint: {error}"),
        }
    }
}

/// A row an endpoint: the picked ones, the other ranked ones by their sums, the dropped ones. Where sums are equal, it is
/// the order in which the picker left them.
fn table(explanation: &Explanation, profile: &ProfileTrace) -> Table {
    let scorers = profile.scorers.iter().map(|scorer| format!("{} x {}", scorer.plugin, scorer.weight));
    let header: Vec<String> = ["endpoint", "waiting", "running", "KV", "age ms"]
        .map(str::to_owned)
        .into_iter()
        .chain(scorers)
        .chain(["total".to_owned(), String::new()])
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    let mut table = plain_table(&header);
    let mut row = |endpoint: &str, total: Option<f64>, note: &str| {
        let state = explanation.candidates.iter().find(|candidate| candidate.endpoint == endpoint);
        let scores = profile.scorers.iter().map(|scorer| {
            let score = scorer.scores.iter().find(|(scored, _)| scored == endpoint);
            number(score.and_then(|(_, score)| *score))
        });
        let cells = [endpoint.to_owned()].into_iter().chain(state_cells(state)).chain(scores);
        table.add_row(cells.chain([number(total), note.to_owned()]));
    };
    let (picked, others) = profile.ranking.split_at(profile.picked.min(profile.ranking.len()));
    let mut others = others.to_vec();
    others.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    picked.iter().for_each(|(endpoint, total)| row(endpoint, Some(*total), "picked"));
    others.iter().for_each(|(endpoint, total)| row(endpoint, Some(*total), ""));
    for filter in &profile.filters {
        for endpoint in &filter.dropped {
            row(endpoint, None, &format!("dropped by {}", filter.plugin));
        }
    }
    table
}

fn state_cells(state: Option<&CandidateState>) -> [String; 4] {
    let Some(CandidateState { metrics_age_ms, waiting, running, kv_cache, .. }) = state else {
        return std::array::from_fn(|_| "-".to_owned());
    };
    let age = metrics_age_ms.map_or("never".to_owned(), |age| format!("{age:.1}"));
    [waiting.to_string(), running.to_string(), format!("{kv_cache:.3}"), age]
}

fn number(score: Option<f64>) -> String {
    score.map_or("-".to_owned(), |score| format!("{score:.4}"))
}

#[cfg(test)]
mod tests {
    use router::explain::{FilterTrace, ScorerTrace};

    use super::*;

    fn decision() -> ExplainedDecision {
        let state = |endpoint: &str, waiting, age| CandidateState {
            endpoint: endpoint.to_owned(),
            metrics_age_ms: age,
            waiting,
            running: 3,
            kv_cache: 0.25,
        };
        let scorer = |plugin: &str, weight, a, b| ScorerTrace {
            plugin: plugin.into(),
            weight,
            scores: vec![("ns/a".to_owned(), a), ("ns/b".to_owned(), b)],
        };
        let profile = ProfileTrace {
            profile: "default".to_owned(),
            filters: vec![FilterTrace { plugin: "decode-filter".into(), dropped: vec!["ns/c".to_owned()] }],
            scorers: vec![
                scorer("queue-scorer", 2.0, Some(1.0), Some(0.5)),
                scorer("mine", 1.0, None, Some(0.25)),
            ],
            ranking: vec![("ns/a".to_owned(), 2.0), ("ns/b".to_owned(), 1.25)],
            picked: 1,
        };
        ExplainedDecision {
            request_id: "request-7".to_owned(),
            time_s: 1.5,
            endpoint: Some("a".to_owned()),
            candidates: 3,
            refused: None,
            explanation: Some(Explanation {
                candidates: vec![
                    state("ns/a", 0, Some(12.34)),
                    state("ns/b", 4, None),
                    state("ns/c", 9, Some(1.0)),
                ],
                profiles: vec![profile],
                chosen: vec!["ns/a".to_owned()],
                ..Explanation::default()
            }),
        }
    }

    #[test]
    fn a_decision_is_a_table_a_profile() {
        let words: Vec<Vec<String>> = decision()
            .to_string()
            .lines()
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect();
        let line = |number: usize| words[number].join(" ");
        assert_eq!(line(0), "request-7 at 1.500000 s: a, one of 3 endpoints");
        assert_eq!(line(2), "profile default");
        assert_eq!(line(3), "endpoint waiting running KV age ms queue-scorer x 2 mine x 1 total");
        assert_eq!(line(4), "ns/a 0 3 0.250 12.3 1.0000 - 2.0000 picked");
        assert_eq!(line(5), "ns/b 4 3 0.250 never 0.5000 0.2500 1.2500");
        assert_eq!(line(6), "ns/c 9 3 0.250 1.0 - - - dropped by decode-filter");
    }

    #[test]
    fn decisions_are_found_by_their_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DECISIONS);
        let other = ExplainedDecision { request_id: "request-70".to_owned(), ..decision() };
        let refused = ExplainedDecision {
            endpoint: None,
            refused: Some("full".to_owned()),
            explanation: None,
            ..decision()
        };
        std::fs::write(&path, [other.json(), decision().json(), refused.json()].concat()).unwrap();
        for run in [folder.path(), &path] {
            let found = ExplainedRun::open(run).unwrap().decisions(7).unwrap();
            assert_eq!(found, [decision(), refused.clone()]);
        }
        assert!(refused.to_string().contains("refused of 3 endpoints: full"));
        assert_eq!(ExplainedRun::open(&path).unwrap().decisions(8).unwrap(), []);
    }

    #[test]
    fn what_tells_no_reasons_is_said_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(DECISIONS);
        let silent = ExplainedDecision { explanation: None, ..decision() };
        for (text, said) in [
            (silent.json(), "decisions.jsonl:1: the decision has no reason; accepted: the folder of a run"),
            (
                format!("{}\n{{\"request_id\":\"request-7\"}}\n", decision().json().trim()),
                ":2: this is no decision",
            ),
            ("request_id,arrival_s\n".to_owned(), ":1: this is no decision"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = ExplainedRun::open(folder.path()).unwrap().decisions(7).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let error = ExplainedRun::open(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("cannot read the decisions"), "{error}");
    }
}
