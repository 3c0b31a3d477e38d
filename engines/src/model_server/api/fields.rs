//! What requests for tokens have in common: fields, their checks, and the generations they ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_path_to_error::Segment;
use twox_hash::XxHash64;

use super::error::ApiError;
use super::release::Release;
use super::{Adapter, Inner, lax};
use crate::engine::{AdapterId, Token};
use crate::model_server::generation::{Delivery, Generate, Sampler, Writer};
use crate::model_server::text::Stops;
use crate::model_server::tokenizer::Tokenizer;

/// The bias from which on a token is always taken; vLLM's range ends at 100.
const FORCING_BIAS: f64 = 50.0;

/// Most alternatives that log-probabilities are asked for (`--max-logprobs`).
const MAX_LOGPROBS: i64 = 20;

/// Fields of text and chat completions. Unknown ones are ignored.
#[derive(Debug, Deserialize)]
pub(super) struct Fields {
    #[serde(default)]
    pub(super) model: Option<String>,
    #[serde(default, deserialize_with = "lax::truth")]
    pub(super) stream: bool,
    #[serde(default)]
    pub(super) stream_options: Option<StreamOptions>,
    #[serde(default)]
    pub(super) request_id: Option<String>,
    #[serde(default, deserialize_with = "lax::int")]
    priority: Option<i64>,
    #[serde(default)]
    pub(super) cache_salt: Option<String>,
    #[serde(default, deserialize_with = "lax::truth")]
    pub(super) echo: bool,
    #[serde(default, deserialize_with = "lax::truth")]
    pub(super) return_token_ids: bool,
    #[serde(default, deserialize_with = "lax::int")]
    pub(super) truncate_prompt_tokens: Option<i64>,
    #[serde(default)]
    structured_outputs: Option<Value>,
    #[serde(default)]
    response_format: Option<Value>,
    #[serde(default, deserialize_with = "lax::truth")]
    use_beam_search: bool,
}

/// What a stream says beside tokens.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct StreamOptions {
    #[serde(default, deserialize_with = "lax::truth")]
    pub(super) include_usage: bool,
    #[serde(default, deserialize_with = "lax::truth")]
    pub(super) continuous_usage_stats: bool,
}

/// How tokens are chosen, and where they end.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Sampling {
    #[serde(default, deserialize_with = "lax::int")]
    pub(super) n: Option<i64>,
    #[serde(default, deserialize_with = "lax::float")]
    pub(super) temperature: Option<f64>,
    #[serde(default, deserialize_with = "lax::float")]
    pub(super) top_p: Option<f64>,
    #[serde(default, deserialize_with = "lax::int")]
    pub(super) top_k: Option<i64>,
    #[serde(default, deserialize_with = "lax::float")]
    pub(super) min_p: Option<f64>,
    #[serde(default, deserialize_with = "lax::float")]
    pub(super) presence_penalty: Option<f64>,
    #[serde(default, deserialize_with = "lax::float")]
    pub(super) frequency_penalty: Option<f64>,
    #[serde(default, deserialize_with = "lax::float")]
    pub(super) repetition_penalty: Option<f64>,
    #[serde(default, deserialize_with = "lax::int")]
    pub(super) seed: Option<i64>,
    #[serde(default, deserialize_with = "lax::texts")]
    pub(super) stop: Vec<String>,
    #[serde(default)]
    pub(super) stop_token_ids: Option<Vec<Token>>,
    #[serde(default, deserialize_with = "lax::truth")]
    pub(super) include_stop_str_in_output: bool,
    #[serde(default, deserialize_with = "lax::truth")]
    pub(super) ignore_eos: bool,
    #[serde(default, deserialize_with = "lax::int")]
    pub(super) min_tokens: Option<i64>,
    #[serde(default, deserialize_with = "lax::maybe_truth")]
    skip_special_tokens: Option<bool>,
    #[serde(default)]
    pub(super) logit_bias: Option<BTreeMap<String, f64>>,
    #[serde(default, deserialize_with = "lax::int")]
    prompt_logprobs: Option<i64>,
}

