//! One profile: filters, then a weighted sum of scores, then a picker (scheduling spec 3.3).

use std::rc::Rc;

use super::{Filter, Picker, ProfileRunResult, SchedulingContext, Scored, Scorer, Target};
use crate::candidates::Candidate;
use crate::error::{ErrorCode, InferenceError};
use crate::explain::{self, FilterTrace, ProfileTrace, ScorerTrace};
use crate::plugin::Instance;

/// Weight of a scorer that the configuration gives none.
const DEFAULT_WEIGHT: f64 = 1.0;

struct NamedFilter {
    name: Rc<str>,
    filter: Rc<dyn Filter>,
}

struct WeightedScorer {
    name: Rc<str>,
    scorer: Rc<dyn Scorer>,
    weight: f64,
}

/// A named chain of plugins that turns candidates into targets.
pub struct Profile {
    name: Rc<str>,
    filters: Vec<NamedFilter>,
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

    /// Runs the chain over all candidates; `trace` takes what each plugin did.
    ///
    /// # Errors
    /// `Internal` when no candidate is left to pick from, or the picker picks none. The scheduler only logs it.
    pub fn run(
        &self,
        cx: &SchedulingContext<'_>,
        mut trace: Option<&mut ProfileTrace>,
    ) -> Result<ProfileRunResult, InferenceError> {
        let mut survivors: Vec<Candidate> = cx.candidates.all().collect();
        for NamedFilter { name, filter } in &self.filters {
            let before = trace.is_some().then(|| survivors.clone());
            filter.filter(cx, &mut survivors);
            if let (Some(trace), Some(before)) = (trace.as_deref_mut(), before) {
                let dropped = before.into_iter().filter(|candidate| !survivors.contains(candidate));
                let dropped = dropped.map(|candidate| explain::name_of(cx.candidates, candidate)).collect();
                trace.filters.push(FilterTrace { plugin: Rc::clone(name), dropped });
            }
            if survivors.is_empty() {
                break;
            }
        }
        if survivors.is_empty() {
            return Err(internal("no endpoints available for the given request"));
        }
        let mut scored = self.score(cx, &survivors, trace.as_deref_mut());
        let picked = self.picker.pick(&mut scored).min(scored.len());
        if let Some(trace) = trace {
            let named = |scored: &Scored| (explain::name_of(cx.candidates, scored.candidate), scored.score);
            trace.ranking = scored.iter().map(named).collect();
            trace.picked = picked;
        }
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
    fn score(
        &self,
        cx: &SchedulingContext<'_>,
        survivors: &[Candidate],
        mut trace: Option<&mut ProfileTrace>,
    ) -> Vec<Scored> {
        let mut totals: Vec<Scored> =
            survivors.iter().map(|&candidate| Scored { candidate, score: 0.0 }).collect();
        let mut scores = vec![None; survivors.len()];
        for WeightedScorer { name, scorer, weight } in &self.scorers {
            scores.fill(None);
            scorer.score(cx, survivors, &mut scores);
            if let Some(trace) = trace.as_deref_mut() {
                let named = |&candidate: &Candidate| explain::name_of(cx.candidates, candidate);
                let scores = survivors.iter().map(named).zip(scores.iter().copied()).collect();
                trace.scorers.push(ScorerTrace { plugin: Rc::clone(name), weight: *weight, scores });
            }
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
    filters: Vec<NamedFilter>,
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
            self.filters.push(NamedFilter { name: Rc::clone(&instance.id.name), filter: Rc::clone(filter) });
        }
        if let Some(scorer) = &roles.scorer {
            let weight = weight.unwrap_or(DEFAULT_WEIGHT);
            let name = Rc::clone(&instance.id.name);
            self.scorers.push(WeightedScorer { name, scorer: Rc::clone(scorer), weight });
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
