//! One profile: filters, then a weighted sum of scores, then a picker (scheduling spec 3.3).

use std::rc::Rc;

use super::{Filter, Picker, ProfileRunResult, SchedulingContext, Scored, Scorer, Target};
use crate::candidates::Candidate;
use crate::error::{ErrorCode, InferenceError};
use crate::plugin::Instance;

/// Weight of a scorer that the configuration gives none.
const DEFAULT_WEIGHT: f64 = 1.0;

struct WeightedScorer {
    scorer: Rc<dyn Scorer>,
    weight: f64,
}

/// A named chain of plugins that turns candidates into targets.
pub struct Profile {
    name: Rc<str>,
    filters: Vec<Rc<dyn Filter>>,
    scorers: Vec<WeightedScorer>,
    picker: Rc<dyn Picker>,
}

impl Profile {
    /// Returns a builder of the profile `name`.
    pub fn builder(name: &str) -> ProfileBuilder {
        ProfileBuilder { name: name.into(), filters: Vec::new(), scorers: Vec::new(), picker: None }
    }

    /// Returns the name, unique in a scheduler.
    pub fn name(&self) -> &Rc<str> {
        &self.name
    }

    /// Runs the chain over all candidates.
    ///
    /// # Errors
    /// `Internal` when no candidate is left to pick from, or the picker picks none. The scheduler only logs it.
    pub fn run(&self, cx: &SchedulingContext<'_>) -> Result<ProfileRunResult, InferenceError> {
        let mut survivors: Vec<Candidate> = cx.candidates.all().collect();
        for filter in &self.filters {
            filter.filter(cx, &mut survivors);
            if survivors.is_empty() {
                break;
            }
        }
        if survivors.is_empty() {
            return Err(internal("no endpoints available for the given request"));
        }
        let mut scored = self.score(cx, &survivors);
        let picked = self.picker.pick(&mut scored).min(scored.len());
        if picked == 0 {
            return Err(internal("the picker chose no endpoint"));
        }
        let target = |scored: &Scored| Target {
            endpoint: Rc::clone(cx.candidates.endpoint(scored.candidate)),
            scored: Some(*scored),
        };
        Ok(ProfileRunResult { targets: scored[..picked].iter().map(target).collect(), scored })
    }

    /// Sums up clamped scores times weights, scorer after scorer, so that the additions have one order.
    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate]) -> Vec<Scored> {
        let mut totals: Vec<Scored> =
            survivors.iter().map(|&candidate| Scored { candidate, score: 0.0 }).collect();
        let mut scores = vec![None; survivors.len()];
        for WeightedScorer { scorer, weight } in &self.scorers {
            scores.fill(None);
            scorer.score(cx, survivors, &mut scores);
            for (total, score) in totals.iter_mut().zip(&scores) {
                if let Some(score) = score {
                    total.score += clamp(*score) * weight;
                }
            }
        }
        totals
    }
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile")
            .field("name", &self.name)
            .field("filters", &self.filters.len())
            .field("weights", &self.scorers.iter().map(|s| s.weight).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

/// Cuts a score to 0..=1; NaN stays NaN.
fn clamp(score: f64) -> f64 {
    score.clamp(0.0, 1.0)
}

fn internal(message: &str) -> InferenceError {
    InferenceError::new(ErrorCode::Internal, message)
}

/// Collects a profile's plugins in the order of its references (scheduling spec 3.1 step 8).
pub struct ProfileBuilder {
    name: Rc<str>,
    filters: Vec<Rc<dyn Filter>>,
    scorers: Vec<WeightedScorer>,
    picker: Option<Rc<dyn Picker>>,
}

/// A profile references a second picker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("profile {profile}: {plugin} is a second picker; a profile has exactly one")]
pub struct TwoPickers {
    /// The profile.
    pub profile: String,
    /// The second picker, as `name/type`.
    pub plugin: String,
}

impl ProfileBuilder {
    /// Enters the instance into every slot whose capability it has; one that has none is ignored.
    ///
    /// An instance added twice acts twice.
    pub fn add(&mut self, instance: &Instance, weight: Option<f64>) -> Result<(), TwoPickers> {
        let roles = &instance.roles;
        if let Some(filter) = &roles.filter {
            self.filters.push(Rc::clone(filter));
        }
        if let Some(scorer) = &roles.scorer {
            let weight = weight.unwrap_or(DEFAULT_WEIGHT);
            self.scorers.push(WeightedScorer { scorer: Rc::clone(scorer), weight });
        }
        if let Some(picker) = &roles.picker {
            if self.picker.is_some() {
                let (profile, plugin) = (self.name.to_string(), instance.id.to_string());
                return Err(TwoPickers { profile, plugin });
            }
            self.picker = Some(Rc::clone(picker));
        }
        Ok(())
    }

    /// Returns whether a picker was added.
    pub fn has_picker(&self) -> bool {
        self.picker.is_some()
    }

    /// Returns the profile; `default_picker` picks where no picker was added.
    pub fn build(self, default_picker: impl FnOnce() -> Rc<dyn Picker>) -> Profile {
        let ProfileBuilder { name, filters, scorers, picker } = self;
        Profile { name, filters, scorers, picker: picker.unwrap_or_else(default_picker) }
    }
}

impl std::fmt::Debug for ProfileBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProfileBuilder").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
