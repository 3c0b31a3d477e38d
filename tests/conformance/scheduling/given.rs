//! Endpoints and requests as cases describe them.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use executor::Instant;
use router::attributes::{
    EncoderCacheMatchInfo, EncoderItem, InFlightLoad, LatencyPredictionInfo, PrefixCacheMatchInfo,
    ScalarMetricValue, Topology, UncachedRequestTokens,
};
use router::candidates::Candidates;
use router::data_key::DataKey;
use router::endpoint::{Endpoint, EndpointId, EndpointMetadata, Metrics};
use router::request::{InferenceRequest, MultiModalFeature, ParsedBody, TokenizedPrompt};
use router::scheduling::PEER_ENDPOINT;
use serde_json::Value;
use tests::compare::read_float;

/// Returns the instant of every decision, late enough for metrics of any age.
pub(crate) fn now() -> Instant {
    Instant::ZERO + Duration::from_secs(1 << 20)
}

/// Returns the candidates in the list `endpoints`.
pub(super) fn candidates(endpoints: Option<&Value>) -> Candidates {
    let list = endpoints.and_then(Value::as_array).into_iter().flatten();
    Candidates::new(Rc::new(list.map(|value| Rc::new(endpoint(value))).collect()))
}

/// Returns one endpoint.
pub(crate) fn endpoint(value: &Value) -> Endpoint {
    let (namespace, name) = text(value, "name").split_once('/').unwrap_or(("", text(value, "name")));
    let port = match &value["port"] {
        Value::Number(port) => port.to_string(),
        port => port.as_str().unwrap_or_default().to_owned(),
    };
    let labels = value["labels"].as_object().into_iter().flatten();
    let metadata = EndpointMetadata {
        id: EndpointId::new(namespace, name),
        name: name.to_owned(),
        address: text(value, "address").to_owned(),
        port,
        labels: labels.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect(),
        ..EndpointMetadata::default()
    };
    let mut endpoint =
        Endpoint { metadata: Rc::new(metadata), metrics: metrics(&value["metrics"]), ..Endpoint::default() };
    put_attributes(&mut endpoint, &value["attributes"]);
    endpoint
}

/// Adds attributes, each of the type that its key says.
pub(super) fn put_attributes(endpoint: &mut Endpoint, attributes: &Value) {
    for (key, value) in attributes.as_object().into_iter().flatten() {
        put_attribute(endpoint, key, value);
    }
}

fn put_attribute(endpoint: &mut Endpoint, key: &str, value: &Value) {
    struct Foreign;
    let attributes = &mut endpoint.attributes;
    let data_key = DataKey::plain(key);
    match value.as_str() {
        Some("wrong-type") => return attributes.put(data_key, Rc::new(Foreign)),
        // There is no such thing here as a value that is stored and null.
        Some("typed-nil") => return,
        _ => {}
    }
    match key.split_once('/').map_or(key, |(data_type, _)| data_type) {
        "PrefixCacheMatchInfoDataKey" => attributes.put(data_key, Rc::new(prefix_match(value))),
        "InFlightLoadDataKey" => {
            let load = InFlightLoad {
                requests: integer(value, "requests").into(),
                tokens: integer(value, "tokens").into(),
            };
            attributes.put(data_key, Rc::new(load));
        }
        "UncachedRequestTokensDataKey" => {
            attributes.put(data_key, Rc::new(UncachedRequestTokens(integer(value, "tokens"))));
        }
        "LatencyPredictionInfoDataKey" => attributes.put(data_key, Rc::new(prediction(value))),
        "Topology" => attributes.put(data_key, Rc::new(topology(value))),
        "MultiModalEncoderCacheMatchInfoKey" => {
            let items = |name: &str| value[name].as_array().into_iter().flatten().map(encoder_item).collect();
            let info = EncoderCacheMatchInfo {
                matched_items: items("matched_items"),
                request_items: items("request_items"),
            };
            attributes.put(data_key, Rc::new(info));
        }
        _ => attributes.put(data_key, Rc::new(ScalarMetricValue(read_float(value).unwrap_or_default()))),
    }
}

fn prefix_match(value: &Value) -> PrefixCacheMatchInfo {
    let match_blocks = integer(value, "match_blocks");
    let tiers = |tiers: &serde_json::Map<String, Value>| {
        Rc::new(tiers.iter().map(|(tier, n)| (tier.clone(), n.as_i64().unwrap_or_default())).collect())
    };
    PrefixCacheMatchInfo {
        match_blocks,
        total_blocks: integer(value, "total_blocks"),
        block_size_tokens: integer(value, "block_size_tokens"),
        cached_block_count: value["cached_block_count"].as_i64().unwrap_or(match_blocks),
        cached_blocks_by_tier: value["cached_blocks_by_tier"].as_object().map(tiers),
        mm_match_blocks: value["mm_match_blocks"].as_i64(),
    }
}

