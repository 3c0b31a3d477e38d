//! Names of the values that plugins hand to each other.

use std::fmt;
use std::sync::Arc;

use twox_hash::XxHash64;

/// The name of a value that one plugin produces and others consume: a data type and a producer, written
/// `dataType/producerName` (scheduling spec 2.6). A plain attribute (a custom metric) has no producer part.
///
/// Cheap to clone and to compare: a 64-bit hash stands in front of the text.
#[derive(Clone)]
pub struct DataKey {
    hash: u64,
    text: Arc<str>,
}

impl DataKey {
    /// Returns the key `data_type/producer`.
    pub fn new(data_type: &str, producer: &str) -> Self {
        Self::plain(&format!("{data_type}/{producer}"))
    }

    /// Returns the key whose serialised form is `text`, verbatim.
    pub fn plain(text: &str) -> Self {
        DataKey { hash: XxHash64::oneshot(0, text.as_bytes()), text: text.into() }
    }

    /// Returns the serialised form.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for DataKey {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.text == other.text
    }
}

impl Eq for DataKey {}

impl PartialOrd for DataKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Ordered by text.
impl Ord for DataKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl fmt::Display for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Data types that have a well-known producer, with the name of that producer (scheduling spec 1.6, 2.6).
pub mod well_known {
    /// Prefix-cache match of a request on an endpoint: [`crate::attributes::PrefixCacheMatchInfo`].
    pub const PREFIX_CACHE_MATCH_INFO: (&str, &str) =
        ("PrefixCacheMatchInfoDataKey", "approx-prefix-cache-producer");
    /// Requests and tokens in flight on an endpoint: [`crate::attributes::InFlightLoad`].
    pub const IN_FLIGHT_LOAD: (&str, &str) = ("InFlightLoadDataKey", "inflight-load-producer");
    /// Work that a request would add to an endpoint: [`crate::attributes::UncachedRequestTokens`].
    pub const UNCACHED_REQUEST_TOKENS: (&str, &str) =
        ("UncachedRequestTokensDataKey", "inflight-load-producer");
    /// Predicted latencies: [`crate::attributes::LatencyPredictionInfo`].
    pub const LATENCY_PREDICTION_INFO: (&str, &str) =
        ("LatencyPredictionInfoDataKey", "predicted-latency-producer");
    /// Place of an endpoint: [`crate::attributes::Topology`].
    pub const TOPOLOGY: (&str, &str) = ("Topology", "topology-extractor");
    /// Encoder-cache match: [`crate::attributes::EncoderCacheMatchInfo`].
    pub const ENCODER_CACHE_MATCH_INFO: (&str, &str) =
        ("MultiModalEncoderCacheMatchInfoKey", "mm-embeddings-cache-producer");
    /// Token ids of the prompt; the value lies in the request's body.
    pub const TOKENIZED_PROMPT: (&str, &str) = ("TokenizedPrompt", "token-producer");
    /// Session id of a request, a request attribute.
    pub const SESSION_ID: (&str, &str) = ("SessionIDDataKey", "session-id-producer");
}

/// Returns the key of a well-known data type, from `producer` or, where that is empty, from the type's
/// default producer.
pub fn resolve(data: (&str, &str), producer: &str) -> DataKey {
    DataKey::new(data.0, if producer.is_empty() { data.1 } else { producer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialises_as_type_slash_producer() {
        assert_eq!(DataKey::new("Topology", "t").as_str(), "Topology/t");
        assert_eq!(
            resolve(well_known::IN_FLIGHT_LOAD, "").as_str(),
            "InFlightLoadDataKey/inflight-load-producer"
        );
        assert_eq!(resolve(well_known::IN_FLIGHT_LOAD, "mine").as_str(), "InFlightLoadDataKey/mine");
    }
}
