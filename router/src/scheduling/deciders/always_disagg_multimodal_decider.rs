//! `always-disagg-multimodal-decider`: yes where the prompt has images, audio or video.

use crate::candidates::Candidates;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;
use crate::scheduling::{Decider, Target};

/// Name of the type.
pub const TYPE: &str = "always-disagg-multimodal-decider";

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles::decider(AlwaysDisaggMultimodal)))
}

struct AlwaysDisaggMultimodal;

impl Decider for AlwaysDisaggMultimodal {
    fn disaggregate(&self, request: &InferenceRequest, _: &Candidates, _: Option<&Target>) -> bool {
        request.tokenized_prompt().is_some_and(|prompt| !prompt.features.is_empty())
    }
}
