//! Session affinity: keeps a session on its endpoint (scheduling spec 8.1). The filter pins hard, the scorer
//! softly; what they share is here.

mod parameters;
mod sessions;
pub mod token;

use std::rc::Rc;

use executor::Rt;

use self::parameters::Settings;
use self::sessions::Sessions;
use crate::candidates::{Candidate, Candidates};
use crate::endpoint::{EndpointId, EndpointMetadata};
use crate::error::PluginError;
use crate::plugin::{FactoryError, Handle, Parameters, Periodic, Roles};
use crate::request::InferenceRequest;
use crate::request_control::{PreRequest, ResponseHeaderProcessor, ResponseRecord};
use crate::scheduling::{SchedulingContext, SchedulingResult};

pub use self::parameters::header_or_default;

/// How sessions are recognised, and what is known of them.
pub(super) struct SessionAffinity {
    /// The profile whose pick counts; empty = the primary one.
    profile: String,
    strategy: Strategy,
    rt: Rt,
}

enum Strategy {
    /// The client brings back a token that names the endpoint; nothing is stored.
    Token { header: String },
    /// The client names its session; the endpoint is remembered here.
    SessionId(Rc<Sessions>),
}

/// Where a session wants to go.
pub(super) enum Preference {
    /// To every candidate of this ID, as text.
    Id(Vec<u8>),
    /// To this one.
    Candidate(Candidate),
}

impl SessionAffinity {
    /// Reads the parameters; returns the affinity and the roles that it fills by itself.
    pub(super) fn new(parameters: &Parameters, handle: &Handle) -> Result<(Rc<Self>, Roles), FactoryError> {
        let Settings { profile, strategy } = Settings::new(parameters)?;
        let affinity = Rc::new(SessionAffinity { profile, strategy, rt: handle.rt().clone() });
        let periodic = match &affinity.strategy {
            Strategy::Token { .. } => Vec::new(),
            Strategy::SessionId(sessions) => {
                vec![Rc::clone(sessions) as Rc<dyn Periodic>, Rc::new(sessions::Janitor(Rc::clone(sessions)))]
            }
        };
        let roles = Roles {
            pre_request: Some(Rc::clone(&affinity) as Rc<dyn PreRequest>),
            response_header: Some(Rc::clone(&affinity) as Rc<dyn ResponseHeaderProcessor>),
            periodic,
            ..Roles::default()
        };
        Ok((affinity, roles))
    }

    /// Returns where the request's session wants to go, `None` where it has no say.
    pub(super) fn preference(
        &self,
        cx: &SchedulingContext<'_>,
        survivors: &[Candidate],
    ) -> Option<Preference> {
        match &self.strategy {
            Strategy::Token { header } => {
                let decoded = token::decode(cx.request.headers.get(header)?);
                (!decoded.is_empty()).then_some(Preference::Id(decoded))
            }
            Strategy::SessionId(sessions) => sessions.choose(cx, survivors).map(Preference::Candidate),
        }
    }
}

impl Preference {
    /// Returns whether the session wants to go to `candidate`.
    pub(super) fn is(&self, cx: &SchedulingContext<'_>, candidate: Candidate) -> bool {
        match self {
            Preference::Id(text) => is_text_of(&cx.candidates.endpoint(candidate).metadata.id, text),
            Preference::Candidate(preferred) => *preferred == candidate,
        }
    }
}

/// Returns whether `text` is `namespace/name`.
fn is_text_of(id: &EndpointId, text: &[u8]) -> bool {
    let rest = text.strip_prefix(id.namespace.as_bytes());
    rest.and_then(|rest| rest.strip_prefix(b"/")) == Some(id.name.as_bytes())
}

impl PreRequest for SessionAffinity {
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        _: &Candidates,
    ) -> Result<(), PluginError> {
        let Strategy::SessionId(sessions) = &self.strategy else { return Ok(()) };
        let profile = if self.profile.is_empty() { &*result.primary } else { &self.profile };
        if let Some(target) = result.profile_targets(profile).first() {
            sessions.picked(request, &target.endpoint.metadata.id, self.rt.now());
        }
        Ok(())
    }
}

impl ResponseHeaderProcessor for SessionAffinity {
    fn response_header(
        &self,
        request: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        target: Option<&Rc<EndpointMetadata>>,
    ) {
        let Strategy::Token { header } = &self.strategy else { return };
        let of_profile = || {
            let result = request?.scheduling_result.as_ref()?;
            Some(&result.profile_targets(&self.profile).first()?.endpoint.metadata)
        };
        let endpoint = if self.profile.is_empty() { target } else { of_profile() };
        if let Some(endpoint) = endpoint {
            response.headers.insert(header, token::encode(&endpoint.id));
        }
    }
}

#[cfg(test)]
mod tests;
