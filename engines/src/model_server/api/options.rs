//! What a server is started with.

use crate::model_server::tokenizer::Tokenizer;

/// A LoRA adapter that the server knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// The name that requests use as the model.
    pub name: String,
    /// Where it was loaded from.
    pub path: String,
    /// Its number, from 1 in order of loading.
    pub number: u32,
}

/// The options of a server, under vLLM's names where it has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Names of the model; answers carry the first.
    pub served_model_names: Vec<String>,
    /// The model's path, `root` in `/v1/models`.
    pub model_path: String,
    /// Greatest number of prompt and output tokens of a request.
    pub max_model_len: u32,
    /// Size of the model's vocabulary: prompts of token ids may use those below. Those that the simulated tokenizer does
    /// not know have no text.
    pub vocabulary: u32,
    /// Release of vLLM, such as `0.21.0`: `/version` names it, and answers are as it gives them.
    pub version: String,
    /// Adapters loaded at the start, names and paths (`--lora-modules`).
    pub lora_modules: Vec<(String, String)>,
    /// Adapters can be loaded and unloaded (`VLLM_ALLOW_RUNTIME_LORA_UPDATING`).
    pub runtime_lora_updating: bool,
    /// Paths at which adapters to load are found.
    pub lora_paths: Vec<String>,
    /// An adapter to load is found at any path.
    pub any_lora_path: bool,
    /// Endpoints for development are served (`VLLM_SERVER_DEV_MODE`).
    pub dev_mode: bool,
    /// `--enable-scale-out`: from 0.32 on the endpoints of rendering and generating are closed without it.
    pub scale_out: bool,
    /// `--api-key`: what requests to `/v1` must carry.
    pub api_key: Option<String>,
    /// `--enable-prompt-tokens-details`: usage tells cached tokens.
    pub prompt_tokens_details: bool,
    /// `--enable-request-id-headers`: answers carry `X-Request-Id`.
    pub request_id_headers: bool,
    /// `--enable-force-include-usage`: streams tell usage unasked.
    pub force_include_usage: bool,
    /// `--enable-server-load-tracking`: `/load` counts.
    pub server_load_tracking: bool,
    /// Tokens after which a request without a limit ends, on average.
    pub mean_output_tokens: u32,
    /// Most choices of one request, over all its prompts.
    pub max_choices: u32,
    /// Longest body that is read, in bytes.
    pub max_body: usize,
}

impl ServerOptions {
    /// Returns the options of vLLM 0.21 without flags.
    #[must_use]
    pub fn new(model: &str, max_model_len: u32) -> Self {
        Self {
            served_model_names: vec![model.to_owned()],
            model_path: model.to_owned(),
            max_model_len,
            vocabulary: Tokenizer::VOCABULARY,
            version: "0.21.0".to_owned(),
            lora_modules: Vec::new(),
            runtime_lora_updating: false,
            lora_paths: Vec::new(),
            any_lora_path: false,
            dev_mode: false,
            scale_out: false,
            api_key: None,
            prompt_tokens_details: false,
            request_id_headers: false,
            force_include_usage: false,
            server_load_tracking: false,
            mean_output_tokens: 128,
            max_choices: 4096,
            max_body: 64 << 20,
        }
    }
}
