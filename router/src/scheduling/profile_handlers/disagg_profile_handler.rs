//! `disagg-profile-handler`: decode, and before it, where worth it, encode and prefill elsewhere (scheduling
//! spec 7.4).

mod decision;
mod parameters;

use std::rc::Rc;

pub use self::decision::Decision;
use self::parameters::Settings;
pub use self::parameters::StageOrder;
use super::{disagg_headers_handler, first_target, no_decode_worker};
use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidates;
use crate::data_key::{resolve, well_known};
use crate::error::PluginError;
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::request::{InferenceRequest, TokenizedPrompt};
use crate::request_control::PreRequest;
use crate::scheduling::{Decider, PEER_ENDPOINT, ProfileHandler, ProfileResults, SchedulingResult, Target};

/// Name of the type.
pub const TYPE: &str = "disagg-profile-handler";

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let handler = Rc::new(DisaggProfileHandler(Settings::new(parameters, handle)?));
    let roles = Roles {
        profile_handler: Some(Rc::clone(&handler) as Rc<dyn ProfileHandler>),
        pre_request: Some(handler),
        ..Roles::default()
    };
    Ok(Instance::new(TYPE, name, roles).with_data(data_flow("")))
}

/// Returns what a handler requires that splits requests, whether or not a decider reads it.
pub(super) fn data_flow(prefix_producer: &str) -> DataFlow {
    let matches = resolve(well_known::PREFIX_CACHE_MATCH_INFO, prefix_producer);
    let tokens = resolve(well_known::TOKENIZED_PROMPT, "");
    DataFlow::consumer(vec![
        TypedKey::of::<PrefixCacheMatchInfo>(&matches),
        TypedKey::of::<TokenizedPrompt>(&tokens),
    ])
}

struct DisaggProfileHandler(Settings);

/// One call of the handler.
struct Pick<'a> {
    settings: &'a Settings,
    request: &'a mut InferenceRequest,
    candidates: &'a Candidates,
    profiles: &'a [Rc<str>],
    results: &'a mut ProfileResults,
}

impl Pick<'_> {
    /// Whether the profile is configured and has neither run nor been skipped.
    fn is_due(&self, profile: &Rc<str>) -> bool {
        self.profiles.contains(profile) && !self.results.contains_key(profile)
    }

    /// Asks the stage's decider; without one the answer is no. A no is entered as skipped.
    fn wants(
        &mut self,
        profile: &Rc<str>,
        decider: Option<&Rc<dyn Decider>>,
        endpoint: Option<&Target>,
    ) -> bool {
        let yes = decider.is_some_and(|d| d.disaggregate(self.request, self.candidates, endpoint));
        if !yes {
            self.results.insert(Rc::clone(profile), None);
        }
        yes
    }

    fn set_peer(&mut self, target: &Target) {
        self.request.attributes.put(PEER_ENDPOINT, Rc::clone(&target.endpoint));
    }

    /// Decode first: its pick tells whether the other stages are worth it, and is their peer.
    fn decode_first(&mut self) -> Option<Rc<str>> {
        let Settings { decode, prefill, encode, .. } = self.settings;
        if !self.results.contains_key(decode) {
            return self.profiles.contains(decode).then(|| Rc::clone(decode));
        }
        let decode_target = first_target(self.results, decode)?.clone();
        let decider = self.settings.encode_decider.as_ref();
        if self.is_due(encode) && self.wants(encode, decider, Some(&decode_target)) {
            return Some(Rc::clone(encode));
        }
        let decider = self.settings.prefill_decider.as_ref();
        if self.is_due(prefill) && self.wants(prefill, decider, Some(&decode_target)) {
            self.set_peer(&decode_target);
            return Some(Rc::clone(prefill));
        }
        self.settings.note(self.request, self.results);
        None
    }

    /// Prefill first, always; decode last, near the prefill pick.
    fn prefill_first(&mut self) -> Option<Rc<str>> {
        let Settings { decode, prefill, encode, .. } = self.settings;
        if self.results.contains_key(decode) {
            if first_target(self.results, decode).is_some() {
                self.settings.note(self.request, self.results);
            }
            return None;
        }
        if self.is_due(prefill) {
            return Some(Rc::clone(prefill));
        }
        let decider = self.settings.encode_decider.as_ref();
        if self.is_due(encode) && self.wants(encode, decider, None) {
            return Some(Rc::clone(encode));
        }
        if !self.profiles.contains(decode) {
            return None;
        }
        if let Some(target) = first_target(self.results, prefill).cloned() {
            self.set_peer(&target);
        }
        Some(Rc::clone(decode))
    }
}

impl ProfileHandler for DisaggProfileHandler {
    fn pick(
        &self,
        request: &mut InferenceRequest,
        candidates: &Candidates,
        profiles: &[Rc<str>],
        results: &mut ProfileResults,
    ) -> Vec<Rc<str>> {
        let mut pick = Pick { settings: &self.0, request, candidates, profiles, results };
        let next = match self.0.order {
            StageOrder::DecodeFirst => pick.decode_first(),
            StageOrder::PrefillFirst => pick.prefill_first(),
        };
        next.into_iter().collect()
    }

    fn process_results(
        &self,
        _: &mut InferenceRequest,
        mut results: ProfileResults,
    ) -> Result<SchedulingResult, PluginError> {
        let Settings { decode, prefill, encode, .. } = &self.0;
        if first_target(&results, decode).is_none() {
            return Err(no_decode_worker());
        }
        let mut profiles = ProfileResults::default();
        for name in [decode, prefill, encode] {
            if let Some(Some(result)) = results.shift_remove(name) {
                profiles.insert(Rc::clone(name), Some(result));
            }
        }
        Ok(SchedulingResult { profiles, primary: Rc::clone(decode) })
    }
}

impl PreRequest for DisaggProfileHandler {
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        _: &Candidates,
    ) -> Result<(), PluginError> {
        disagg_headers_handler::write_headers(request, result, &self.0.prefill, &self.0.encode);
        Ok(())
    }
}
