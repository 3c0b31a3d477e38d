mod byte_stream;
mod estimate;
mod image_size;
mod media;
mod parameters;
mod render;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::candidates::Candidates;
use crate::data_key::{DataKey, well_known};
use crate::error::PluginError;
use crate::plugin::{
    DataFlow, FactoryError, Handle, Instance, ParameterError, Parameters, Roles, Startup, TypedKey,
};
use crate::request::{InferenceRequest, ParsedBody, TokenizedPrompt};
use crate::request_control::{DataProducer, Produced};

pub use estimate::Estimate;
pub use parameters::{
    DynamicFactor, EstimateParameters, FrameParameters, ImageParameters, Resolution, SampledFrames,
    StaticFrameTokens, StaticImageTokens, StridedFrames, TokenProducerParameters, TokensPerFrame,
    VideoParameters, VllmParameters,
};
use render::{Plan, Render};

/// `token-producer`: fills the tokenized prompt (request-control spec 8.7).
///
/// By itself it estimates: the bytes of the prompt four by four, as good as real token ids for telling prefixes
/// apart. With `modelName` a vLLM server renders and tokenizes.
#[derive(Debug)]
pub struct TokenProducer {
    backend: Backend,
}

#[derive(Debug)]
enum Backend {
    Estimate(Estimate),
    Render(Rc<Render>),
}

/// Builds a `token-producer`, which publishes `TokenizedPrompt/<name>`.
///
/// # Errors
/// Parameters that do not decode or contradict each other.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let parameters = parameters.decode::<TokenProducerParameters>()?.checked()?;
    let backend = if parameters.wants_render() {
        let vllm = parameters.vllm.unwrap_or_default();
        let render = Render::new(handle.rt().clone(), parameters.model_name, &vllm);
        Backend::Render(Rc::new(render.map_err(ParameterError::new)?))
    } else {
        Backend::Estimate(Estimate::new(parameters.estimate.unwrap_or_default()))
    };
    let producer = Rc::new(TokenProducer { backend });
    let key = DataKey::new(well_known::TOKENIZED_PROMPT.0, name);
    let data = DataFlow {
        produces: vec![TypedKey::of::<TokenizedPrompt>(&key)],
        declares: true,
        ..DataFlow::default()
    };
    let roles = Roles { producer: Some(producer.clone()), startup: Some(producer), ..Roles::default() };
    Ok(Instance::new(TokenProducer::TYPE, name, roles).with_data(data))
}

impl TokenProducer {
    /// The plugin type.
    pub const TYPE: &str = "token-producer";
    /// The type's deprecated name.
    pub const LEGACY_TYPE: &str = "tokenizer";
}

/// Stores what a backend found; a prompt without tokens has none.
fn store(body: &mut ParsedBody, mut tokens: TokenizedPrompt, salt: String) {
    if tokens.token_count() > 0 {
        tokens.cache_salt = salt;
        body.tokenized_prompt = Some(Arc::new(tokens));
    }
}

impl DataProducer for TokenProducer {
    fn produce<'a>(
        &'a self,
        request: &'a mut InferenceRequest,
        _candidates: &'a mut Candidates,
    ) -> Produced<'a> {
        let headers = &request.headers;
        let Some(body) = &mut request.body else {
            return Produced::Ready(Err(PluginError::other("request body is nil")));
        };
        if let Some(tokens) = &body.tokenized_prompt {
            let salt = body.prompt().cache_salt();
            if tokens.cache_salt.is_empty() && !salt.is_empty() {
                let salted = TokenizedPrompt { cache_salt: salt.to_owned(), ..(**tokens).clone() };
                body.tokenized_prompt = Some(Arc::new(salted));
            }
            return Produced::Ready(Ok(()));
        }
        let prompt = body.prompt();
        let salt = prompt.cache_salt().to_owned();
        match &self.backend {
            Backend::Estimate(estimate) => {
                let tokens = estimate.tokenize(&prompt, headers);
                Produced::Ready(tokens.map(|tokens| store(body, tokens, salt)))
            }
            Backend::Render(render) => match render.plan(body, &prompt) {
                Err(error) => Produced::Ready(Err(error)),
                Ok(Plan::Given(tokens)) => {
                    store(body, tokens, salt);
                    Produced::Ready(Ok(()))
                }
                Ok(Plan::Ask(question)) => Produced::Pending(Box::pin(async move {
                    store(body, render.ask(question).await?, salt);
                    Ok(())
                })),
            },
        }
    }

    fn timeout(&self) -> Option<Duration> {
        match &self.backend {
            Backend::Estimate(_) => None,
            Backend::Render(render) => Some(render.longest()),
        }
    }
}

impl Startup for TokenProducer {
    fn start(&self) {
        if let Backend::Render(render) = &self.backend {
            render.start_warm_up();
        }
    }
}
