//! What a `disagg-profile-handler` is configured with, in the nested and in the old flat form.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::Decision;
use crate::plugin::{FactoryError, Handle, Parameters};
use crate::request::InferenceRequest;
use crate::scheduling::profile_handlers::decider;
use crate::scheduling::{Decider, ProfileResults, invalid};

/// Which stage is picked first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageOrder {
    /// Decode, then the others by its pick.
    DecodeFirst,
    /// Prefill, then encode, then decode.
    PrefillFirst,
}

impl StageOrder {
    /// Reads the order in any case; `-` and `_` do not count.
    pub fn parse(text: &str) -> Option<Self> {
        let plain: String =
            text.chars().filter(|c| !"-_".contains(*c)).flat_map(char::to_lowercase).collect();
        match plain.as_str() {
            "" | "decodefirst" | "decode" => Some(StageOrder::DecodeFirst),
            "prefillfirst" | "prefill" => Some(StageOrder::PrefillFirst),
            _ => None,
        }
    }

    /// Returns the order's name.
    pub fn name(self) -> &'static str {
        match self {
            StageOrder::DecodeFirst => "decode-first",
            StageOrder::PrefillFirst => "prefill-first",
        }
    }
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Nested {
    stage_order: String,
    profiles: Stages,
    deciders: Deciders,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Stages {
    decode: String,
    prefill: String,
    encode: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Deciders {
    prefill: String,
    encode: String,
}

/// The form of earlier releases.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Flat {
    stage_order: String,
    decode_profile: String,
    prefill_profile: String,
    encode_profile: String,
    prefill_decider_plugin_name: String,
    encode_decider_plugin_name: String,
    /// Older still; counts where `prefillDeciderPluginName` is empty.
    decider_plugin_name: String,
}

impl From<Flat> for Nested {
    fn from(flat: Flat) -> Self {
        let prefill = if flat.prefill_decider_plugin_name.is_empty() {
            flat.decider_plugin_name
        } else {
            flat.prefill_decider_plugin_name
        };
        Nested {
            stage_order: flat.stage_order,
            profiles: Stages {
                decode: flat.decode_profile,
                prefill: flat.prefill_profile,
                encode: flat.encode_profile,
            },
            deciders: Deciders { prefill, encode: flat.encode_decider_plugin_name },
        }
    }
}

/// What a handler works by.
pub(super) struct Settings {
    pub(super) order: StageOrder,
    pub(super) decode: Rc<str>,
    pub(super) prefill: Rc<str>,
    pub(super) encode: Rc<str>,
    /// Without one, no request is split.
    pub(super) prefill_decider: Option<Rc<dyn Decider>>,
    pub(super) encode_decider: Option<Rc<dyn Decider>>,
}

impl Settings {
    pub(super) fn new(parameters: &Parameters, handle: &Handle) -> Result<Self, FactoryError> {
        let Nested { stage_order, profiles, deciders } = decode(parameters)?;
        let Some(order) = StageOrder::parse(&stage_order) else {
            return Err(invalid(format!(
                "stageOrder {stage_order:?} is unknown; accepted: decode-first, prefill-first"
            )));
        };
        if order == StageOrder::PrefillFirst && !deciders.prefill.is_empty() {
            return Err(invalid(
                "a prefill decider has no part in stageOrder prefill-first, where prefill always runs",
            ));
        }
        let or = |name: String, default: &str| if name.is_empty() { default.into() } else { name.into() };
        let decider = |name: &str| if name.is_empty() { Ok(None) } else { decider(name, handle).map(Some) };
        Ok(Settings {
            order,
            decode: or(profiles.decode, "decode"),
            prefill: or(profiles.prefill, "prefill"),
            encode: or(profiles.encode, "encode"),
            prefill_decider: decider(&deciders.prefill)?,
            encode_decider: decider(&deciders.encode)?,
        })
    }

    /// Notes which stages a request used, once it is decided.
    pub(super) fn note(&self, request: &InferenceRequest, results: &ProfileResults) {
        let used = |profile| matches!(results.get(profile), Some(Some(_)));
        let decision = Decision::of(used(&self.encode), used(&self.prefill));
        tracing::debug!(request = request.request_id, decision = decision.name(), "stages decided");
    }
}

/// Decodes the nested form, else the flat one.
fn decode(parameters: &Parameters) -> Result<Nested, FactoryError> {
    let nested = match parameters.decode::<Nested>() {
        Ok(nested) => return Ok(nested),
        Err(error) => error,
    };
    match parameters.decode::<Flat>() {
        Ok(flat) => {
            tracing::warn!("the flat parameters of disagg-profile-handler are deprecated: nest them");
            Ok(flat.into())
        }
        Err(flat) => Err(invalid(format!("{nested}; nor is it the deprecated flat form: {flat}"))),
    }
}
