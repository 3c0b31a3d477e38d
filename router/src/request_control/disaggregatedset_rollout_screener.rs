//! `disaggregatedset-rollout-screener`: keeps a request on one revision of a disaggregated deployment while a new one
//! rolls out (request-control spec 10).

mod parameters;
mod revisions;

pub use parameters::RolloutScreenerParameters;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use executor::Stream;

use super::{ResponseHeaderProcessor, ResponseRecord, Screener};
use crate::candidates::{Candidate, Candidates};
use crate::data_layer::endpoints::Endpoints;
use crate::data_layer::{PodEvent, PodListener};
use crate::endpoint::EndpointMetadata;
use crate::headers::Headers;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;
use revisions::Revisions;

/// Name of the type.
pub const TYPE: &str = "disaggregatedset-rollout-screener";

/// Builds an instance, which draws from the stream of its name. It asks for pods only where revisions are gated.
///
/// # Errors
/// Parameters that are missing, do not decode or are out of range.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let screener = Rc::new(RolloutScreener::new(parameters, handle.stream(name))?);
    let roles = Roles {
        screener: Some(Rc::clone(&screener) as Rc<dyn Screener>),
        response_header: Some(Rc::clone(&screener) as Rc<dyn ResponseHeaderProcessor>),
        pod_listener: screener.revisions.is_some().then(|| Rc::clone(&screener) as Rc<dyn PodListener>),
        ..Roles::default()
    };
    Ok(Instance::new(TYPE, name, roles))
}

/// A header that chooses endpoints by a label.
#[derive(Debug)]
struct HeaderSelector {
    name: String,
    header: String,
    label: String,
    /// Whether only endpoints whose label has the header's value will do.
    strict: bool,
}

/// The screener behind [`factory`].
pub struct RolloutScreener {
    selectors: Vec<HeaderSelector>,
    /// `None` = revisions are not gated.
    revisions: Option<RefCell<Revisions>>,
    draws: RefCell<Stream>,
}

impl RolloutScreener {
    /// Returns a screener that draws from `draws`.
    ///
    /// # Errors
    /// As [`factory`].
    pub fn new(parameters: &Parameters, draws: Stream) -> Result<Self, FactoryError> {
        let (selectors, revisions) = parameters::read(parameters)?;
        Ok(RolloutScreener { selectors, revisions: revisions.map(RefCell::new), draws: RefCell::new(draws) })
    }

    /// Returns the share of each revision that can serve; they add up to one.
    pub fn shares(&self) -> BTreeMap<String, f64> {
        self.revisions.as_ref().map(|revisions| revisions.borrow().shares().clone()).unwrap_or_default()
    }

    /// Returns the candidates that may stay, where `draw` gives a number in `0..1`. Pure in its arguments and the
    /// pods seen.
    ///
    /// A request that no strict header pins gets one of the revisions among the candidates, by their shares.
    pub fn screen_with(
        &self,
        headers: &Headers,
        candidates: &Candidates,
        draw: impl FnOnce() -> f64,
    ) -> Vec<Candidate> {
        let label = |candidate: Candidate, key: &str| {
            candidates.endpoint(candidate).metadata.labels.get(key).map(String::as_str)
        };
        let value = |selector: &HeaderSelector| {
            headers.get(&selector.header).filter(|value| selector.strict && !value.is_empty())
        };
        let mut kept: Vec<Candidate> = candidates.all().collect();
        if let Some(revisions) = &self.revisions {
            let revisions = revisions.borrow();
            let named = kept.iter().filter_map(|candidate| label(*candidate, &revisions.label));
            let present: BTreeSet<&str> = named.collect();
            let present = present.into_iter();
            let mut allowed: Vec<(&str, f64)> =
                present.filter_map(|name| Some((name, *revisions.shares().get(name)?))).collect();
            if !self.selectors.iter().any(|selector| value(selector).is_some()) {
                let chosen = choose(&allowed, draw());
                allowed.retain(|(name, _)| Some(*name) == chosen);
            }
            kept.retain(|candidate| {
                label(*candidate, &revisions.label)
                    .is_some_and(|own| allowed.iter().any(|(name, _)| *name == own))
            });
        }
        for selector in &self.selectors {
            let Some(value) = value(selector) else { continue };
            kept.retain(|candidate| label(*candidate, &selector.label) == Some(value));
            if kept.is_empty() {
                tracing::debug!(
                    selector = selector.name,
                    value,
                    "no endpoint bears the label of a strict header"
                );
                return kept;
            }
        }
        kept
    }
}

/// Returns the first of `shares` whose cumulated share exceeds the draw's part of all; the last one where rounding
/// leaves none.
fn choose<'a>(shares: &[(&'a str, f64)], u: f64) -> Option<&'a str> {
    let x = u * shares.iter().map(|(_, share)| share).sum::<f64>();
    let mut cumulated = 0.0;
    let first = shares.iter().find(|(_, share)| {
        cumulated += share;
        cumulated > x
    });
    first.or(shares.last()).map(|(name, _)| *name)
}

impl Screener for RolloutScreener {
    fn screen(&self, request: &InferenceRequest, candidates: &Candidates) -> Vec<Candidate> {
        self.screen_with(&request.headers, candidates, || self.draws.borrow_mut().unit())
    }
}

impl ResponseHeaderProcessor for RolloutScreener {
    fn response_header(
        &self,
        _: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        target: Option<&Rc<EndpointMetadata>>,
    ) {
        let Some(target) = target else { return };
        for selector in &self.selectors {
            if let Some(value) = target.labels.get(&selector.label).filter(|value| !value.is_empty()) {
                response.headers.insert(&selector.header, value.clone());
            }
        }
    }
}

impl PodListener for RolloutScreener {
    fn on_pod(&self, event: &PodEvent, _: &Endpoints) {
        if let Some(revisions) = &self.revisions {
            revisions.borrow_mut().on_pod(event);
        }
    }
}

impl std::fmt::Debug for RolloutScreener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RolloutScreener").field("selectors", &self.selectors).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
