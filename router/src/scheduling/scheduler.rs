//! The scheduler: lets the profile handler run profiles until it has what it needs (scheduling spec 3.2).

use std::rc::Rc;

use executor::Instant;

use super::{Profile, ProfileHandler, ProfileResults, SchedulingContext, SchedulingResult};
use crate::candidates::Candidates;
use crate::error::PluginError;
use crate::explain::ProfileTrace;
use crate::request::InferenceRequest;

/// Profiles and the handler that runs them; has no state of its own between requests.
pub struct Scheduler {
    handler: Rc<dyn ProfileHandler>,
    names: Vec<Rc<str>>,
    profiles: Vec<Profile>,
}

impl Scheduler {
    /// Returns a scheduler over `profiles`, whose names must differ.
    pub fn new(handler: Rc<dyn ProfileHandler>, profiles: Vec<Profile>) -> Self {
        let names = profiles.iter().map(|profile| Rc::clone(profile.name())).collect();
        Scheduler { handler, names, profiles }
    }

    /// Returns the names of the profiles in order of configuration.
    pub fn profile_names(&self) -> &[Rc<str>] {
        &self.names
    }

    /// Decides for one request, at one instant, without waiting.
    ///
    /// Every profile sees all candidates. A profile that fails is a `None` for the handler; its own error goes
    /// no further than the log. `traces` takes what each of them did.
    ///
    /// # Errors
    /// When no profile ran, and whatever the handler makes of the results.
    pub fn schedule(
        &self,
        request: &mut InferenceRequest,
        candidates: &Candidates,
        now: Instant,
        mut traces: Option<&mut Vec<ProfileTrace>>,
    ) -> Result<SchedulingResult, PluginError> {
        let mut results = ProfileResults::default();
        loop {
            let next = self.handler.pick(request, candidates, &self.names, &mut results);
            // A handler that asks again for what has already run would go on for ever.
            let fresh = next.iter().any(|name| !results.contains_key(name));
            if !fresh {
                break;
            }
            for name in next {
                let mut trace = traces
                    .is_some()
                    .then(|| ProfileTrace { profile: name.to_string(), ..ProfileTrace::default() });
                let result = self.run(&name, &SchedulingContext { request, candidates, now }, trace.as_mut());
                if let (Some(traces), Some(trace)) = (traces.as_deref_mut(), trace) {
                    traces.push(trace);
                }
                results.insert(name, result);
            }
        }
        if results.is_empty() {
            let id = &request.request_id;
            return Err(PluginError::other(format!("failed to run any scheduler profile for request {id}")));
        }
        self.handler.process_results(request, results)
    }

    fn run(
        &self,
        name: &Rc<str>,
        cx: &SchedulingContext<'_>,
        trace: Option<&mut ProfileTrace>,
    ) -> Option<super::ProfileRunResult> {
        let Some(profile) = self.profiles.iter().find(|profile| profile.name() == name) else {
            tracing::error!(profile = %name, "the profile handler asked for a profile that is not configured");
            return None;
        };
        match profile.run(cx, trace) {
            Ok(result) => Some(result),
            Err(error) => {
                tracing::debug!(profile = %name, %error, "failed to run scheduler profile");
                None
            }
        }
    }
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("profiles", &self.profiles).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
