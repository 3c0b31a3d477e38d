//! `indexerConfig`: which index, how large, and what tiers are worth (request-control spec 8.8, 14.3).

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::parameters::failed;
use crate::plugin::{FactoryError, ParameterError, Parameters};
use crate::prefix::TierWeights;
use crate::prefix::block_index::Limits;

/// `indexerConfig`, read.
#[derive(Clone, Debug, Default)]
pub struct IndexerParameters {
    index: IndexParameters,
    /// What a block in each tier counts.
    pub weights: TierWeights,
}

/// The index that is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// In memory, bounded in blocks and in holders of a block.
    InMemory(Limits),
    /// In memory, bounded by the cost of its blocks.
    CostAware(Limits),
    /// On a Redis server.
    Redis,
}

impl Backend {
    /// Returns the bounds; those of a Redis server are its own.
    pub fn limits(self) -> Limits {
        match self {
            Backend::InMemory(limits) | Backend::CostAware(limits) => limits,
            Backend::Redis => Limits::default(),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Written {
    kv_block_index_config: IndexParameters,
    kv_cache_backend_configs: Option<Vec<TierParameters>>,
    /// Refused where it is given.
    tokenizers_pool_config: Option<TokenizersPoolParameters>,
}

/// The settings of a tokenizer that no longer exists.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
struct TokenizersPoolParameters {}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct IndexParameters {
    in_memory_config: Option<InMemoryParameters>,
    redis_config: Option<RedisParameters>,
    cost_aware_memory_config: Option<CostAwareParameters>,
    enable_metrics: bool,
    /// Unit: nanoseconds. Nothing is logged here: the metrics say it.
    metrics_logging_interval: i64,
}

impl Default for IndexParameters {
    fn default() -> Self {
        IndexParameters {
            in_memory_config: Some(InMemoryParameters::default()),
            redis_config: None,
            cost_aware_memory_config: None,
            enable_metrics: false,
            metrics_logging_interval: 0,
        }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct InMemoryParameters {
    size: i64,
    pod_cache_size: i64,
}

impl Default for InMemoryParameters {
    fn default() -> Self {
        InMemoryParameters { size: 100_000_000, pod_cache_size: 10 }
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct RedisParameters {
    address: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct CostAwareParameters {
    size: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct TierParameters {
    name: Option<String>,
    weight: Option<f64>,
}

impl IndexerParameters {
    /// Reads `indexerConfig` out of a plugin's parameters.
    ///
    /// # Errors
    /// What does not decode, null where something must stand, and `tokenizersPoolConfig`.
    pub fn read(parameters: &Parameters) -> Result<Self, FactoryError> {
        let Some(config) = parameters.value().and_then(|value| member(value, "indexerConfig")) else {
            return Ok(IndexerParameters::default());
        };
        let at = |message: &str| ParameterError::at("indexerConfig", message);
        if config.is_null() {
            return Err(at("indexerConfig is required").into());
        }
        if member(config, "tokenizersPoolConfig").is_some_and(|pool| !pool.is_null()) {
            let message = "tokenizersPoolConfig is not supported; configure a token-producer plugin instead";
            return Err(at(message).into());
        }
        let mut written: Written = Parameters::new(config.clone()).decode().map_err(|mut error| {
            error.path.insert(0, crate::plugin::Segment::Key("indexerConfig".to_owned()));
            error
        })?;
        let index = member(config, "kvBlockIndexConfig");
        if index.and_then(|index| member(index, "inMemoryConfig")).is_some_and(Value::is_null) {
            written.kv_block_index_config.in_memory_config = None;
        }
        let weights = written.kv_cache_backend_configs.map_or_else(TierWeights::default, tier_weights);
        Ok(IndexerParameters { index: written.kv_block_index_config, weights })
    }

    /// Returns the index that is configured: cost-aware before Redis before in-memory.
    ///
    /// # Errors
    /// Bounds that leave no room, and no index at all.
    pub fn backend(&self) -> Result<Backend, FactoryError> {
        let at = |message: String| FactoryError::from(ParameterError::at("indexerConfig", failed(message)));
        if let Some(CostAwareParameters { size }) = &self.index.cost_aware_memory_config {
            let cost = parse_bytes(size).ok_or_else(|| {
                at(format!("{size:?} is not a size; accepted: a number with a unit, such as \"2GiB\""))
            })?;
            let holders = usize::MAX;
            return Ok(Backend::CostAware(Limits { cost, holders, ..Limits::default() }));
        }
        if self.index.redis_config.is_some() {
            return Ok(Backend::Redis);
        }
        let Some(InMemoryParameters { size, pod_cache_size }) = self.index.in_memory_config else {
            return Err(at("no valid configuration for a KV-block index: all of inMemoryConfig, redisConfig and costAwareMemoryConfig are missing".to_owned()));
        };
        let keys = usize::try_from(size).ok().filter(|size| *size > 0);
        let keys =
            keys.ok_or_else(|| at(format!("inMemoryConfig.size must be greater than 0, got {size}")))?;
        let holders = usize::try_from(pod_cache_size).unwrap_or(0);
        Ok(Backend::InMemory(Limits { keys, holders, ..Limits::default() }))
    }

    /// Returns whether the index counts what happens to it.
    pub fn has_metrics(&self) -> bool {
        self.index.enable_metrics
    }
}

/// Returns the last member that a reader without regard to case takes for `name`.
fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let members = value.as_object()?.iter();
    members.rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Lays a list over the default one: what the first elements do not say, the default elements do.
fn tier_weights(tiers: Vec<TierParameters>) -> TierWeights {
    let mut defaults = TierWeights::DEFAULT.into_iter();
    let named = tiers.into_iter().map(|tier| {
        let (name, weight) = defaults.next().unwrap_or(("", 0.0));
        (tier.name.unwrap_or_else(|| name.to_owned()), tier.weight.unwrap_or(weight))
    });
    TierWeights::new(named)
}

/// Reads a number of bytes: `2GiB`, `64 MB`, `512`. Units count in any case; commas in the number do not.
fn parse_bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(text.len());
    let number: f64 = text[..end].replace(',', "").parse().ok()?;
    let unit = text[end..].trim().to_ascii_lowercase();
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (prefix, base) = unit.strip_suffix('i').map_or((unit, 1000f64), |prefix| (prefix, 1024.0));
    let power = match prefix {
        "" if base == 1000.0 => 0,
        "" => return None,
        prefix => 1 + "kmgtpe".find(prefix).filter(|_| prefix.len() == 1)?,
    };
    let bytes = (0..power).fold(number, |bytes, _| bytes * base);
    (bytes < u64::MAX as f64).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(config: Value) -> Result<Backend, FactoryError> {
        IndexerParameters::read(&Parameters::new(json!({"indexerConfig": config})))?.backend()
    }

    #[test]
    fn backends_and_their_order() {
        let limits = |config| read(config).unwrap().limits();
        assert_eq!(limits(json!({})), Limits::default());
        assert_eq!(limits(json!({"kvBlockIndexConfig": null})), Limits::default());
        let partial = limits(json!({"kvBlockIndexConfig": {"inMemoryConfig": {"podCacheSize": 3}}}));
        assert_eq!((partial.keys, partial.holders), (100_000_000, 3));
        let both =
            json!({"kvBlockIndexConfig": {"redisConfig": {}, "costAwareMemoryConfig": {"size": "2GiB"}}});
        assert!(matches!(read(both), Ok(Backend::CostAware(limits)) if limits.cost == 2 << 30));
        assert_eq!(read(json!({"kvBlockIndexConfig": {"redisConfig": {}}})), Ok(Backend::Redis));
        for wrong in [
            json!(null),
            json!({"tokenizersPoolConfig": {}}),
            json!({"kvBlockIndexConfig": {"inMemoryConfig": null}}),
            json!({"kvBlockIndexConfig": {"inMemoryConfig": {"size": 0}}}),
            json!({"kvBlockIndexConfig": {"costAwareMemoryConfig": {}}}),
            json!({"kvBlockIndexConfig": {"costAwareMemoryConfig": {"size": "2 parsecs"}}}),
            json!({"unknown": 1}),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("512", Some(512)),
            ("2GiB", Some(2 << 30)),
            ("1.5kb", Some(1500)),
            ("1,000 B", Some(1000)),
            ("64mi", Some(64 << 20)),
            ("1k", Some(1000)),
            ("", None),
            ("iB", None),
            ("1ib", None),
            ("1kk", None),
            ("-1", None),
        ] {
            assert_eq!(parse_bytes(text), bytes, "{text}");
        }
    }

    #[test]
    fn a_list_of_tiers_lies_over_the_default_one() {
        let weights = |list: Value| {
            IndexerParameters::read(&Parameters::new(
                json!({"indexerConfig": {"kvCacheBackendConfigs": list}}),
            ))
            .unwrap()
            .weights
        };
        let rows = [
            (json!(null), [1.0, 0.8, 1.0]),
            (json!([]), [1.0, 1.0, 1.0]),
            (json!([{"name": "disk"}]), [1.0, 1.0, 1.0]),
            (json!([{"weight": 0.5}, {"name": "disk"}]), [0.5, 1.0, 0.8]),
            (json!([{}, {}, {"name": "disk"}]), [1.0, 0.8, 0.0]),
            (json!([{"name": "GPU", "weight": 0.1}]), [1.0, 1.0, 1.0]),
            (json!([{"name": "gpu", "weight": 0.3}, {"name": "gpu", "weight": 0.4}]), [0.4, 1.0, 1.0]),
        ];
        for (list, want) in rows {
            let weights = weights(list.clone());
            assert_eq!(["gpu", "cpu", "disk"].map(|tier| weights.of(tier)), want, "{list}");
        }
    }
}
