//! Values that plugins attach to endpoints, and the map that holds them.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::data_key::DataKey;

/// The attributes of one endpoint: key to value of any type.
///
/// Values are shared, not copied: one with interior mutability ([`InFlightLoad`]) reads live in every
/// snapshot, as a dynamic attribute does (scheduling spec 1.4); all others are immutable.
#[derive(Clone, Default)]
pub struct Attributes(Vec<(DataKey, Rc<dyn Any>)>);

impl Attributes {
    /// Sets `key` to `value`; an earlier value of any type is replaced.
    pub fn put<T: Any>(&mut self, key: DataKey, value: Rc<T>) {
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = value,
            None => self.0.push((key, value)),
        }
    }

    /// Returns the value under `key`, `None` where it is absent or of another type.
    pub fn get<T: Any>(&self, key: &DataKey) -> Option<&T> {
        self.0.iter().find(|(k, _)| k == key).and_then(|(_, v)| v.downcast_ref())
    }

    /// Removes the value under `key`.
    pub fn remove(&mut self, key: &DataKey) {
        self.0.retain(|(k, _)| k != key);
    }

    /// Iterates over the keys in order of insertion.
    pub fn keys(&self) -> impl Iterator<Item = &DataKey> {
        self.0.iter().map(|(k, _)| k)
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys()).finish()
    }
}

/// How much of a request's prompt an endpoint holds in its prefix cache. Unit: blocks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrefixCacheMatchInfo {
    /// Matched blocks, weighted by tier where the producer weighs tiers.
    pub match_blocks: i64,
    /// Blocks of the whole prompt.
    pub total_blocks: i64,
    /// Tokens a block.
    pub block_size_tokens: i64,
    /// Matched blocks, unweighted.
    pub cached_block_count: i64,
    /// Matched blocks by tier, from producers that know tiers.
    pub cached_blocks_by_tier: Option<Rc<BTreeMap<String, i64>>>,
    /// Matched blocks that hold multimodal content, from producers that know them.
    pub mm_match_blocks: Option<i64>,
}

impl PrefixCacheMatchInfo {
    /// Returns a match without tiers; the unweighted count is the matched count.
    pub fn new(match_blocks: i64, total_blocks: i64, block_size_tokens: i64) -> Self {
        PrefixCacheMatchInfo {
            match_blocks,
            total_blocks,
            block_size_tokens,
            cached_block_count: match_blocks,
            ..Default::default()
        }
    }
}

/// Requests and tokens that this router has sent to an endpoint and that are not finished: read live.
#[derive(Debug, Default)]
pub struct InFlightLoad {
    /// Requests in flight.
    pub requests: Cell<i64>,
    /// Tokens in flight: uncached input, plus estimated output where so configured.
    pub tokens: Cell<i64>,
}

/// Tokens that a request would add to an endpoint beyond what its prefix cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UncachedRequestTokens(pub i64);

/// What the latency model predicts for a request on an endpoint. Unit: milliseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatencyPredictionInfo {
    /// Whether the time to first token meets its objective.
    pub ttft_valid: bool,
    /// Whether the time an output token meets its objective.
    pub tpot_valid: bool,
    /// Objective minus prediction, time to first token.
    pub ttft_headroom: f64,
    /// Objective minus prediction, time an output token.
    pub tpot_headroom: f64,
    /// Predicted time to first token.
    pub ttft: f64,
    /// Predicted time an output token.
    pub tpot: f64,
    /// Requests dispatched to the endpoint and not finished.
    pub dispatched_request_count: i64,
}

/// Where an endpoint stands; empty = unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Host name.
    pub hostname: String,
    /// Rack.
    pub rack: String,
    /// Zone.
    pub zone: String,
    /// Region.
    pub region: String,
}

/// One multimodal item of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncoderItem {
    /// Content hash.
    pub hash: String,
    /// Size in the producer's unit.
    pub size: i64,
    /// `image`, `audio` or `video`.
    pub modality: String,
}

/// Multimodal items of a request, and those of them that an endpoint's encoder cache holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncoderCacheMatchInfo {
    /// Items that the endpoint holds.
    pub matched_items: Vec<EncoderItem>,
    /// All items of the request.
    pub request_items: Vec<EncoderItem>,
}

/// A number scraped under a name of the user's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ScalarMetricValue(pub f64);

/// One model that a server offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelInfo {
    /// Name.
    pub id: String,
    /// Base model of an adapter, empty for a base model.
    pub parent: String,
}

/// The models that a server offers, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Models(pub Vec<ModelInfo>);

#[cfg(test)]
mod tests {
    use super::*;

    /// Scheduling spec 1.4.
    #[test]
    fn a_value_replaces_the_one_before_whatever_their_types() {
        let (key, other) = (DataKey::plain("k"), DataKey::plain("o"));
        let mut attributes = Attributes::default();
        assert_eq!(attributes.get::<ScalarMetricValue>(&key), None);
        attributes.put(key.clone(), Rc::new(UncachedRequestTokens(3)));
        attributes.put(other.clone(), Rc::new(ScalarMetricValue(1.0)));
        attributes.put(key.clone(), Rc::new(ScalarMetricValue(2.0)));
        assert_eq!(attributes.get(&key), Some(&ScalarMetricValue(2.0)));
        assert_eq!(attributes.get::<UncachedRequestTokens>(&key), None, "another type reads as absent");
        assert_eq!(attributes.keys().collect::<Vec<_>>(), [&key, &other]);
        attributes.remove(&key);
        assert_eq!(attributes.keys().collect::<Vec<_>>(), [&other]);
    }

    /// Scheduling spec 1.4: the map of a snapshot is its own, and what is live stays live in it.
    #[test]
    fn a_snapshot_shares_values_and_not_the_map() {
        let (load, place) = (DataKey::plain("load"), DataKey::plain("place"));
        let mut attributes = Attributes::default();
        attributes.put(load.clone(), Rc::new(InFlightLoad::default()));
        let mut snapshot = attributes.clone();
        snapshot.put(place.clone(), Rc::new(Topology::default()));
        assert_eq!(attributes.get::<Topology>(&place), None);
        attributes.get::<InFlightLoad>(&load).expect("it was put").requests.set(7);
        assert_eq!(snapshot.get::<InFlightLoad>(&load).map(|load| load.requests.get()), Some(7));
    }

    /// Scheduling spec 1.6: the unweighted count, where the producer gives none.
    #[test]
    fn the_unweighted_count_is_that_of_the_match_unless_told() {
        assert_eq!(PrefixCacheMatchInfo::new(3, 9, 16).cached_block_count, 3);
    }
}
