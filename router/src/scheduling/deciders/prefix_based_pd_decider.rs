//! `prefix-based-pd-decider`: yes where much of the prompt is not in the decode endpoint's prefix cache.

use serde::{Deserialize, Serialize};

use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidates;
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;
use crate::scheduling::{Decider, Target, invalid};

/// Name of the type.
pub const TYPE: &str = "prefix-based-pd-decider";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PrefixDeciderParameters {
    /// Uncached tokens from which the answer is yes; 0 = never.
    non_cached_tokens: i64,
    /// Tokens below which the answer is no; 0 = no such bound.
    prompt_tokens: i64,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let PrefixDeciderParameters { non_cached_tokens, prompt_tokens } = parameters.decode()?;
    for (field, value) in [("nonCachedTokens", non_cached_tokens), ("promptTokens", prompt_tokens)] {
        if value < 0 {
            return Err(invalid(format!("{field} must be >= 0, got {value}")));
        }
    }
    if non_cached_tokens == 0 {
        tracing::info!(plugin = name, "nonCachedTokens is 0: this decider always says no");
    }
    // The approximate producer's key, whichever producers are configured (scheduling spec 7.7).
    let matches = resolve(well_known::PREFIX_CACHE_MATCH_INFO, "");
    let decider = PrefixBasedDecider { non_cached_tokens, prompt_tokens, matches };
    Ok(Instance::new(TYPE, name, Roles::decider(decider)))
}

struct PrefixBasedDecider {
    non_cached_tokens: i64,
    prompt_tokens: i64,
    matches: DataKey,
}

impl Decider for PrefixBasedDecider {
    fn disaggregate(
        &self,
        request: &InferenceRequest,
        candidates: &Candidates,
        endpoint: Option<&Target>,
    ) -> bool {
        if self.non_cached_tokens == 0 {
            return false;
        }
        let (Some(endpoint), Some(_)) = (endpoint, &request.body) else {
            tracing::error!(request = request.request_id, "no endpoint or no body to decide about");
            return false;
        };
        let tokens = request.tokenized_prompt().map_or(0, |prompt| prompt.token_count() as i64);
        if tokens < self.prompt_tokens || tokens < self.non_cached_tokens {
            return false;
        }
        let Some(found) = endpoint.read::<PrefixCacheMatchInfo>(candidates, &self.matches) else {
            tracing::error!(request = request.request_id, key = %self.matches, "no prefix match to decide by");
            return false;
        };
        let cached = found.cached_block_count.wrapping_mul(found.block_size_tokens);
        tokens.wrapping_sub(cached) >= self.non_cached_tokens
    }
}
