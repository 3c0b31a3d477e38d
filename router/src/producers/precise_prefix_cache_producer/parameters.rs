//! Parameters of the precise prefix producer (request-control spec 8.8, 14.1, 15.1).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::indexer::IndexerParameters;
use crate::config::scalars::parse_duration;
use crate::plugin::{FactoryError, ParameterError, Parameters};
use crate::prefix::block_keys::BlockHasher;
use crate::prefix::kv_events::EngineType;

/// How long a guess counts where nothing else is said.
const DEFAULT_SPECULATIVE_TTL: Duration = Duration::from_secs(2);

/// Tokens a block where nothing is said.
const DEFAULT_BLOCK_SIZE: i64 = 16;

/// All parameters, checked.
#[derive(Clone, Debug)]
pub struct PreciseParameters {
    /// How blocks are named.
    pub hasher: BlockHasher,
    /// What the index holds, and how tiers count.
    pub indexer: IndexerParameters,
    /// Where events come from.
    pub events: KvEventsParameters,
    /// The engine whose events these are.
    pub engine: EngineType,
    /// How long a guess after a decision counts; `None` = nothing is guessed.
    pub speculative_ttl: Option<Duration>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Written {
    token_processor_config: TokenProcessorParameters,
    /// Taken from [`IndexerParameters::read`], which has rules of its own for null.
    indexer_config: super::indexer::Written,
    kv_events_config: KvEventsParameters,
    speculative_indexing: bool,
    #[serde(rename = "speculativeTTL")]
    speculative_ttl: String,
}

impl PreciseParameters {
    /// Reads the parameters.
    ///
    /// # Errors
    /// What does not decode or is out of range, and the parts that are not built.
    pub fn read(parameters: &Parameters) -> Result<Self, FactoryError> {
        let indexer = IndexerParameters::read(parameters)?;
        let written: Written = parameters.decode()?;
        let hasher = written.token_processor_config.hasher()?;
        let engine = EngineType::of(&written.kv_events_config.engine_type)
            .map_err(|message| ParameterError::at("kvEventsConfig", failed(message)))?;
        let speculative_ttl =
            written.speculative_indexing.then(|| ttl(&written.speculative_ttl)).transpose()?;
        Ok(PreciseParameters { hasher, indexer, events: written.kv_events_config, engine, speculative_ttl })
    }
}

fn ttl(text: &str) -> Result<Duration, ParameterError> {
    if text.is_empty() {
        return Ok(DEFAULT_SPECULATIVE_TTL);
    }
    let nanos = parse_duration(text).map_err(|error| {
        ParameterError::at("speculativeTTL", format!("invalid speculativeTTL {text:?}: {error}"))
    })?;
    let given = u64::try_from(nanos).ok().filter(|nanos| *nanos > 0);
    Ok(given.map_or(DEFAULT_SPECULATIVE_TTL, Duration::from_nanos))
}

/// Returns a message as the llm-d Router introduces it.
pub(super) fn failed(message: impl std::fmt::Display) -> String {
    format!("failed to create precise-prefix-cache-producer plugin: {message}")
}

/// `tokenProcessorConfig`: how blocks are named.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct TokenProcessorParameters {
    /// Tokens a block; zero = `blockSize`, and where that is zero too, 16.
    pub block_size_tokens: i64,
    /// Deprecated name of `blockSizeTokens`.
    pub block_size: i64,
    /// Seed of the keys. It has to agree with nobody: engines' own hashes are opaque.
    pub hash_seed: String,
}

impl TokenProcessorParameters {
    /// Returns the hasher.
    ///
    /// # Errors
    /// A block of no tokens.
    pub fn hasher(&self) -> Result<BlockHasher, ParameterError> {
        let written = [self.block_size_tokens, self.block_size].into_iter().find(|size| *size != 0);
        let size = written.unwrap_or(DEFAULT_BLOCK_SIZE);
        match usize::try_from(size) {
            Ok(size) if size > 0 => Ok(BlockHasher::new(size, &self.hash_seed)),
            _ => Err(ParameterError::at(
                "tokenProcessorConfig",
                failed(format!("blockSizeTokens must be greater than 0, got {size}")),
            )),
        }
    }
}

/// `kvEventsConfig`: where KV events come from.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct KvEventsParameters {
    /// Where to bind a socket that servers connect to; empty = nowhere.
    pub zmq_endpoint: String,
    /// Start of the topics that are subscribed to.
    pub topic_filter: String,
    /// Workers of the llm-d Router's event pool. Here one thread applies all events, in order of arrival.
    pub concurrency: i64,
    /// `vllm` (or empty) or `sglang`.
    pub engine_type: String,
    /// Whether each endpoint is subscribed to.
    pub discover_pods: bool,
    /// Where endpoints publish; `None` = they are not subscribed to.
    pub pod_discovery_config: Option<PodDiscoveryParameters>,
}

impl Default for KvEventsParameters {
    fn default() -> Self {
        KvEventsParameters {
            zmq_endpoint: String::new(),
            topic_filter: "kv@".to_owned(),
            concurrency: 4,
            engine_type: String::new(),
            discover_pods: true,
            pod_discovery_config: Some(PodDiscoveryParameters::default()),
        }
    }
}

/// `podDiscoveryConfig`: where endpoints publish.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct PodDiscoveryParameters {
    /// Not used: the data layer knows the endpoints.
    pub pod_label_selector: String,
    /// Not used: the data layer knows the endpoints.
    pub pod_namespace: String,
    /// Port of the first rank's events.
    pub socket_port: i64,
    /// Port of the first rank's replay socket; zero or less = there is none.
    pub replay_socket_port: i64,
}

impl Default for PodDiscoveryParameters {
    fn default() -> Self {
        PodDiscoveryParameters {
            pod_label_selector: "llm-d.ai/inference-serving=true".to_owned(),
            pod_namespace: String::new(),
            socket_port: 5557,
            replay_socket_port: 0,
        }
    }
}