/// A request that passed all checks, but for its prompts.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) choices: u32,
    pub(super) max_tokens: u32,
    pub(super) stops: Stops,
    sampling: Sampling,
    stop_tokens: Vec<Token>,
    forced: Option<Token>,
    unlimited: bool,
    pub(super) priority: i64,
    pub(super) cache_salt: String,
    pub(super) adapter: Option<Adapter>,
}

/// Reads `T` from a body that is an object.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(body).map_err(|error| {
        let place = place(&error);
        ApiError::shape(error.into_inner().to_string()).field(place)
    })
}

/// Where in a body a value is wrong or missing, as vLLM writes it: `body.tokens.0`.
fn place(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let mut place = "body".to_owned();
    for segment in error.path() {
        match segment {
            Segment::Seq { index } => place.extend([".", &index.to_string()]),
            Segment::Map { key } => place.extend([".", key]),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    // What is missing has no place of its own: serde's text names it.
    let missing = error.inner().to_string();
    if let Some((name, _)) = missing.strip_prefix("missing field `").and_then(|rest| rest.split_once('`')) {
        place.extend([".", name]);
    }
    place
}

impl Fields {
    /// Reads and checks the fields that need no model.
    pub(super) fn read(body: &Value) -> Result<Self, ApiError> {
        let fields: Self = read(body)?;
        if fields.stream_options.is_some() && !fields.stream {
            let message = "stream_options needs stream: true";
            return Err(ApiError::checked("stream_options", message).param("stream_options"));
        }
        if fields.cache_salt.as_deref() == Some("") {
            return Err(ApiError::checked("cache_salt", "cache_salt must be a text that is not empty"));
        }
        Ok(fields)
    }

    /// Refuses what changes the text of answers in ways that are not simulated.
    pub(super) fn check_simulated(&self, sampling: &Sampling) -> Result<(), ApiError> {
        let format = self.response_format.as_ref().and_then(|format| format["type"].as_str());
        let asked = [
            (self.structured_outputs.is_some(), "structured_outputs"),
            (format.is_some_and(|format| format != "text"), "response_format other than text"),
            (self.use_beam_search, "use_beam_search"),
            (sampling.prompt_logprobs.is_some(), "prompt_logprobs"),
        ];
        match asked.into_iter().find(|(asked, _)| *asked) {
            Some((_, what)) => Err(ApiError::not_simulated(what)),
            None => Ok(()),
        }
    }

    pub(super) fn priority(&self) -> i64 {
        self.priority.unwrap_or(0)
    }
}

impl Sampling {
    /// Checks the values, in the order in which vLLM looks at them, and makes the plan of a request whose longest
    /// prompt has `longest` tokens. Without `max_tokens` it may fill `max_model_len`.
    pub(super) fn plan(
        self,
        fields: &Fields,
        server: &Inner,
        adapter: Option<Adapter>,
        max_tokens: Option<i64>,
        logprobs: Option<i64>,
        longest: u32,
    ) -> Result<Plan, ApiError> {
        let wrong = |param, message: &str| Err(ApiError::raised(message).param(param));
        let room = server.options.max_model_len.saturating_sub(longest);
        // From 0.32 on a request may fill what room there is, as one without a limit does.
        let most = if server.release >= Release::V32 { i64::from(room) } else { i64::MAX };
        let limit = max_tokens.map_or(i64::from(room), |limit| limit.min(most));
        let n = self.n.unwrap_or(1);
        if n < 1 {
            return Err(ApiError::raised(format!("n must be at least 1, got {n}")));
        }
        let greedy = self.temperature == Some(0.0);
        let is_number = |temperature: f64| !temperature.is_nan() || server.release < Release::V27;
        if self.temperature.is_some_and(|temperature| temperature < 0.0 || !is_number(temperature)) {
            return wrong("temperature", "temperature must be a number that is not negative");
        }
        if self.top_p.is_some_and(|top_p| !(top_p > 0.0 && top_p <= 1.0)) {
            return wrong("top_p", "top_p must be above 0 and at most 1");
        }
        if limit < 1 {
            return wrong("max_tokens", "max_tokens must be at least 1");
        }
        let min_tokens = self.min_tokens.unwrap_or(0);
        if min_tokens < 0 || min_tokens > limit {
            return Err(ApiError::raised(format!("min_tokens must be from 0 to max_tokens ({limit})")));
        }
        if logprobs.is_some_and(|logprobs| logprobs > MAX_LOGPROBS) {
            return wrong("logprobs", "more than 20 alternatives a token are not given");
        }
        if greedy && n > 1 {
            return Err(ApiError::raised("n must be 1 with temperature 0"));
        }
        let choices = u32::try_from(n).unwrap_or(u32::MAX);
        if choices > server.options.max_choices {
            let most = server.options.max_choices;
            return Err(ApiError::raised(format!("n is {n}; this server gives at most {most} choices")));
        }
        let forced = self.forced()?;
        Ok(Plan {
            choices,
            max_tokens: u32::try_from(limit).unwrap_or(u32::MAX),
            stops: Stops {
                strings: self.stop.iter().filter(|stop| !stop.is_empty()).cloned().collect(),
                include: self.include_stop_str_in_output,
                min_tokens: u32::try_from(min_tokens).unwrap_or(u32::MAX),
                skip_special: self.skip_special_tokens.unwrap_or(true),
            },
            stop_tokens: self.stop_token_ids.clone().unwrap_or_default(),
            forced,
            unlimited: max_tokens.is_none(),
            priority: fields.priority(),
            cache_salt: fields.cache_salt.clone().unwrap_or_default(),
            adapter,
            sampling: self,
        })
    }

    /// The token that every position takes: the one with the greatest bias, where that is overwhelming; with logits
    /// of NaN the first of the vocabulary.
    fn forced(&self) -> Result<Option<Token>, ApiError> {
        if self.temperature.is_some_and(f64::is_nan) {
            return Ok(Some(0));
        }
        let mut forced: Option<(f64, Token)> = None;
        for (token, bias) in self.logit_bias.iter().flatten() {
            let token: Token =
                token.parse().ok().filter(|token| *token < Tokenizer::VOCABULARY).ok_or_else(|| {
                    let most = Tokenizer::VOCABULARY - 1;
                    ApiError::raised(format!("logit_bias: {token:?} is no token id from 0 to {most}"))
                        .param("logit_bias")
                })?;
            let greater = forced.is_none_or(|(most, least)| (*bias, least) > (most, token));
            if *bias >= FORCING_BIAS && greater {
                forced = Some((*bias, token));
            }
        }
        Ok(forced.map(|(_, token)| token))
    }
}

impl Plan {
    /// The request to the engine for choice number `child` behind `prompt`.
    pub(super) fn generate(&self, prompt: &Arc<[Token]>, child: u32, mean_tokens: u32) -> Generate {
        let sampling = &self.sampling;
        let bytes: Vec<u8> = prompt.iter().flat_map(|token| token.to_le_bytes()).collect();
        let seed = sampling.seed.unwrap_or(0).cast_unsigned().wrapping_add(u64::from(child));
        let ends =
            |token| token == Tokenizer::EOS && !sampling.ignore_eos || self.stop_tokens.contains(&token);
        let writer = Writer {
            seed: XxHash64::oneshot(seed, &bytes),
            first: Tokenizer::WORDS.start,
            words: Tokenizer::WORDS.end - Tokenizer::WORDS.start,
            forced: self.forced,
            // A request with a limit is written to its end, so that its length is known beforehand.
            end: (self.unlimited && !sampling.ignore_eos).then_some((Tokenizer::EOS, mean_tokens)),
            above: if self.forced.is_none_or(ends) { self.stops.min_tokens } else { 0 },
        };
        Generate {
            prompt: Arc::clone(prompt),
            max_tokens: self.max_tokens,
            min_tokens: self.stops.min_tokens,
            eos: (!sampling.ignore_eos).then_some(Tokenizer::EOS),
            stop_tokens: self.stop_tokens.clone(),
            priority: self.priority,
            cache_salt: self.cache_salt.clone(),
            adapter: self.adapter.as_ref().map(|adapter| (adapter.name.clone(), AdapterId(adapter.number))),
            sampler: Sampler::Writer(writer),
            delivery: Delivery::EveryToken,
            choices: self.choices,
        }
    }
}
