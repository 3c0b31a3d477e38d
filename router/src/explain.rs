//! Why a decision came out as it did: collected only where somebody asked for it.

use std::collections::VecDeque;
use std::rc::Rc;

use executor::Instant;
use serde::{Deserialize, Serialize};

use crate::candidates::{Candidate, Candidates};
use crate::endpoint::Endpoint;
use crate::request::InferenceRequest;
use crate::scheduling::Target;

/// The reason of one decision.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Explanation {
    /// The request's id.
    pub request_id: String,
    /// The model that the request is for, after rewriting.
    pub model: String,
    /// When it was taken. Unit: seconds of the host's clock.
    pub time_s: f64,
    /// The endpoints that could have been chosen, as the decision saw them.
    pub candidates: Vec<CandidateState>,
    /// What each profile did, in the order of the runs.
    pub profiles: Vec<ProfileTrace>,
    /// The chosen endpoints, best first; empty where there is none.
    pub chosen: Vec<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What was known of an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct CandidateState {
    /// Its identity, `namespace/name`.
    pub endpoint: String,
    /// How old its metrics were; `None` = never scraped. Unit: milliseconds.
    pub metrics_age_ms: Option<f64>,
    /// Waiting requests.
    pub waiting: i64,
    /// Running requests.
    pub running: i64,
    /// KV cache in use, 0..=1.
    pub kv_cache: f64,
}

/// What one profile did.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ProfileTrace {
    /// Its name.
    pub profile: String,
    /// Filters as they ran; those behind one that left nobody did not.
    pub filters: Vec<FilterTrace>,
    /// Scorers as they ran.
    pub scorers: Vec<ScorerTrace>,
    /// Every scored endpoint with its sum, in the order in which the picker left them: the picked ones first. What
    /// broke a tie is this order.
    pub ranking: Vec<(String, f64)>,
    /// How many of them were picked.
    pub picked: usize,
}

/// What a filter did.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct FilterTrace {
    /// The plugin's name.
    pub plugin: Rc<str>,
    /// The endpoints that it dropped.
    pub dropped: Vec<String>,
}

/// What a scorer did.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct ScorerTrace {
    /// The plugin's name.
    pub plugin: Rc<str>,
    /// Its weight.
    pub weight: f64,
    /// Endpoints with their scores as the scorer gave them; `None` = not scored. They count cut to 0..=1, times the
    /// weight.
    pub scores: Vec<(String, Option<f64>)>,
}

impl Explanation {
    /// Returns the reason of a decision at `now`.
    pub fn new(
        request: &InferenceRequest,
        candidates: &Candidates,
        profiles: Vec<ProfileTrace>,
        outcome: Result<&[Target], String>,
        now: Instant,
    ) -> Self {
        let targets = outcome.as_ref().map_or(&[][..], |targets| targets);
        Explanation {
            request_id: request.request_id.clone(),
            model: request.target_model.clone(),
            time_s: now.as_secs_f64(),
            candidates: candidates.endpoints().iter().map(|endpoint| state(endpoint, now)).collect(),
            profiles,
            chosen: targets.iter().map(|target| name(&target.endpoint)).collect(),
            error: outcome.err(),
        }
    }

    /// Returns it in one line of visible ASCII, for a header: what was chosen, out of how many, with what score.
    pub fn line(&self) -> String {
        let chosen = self.chosen.first().map_or("-", String::as_str);
        // The sum of the profile that ran last of those that scored it.
        let mut rankings = self.profiles.iter().rev().flat_map(|profile| &profile.ranking);
        let score = rankings.find(|(endpoint, _)| endpoint == chosen);
        let score = score.map_or_else(|| "-".to_owned(), |(_, score)| score.to_string());
        let line = format!("endpoint={chosen}; score={score}; candidates={}", self.candidates.len());
        line.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
    }
}

fn state(endpoint: &Endpoint, now: Instant) -> CandidateState {
    let metrics = &endpoint.metrics;
    CandidateState {
        endpoint: name(endpoint),
        metrics_age_ms: metrics.update_time.map(|at| (now - at).as_secs_f64() * 1e3),
        waiting: metrics.waiting_queue_size,
        running: metrics.running_requests_size,
        kv_cache: metrics.kv_cache_usage_percent,
    }
}

/// Returns what an endpoint is called in explanations.
pub(crate) fn name(endpoint: &Endpoint) -> String {
    endpoint.metadata.id.to_string()
}

/// Returns what a candidate is called in explanations.
pub(crate) fn name_of(candidates: &Candidates, candidate: Candidate) -> String {
    name(candidates.endpoint(candidate))
}

/// The last explanations, up to a number.
#[derive(Debug)]
pub struct Explanations {
    capacity: usize,
    last: VecDeque<Rc<Explanation>>,
}

impl Explanations {
    /// Returns a memory of the last `capacity` explanations.
    pub fn new(capacity: usize) -> Self {
        Explanations { capacity, last: VecDeque::new() }
    }

    /// Keeps an explanation and forgets the oldest where there are too many.
    pub fn push(&mut self, explanation: Explanation) {
        if self.last.len() >= self.capacity {
            self.last.pop_front();
        }
        if self.capacity > 0 {
            self.last.push_back(Rc::new(explanation));
        }
    }

    /// Returns the latest explanation of a request.
    pub fn of(&self, request_id: &str) -> Option<&Rc<Explanation>> {
        self.last.iter().rev().find(|explanation| explanation.request_id == request_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explanation(id: &str) -> Explanation {
        Explanation { request_id: id.to_owned(), ..Explanation::default() }
    }

    #[test]
    fn the_oldest_is_forgotten_and_the_latest_of_a_request_is_found() {
        let mut all = Explanations::new(2);
        for id in ["a", "b", "b"] {
            all.push(Explanation { time_s: 1.0, ..explanation(id) });
        }
        assert_eq!(all.of("a"), None);
        all.push(Explanation { time_s: 2.0, ..explanation("b") });
        assert_eq!(all.of("b").map(|explanation| explanation.time_s), Some(2.0));
        assert_eq!(all.last.len(), 2);
        let mut none = Explanations::new(0);
        none.push(explanation("a"));
        assert_eq!(none.of("a"), None);
    }

    #[test]
    fn the_line_can_stand_in_a_header() {
        let ranking = vec![("ns/\u{e9}".to_owned(), 1.5), ("ns/b".to_owned(), 1.0)];
        let profiles = vec![ProfileTrace { ranking, picked: 1, ..ProfileTrace::default() }];
        let chosen = vec!["ns/\u{e9}".to_owned()];
        let explanation = Explanation { profiles, chosen, ..explanation("a") };
        assert_eq!(explanation.line(), "endpoint=ns/?; score=1.5; candidates=0");
        assert_eq!(Explanation::default().line(), "endpoint=-; score=-; candidates=0");
    }
}
