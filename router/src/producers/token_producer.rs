mod byte_stream;
mod estimate;
mod image_size;
mod media;
mod parameters;

use std::rc::Rc;
use std::sync::Arc;

use crate::candidates::Candidates;
use crate::data_key::{DataKey, well_known};
use crate::error::PluginError;
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::request::{InferenceRequest, TokenizedPrompt};
use crate::request_control::{DataProducer, Produced};

pub use estimate::Estimate;
pub use parameters::{
    DynamicFactor, EstimateParameters, FrameParameters, ImageParameters, Resolution, SampledFrames,
    StaticFrameTokens, StaticImageTokens, StridedFrames, TokenProducerParameters, TokensPerFrame,
    VideoParameters, VllmParameters,
};

/// `token-producer`: fills the tokenized prompt (request-control spec 8.7), here by estimating: the bytes of the
/// prompt four by four, as good as real token ids for telling prefixes apart.
#[derive(Debug)]
pub struct TokenProducer {
    estimate: Estimate,
}

/// Builds a `token-producer`, which publishes `TokenizedPrompt/<name>`.
///
/// # Errors
/// Parameters that do not decode or contradict each other; the render backend, which is not built.
pub fn factory(name: &str, parameters: &Parameters, _handle: &Handle) -> Result<Instance, FactoryError> {
    let parameters = parameters.decode::<TokenProducerParameters>()?.checked()?;
    if parameters.wants_render() {
        return Err(FactoryError::NotBuilt(
            "the vLLM render backend (without 'vllm' and 'modelName' it estimates)".to_owned(),
        ));
    }
    let producer = TokenProducer { estimate: Estimate::new(parameters.estimate.unwrap_or_default()) };
    let key = DataKey::new(well_known::TOKENIZED_PROMPT.0, name);
    let data = DataFlow {
        produces: vec![TypedKey::of::<TokenizedPrompt>(&key)],
        declares: true,
        ..DataFlow::default()
    };
    let roles = Roles { producer: Some(Rc::new(producer)), ..Roles::default() };
    Ok(Instance::new(TokenProducer::TYPE, name, roles).with_data(data))
}

impl TokenProducer {
    /// The plugin type.
    pub const TYPE: &str = "token-producer";
    /// The type's deprecated name.
    pub const LEGACY_TYPE: &str = "tokenizer";

    fn tokenize(&self, request: &mut InferenceRequest) -> Result<(), PluginError> {
        let headers = &request.headers;
        let Some(body) = &mut request.body else { return Err(PluginError::other("request body is nil")) };
        if let Some(tokens) = &body.tokenized_prompt {
            let salt = body.prompt().cache_salt();
            if tokens.cache_salt.is_empty() && !salt.is_empty() {
                let salted = TokenizedPrompt { cache_salt: salt.to_owned(), ..(**tokens).clone() };
                body.tokenized_prompt = Some(Arc::new(salted));
            }
            return Ok(());
        }
        let prompt = body.prompt();
        let mut tokens = self.estimate.tokenize(&prompt, headers)?;
        if tokens.token_count() > 0 {
            prompt.cache_salt().clone_into(&mut tokens.cache_salt);
            body.tokenized_prompt = Some(Arc::new(tokens));
        }
        Ok(())
    }
}

impl DataProducer for TokenProducer {
    fn produce<'a>(
        &'a self,
        request: &'a mut InferenceRequest,
        _candidates: &'a mut Candidates,
    ) -> Produced<'a> {
        Produced::Ready(self.tokenize(request))
    }
}
