//! `session-affinity-scorer`: a session's endpoint scores one, all others zero (scheduling spec 5.7).

use std::rc::Rc;

use crate::candidates::Candidate;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::session_affinity::SessionAffinity;
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "session-affinity-scorer";

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let (affinity, roles) = SessionAffinity::new(parameters, handle)?;
    let scorer: Rc<dyn Scorer> = Rc::new(SessionAffinityScorer(affinity));
    Ok(Instance::new(TYPE, name, Roles { scorer: Some(scorer), ..roles }))
}

struct SessionAffinityScorer(Rc<SessionAffinity>);

impl Scorer for SessionAffinityScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Affinity
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let preference = self.0.preference(cx, survivors);
        for (&candidate, score) in survivors.iter().zip(scores) {
            let preferred = preference.as_ref().is_some_and(|preference| preference.is(cx, candidate));
            *score = Some(f64::from(u8::from(preferred)));
        }
    }
}