fn prediction(value: &Value) -> LatencyPredictionInfo {
    LatencyPredictionInfo {
        ttft_valid: value["ttft_valid"].as_bool().unwrap_or_default(),
        tpot_valid: value["tpot_valid"].as_bool().unwrap_or_default(),
        ttft_headroom: float(value, "ttft_headroom"),
        tpot_headroom: float(value, "tpot_headroom"),
        ttft: float(value, "ttft"),
        tpot: float(value, "tpot"),
        dispatched_request_count: integer(value, "dispatched_request_count"),
    }
}

/// Returns a place; absent parts are unknown.
pub(super) fn topology(value: &Value) -> Topology {
    let part = |name| text(value, name).to_owned();
    Topology { hostname: part("hostname"), rack: part("rack"), zone: part("zone"), region: part("region") }
}

fn encoder_item(value: &Value) -> EncoderItem {
    EncoderItem {
        hash: text(value, "hash").to_owned(),
        size: integer(value, "size"),
        modality: text(value, "modality").to_owned(),
    }
}

/// Returns the metrics of a scrape as old as the case says.
pub(super) fn metrics(value: &Value) -> Metrics {
    let models = |name: &str| {
        let models = value[name].as_object().into_iter().flatten();
        Rc::new(models.map(|(k, v)| (k.clone(), v.as_i64().unwrap_or_default())).collect::<BTreeMap<_, _>>())
    };
    let age = Duration::from_secs_f64(float(value, "update_age_ms") / 1000.0);
    Metrics {
        active_models: models("active_models"),
        waiting_models: models("waiting_models"),
        max_active_models: integer(value, "max_active_models"),
        running_requests_size: integer(value, "running_requests_size"),
        waiting_queue_size: integer(value, "waiting_queue_size"),
        kv_cache_usage_percent: float(value, "kv_cache_usage_percent"),
        cache_block_size: integer(value, "cache_block_size"),
        cache_num_blocks: integer(value, "cache_num_blocks"),
        update_time: value.is_object().then(|| now() - age),
        ..Metrics::default()
    }
}

/// Returns a request; an absent one is an empty one.
pub(super) fn request(value: &Value) -> InferenceRequest {
    let headers = value["headers"].as_object().into_iter().flatten();
    let mut request = InferenceRequest {
        request_id: text(value, "request_id").to_owned(),
        target_model: text(value, "target_model").to_owned(),
        headers: headers.map(|(k, v)| (k, v.as_str().unwrap_or_default())).collect(),
        body: (value["no_body"] != Value::Bool(true)).then(|| body(value)),
        ..InferenceRequest::default()
    };
    for (key, attribute) in value["attributes"].as_object().into_iter().flatten() {
        let value = &attribute["value"];
        let text = value.as_str().unwrap_or_default();
        match attribute["type"].as_str() {
            Some("string") => request.attributes.put(key, text.to_owned()),
            Some("named-string") => request.attributes.put(key, Rc::<str>::from(text)),
            _ => request.attributes.put(key, value.as_i64().unwrap_or_default()),
        }
    }
    if let Some(peer) = value.get("peer_endpoint").filter(|peer| peer.is_object()) {
        request.attributes.put(PEER_ENDPOINT, Rc::new(endpoint(peer)));
    }
    if value["peer_endpoint_wrong_type"] == Value::Bool(true) {
        request.attributes.put(PEER_ENDPOINT, "text".to_owned());
    }
    request
}

fn body(value: &Value) -> ParsedBody {
    let counts = value["token_counts"].as_array();
    let features = value["multimodal_features"].as_array();
    let prompt = TokenizedPrompt {
        prompts: counts
            .into_iter()
            .flatten()
            .map(|n| vec![0; n.as_u64().unwrap_or(0) as usize].into())
            .collect(),
        features: features.into_iter().flatten().map(feature).collect(),
        cache_salt: String::new(),
    };
    let tokenized = counts.is_some() || features.is_some();
    ParsedBody { tokenized_prompt: tokenized.then(|| Arc::new(prompt)), ..ParsedBody::default() }
}

fn feature(value: &Value) -> MultiModalFeature {
    MultiModalFeature {
        modality: text(value, "modality").to_owned(),
        hash: text(value, "hash").to_owned(),
        offset: integer(value, "offset") as usize,
        length: integer(value, "length") as usize,
    }
}

/// Returns a member's text, empty where it is absent.
pub(super) fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value[member].as_str().unwrap_or_default()
}

fn integer(value: &Value, member: &str) -> i64 {
    value[member].as_i64().unwrap_or_default()
}

fn float(value: &Value, member: &str) -> f64 {
    read_float(&value[member]).unwrap_or_default()
}
