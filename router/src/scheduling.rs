//! The scheduler: profiles of filters, scorers and a picker (scheduling spec 3).
//!
//! Decisions are pure in (request, candidates, now, the picker's random stream).

pub mod deciders;
pub mod filters;
pub mod pickers;
mod profile;
pub mod profile_handlers;
#[cfg(test)]
mod properties;
mod scheduler;
pub mod scorers;
pub mod session_affinity;
#[cfg(test)]
mod table;
#[cfg(test)]
pub(crate) mod testing;
pub mod topology;

pub use profile::{Profile, ProfileBuilder, TwoPickers};
pub use scheduler::Scheduler;

use std::any::Any;
use std::rc::Rc;

use executor::Instant;
use indexmap::IndexMap;

use crate::candidates::{Candidate, Candidates};
use crate::data_key::DataKey;
use crate::endpoint::Endpoint;
use crate::error::PluginError;
use crate::plugin::{Factory, FactoryError, ParameterError};
use crate::request::InferenceRequest;

/// Returns the scheduling plugin types that are built, each with its factory.
pub fn types() -> impl Iterator<Item = (&'static str, Factory)> {
    [filters::TYPES, scorers::TYPES, pickers::TYPES, profile_handlers::TYPES, deciders::TYPES]
        .into_iter()
        .flatten()
        .copied()
}

/// What a scheduling plugin may look at.
#[derive(Clone, Copy, Debug)]
pub struct SchedulingContext<'a> {
    /// The request.
    pub request: &'a InferenceRequest,
    /// All candidates of the decision, with their attributes.
    pub candidates: &'a Candidates,
    /// The instant of the decision.
    pub now: Instant,
}

/// Drops candidates.
pub trait Filter {
    /// Removes from `survivors` those that do not pass; the order of the others stays.
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>);
}

/// What a scorer works towards; informational.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScorerCategory {
    /// Sends like to like.
    Affinity,
    /// Spreads.
    Distribution,
    /// Weighs both.
    Balance,
}

/// Scores candidates.
pub trait Scorer {
    /// Returns the category.
    fn category(&self) -> ScorerCategory;

    /// Writes the raw score of `survivors[i]` to `scores[i]`; `None` (as given) = not scored, which counts as
    /// zero. Meant to be in 0..=1; the profile clamps.
    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]);
}

/// A candidate with its weighted total.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The candidate.
    pub candidate: Candidate,
    /// Sum of clamped scores times weights.
    pub score: f64,
}

/// Chooses among scored candidates. Receives neither the request nor the clock.
pub trait Picker {
    /// Moves the chosen ones, in order, to the front of `scored` and returns how many they are; zero = no
    /// result, which fails the profile.
    fn pick(&self, scored: &mut [Scored]) -> usize;
}

/// A chosen endpoint.
#[derive(Clone, Debug)]
pub struct Target {
    /// The snapshot that the decision saw.
    pub endpoint: Rc<Endpoint>,
    /// The candidate behind it; `None` for a copy that a profile handler made (with another port), which has
    /// lost attributes and score (scheduling spec 7.2).
    pub scored: Option<Scored>,
}

impl Target {
    /// Returns this request's value under `key` for the target, `None` for a copy.
    pub fn read<'a, T: Any>(&self, candidates: &'a Candidates, key: &'a DataKey) -> Option<&'a T> {
        candidates.read(key).get(self.scored?.candidate)
    }
}

/// What one profile decided.
#[derive(Clone, Debug, Default)]
pub struct ProfileRunResult {
    /// Chosen endpoints, best first.
    pub targets: Vec<Target>,
    /// Every candidate that was scored.
    pub scored: Vec<Scored>,
}

/// Profile name to result, in the order of the runs; `None` = failed or skipped.
pub type ProfileResults = IndexMap<Rc<str>, Option<ProfileRunResult>, rustc_hash::FxBuildHasher>;

/// What the scheduler decided.
#[derive(Clone, Debug, Default)]
pub struct SchedulingResult {
    /// Results by profile.
    pub profiles: ProfileResults,
    /// The profile whose targets serve the request.
    pub primary: Rc<str>,
}

impl SchedulingResult {
    /// Returns the primary profile's targets, empty where it has none.
    pub fn primary_targets(&self) -> &[Target] {
        self.profile_targets(&self.primary)
    }

    /// Returns the targets of profile `name`, empty where it failed, was skipped or did not run.
    pub fn profile_targets(&self, name: &str) -> &[Target] {
        self.profiles.get(name).and_then(Option::as_ref).map_or(&[], |r| r.targets.as_slice())
    }
}

/// Says which profiles run, and what their results mean.
///
/// Unlike the plugins of a profile it may write to the request: headers for the model server, attributes for
/// the profiles that run later.
pub trait ProfileHandler {
    /// Returns the names of the profiles to run next, empty when all have run. May mark profiles as skipped
    /// by entering `None` in `results`.
    fn pick(
        &self,
        request: &mut InferenceRequest,
        candidates: &Candidates,
        profiles: &[Rc<str>],
        results: &mut ProfileResults,
    ) -> Vec<Rc<str>>;

    /// Turns the results into the decision.
    fn process_results(
        &self,
        request: &mut InferenceRequest,
        results: ProfileResults,
    ) -> Result<SchedulingResult, PluginError>;
}

/// Request attribute under which a profile handler leaves the endpoint picked so far (`Rc<Endpoint>`), so that a
/// later profile can prefer its neighbours (scheduling spec 7.4).
pub const PEER_ENDPOINT: &str = "peer-endpoint";

/// Answers whether a request is worth splitting over several endpoints (scheduling spec 7.7).
pub trait Decider {
    /// Returns whether to run the stage in question; `endpoint` is the decode pick, where there is one.
    fn disaggregate(
        &self,
        request: &InferenceRequest,
        candidates: &Candidates,
        endpoint: Option<&Target>,
    ) -> bool;
}

/// Returns the error of a parameter that decodes but is not accepted.
fn invalid(message: impl Into<String>) -> FactoryError {
    FactoryError::Parameters(ParameterError::new(message))
}

/// Returns the name that an instance reports: upstream's newer plugins replace an empty name by their type.
fn name_or<'a>(name: &'a str, plugin_type: &'a str) -> &'a str {
    if name.is_empty() { plugin_type } else { name }
}
