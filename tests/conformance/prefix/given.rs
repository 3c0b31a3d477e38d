//! Endpoints, requests and prompts as cases describe them.

use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;
use router::attributes::PrefixCacheMatchInfo;
use router::candidates::Candidates;
use router::data_key::DataKey;
use router::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use router::plugin::{Instance, Parameters};
use router::request::{InferenceRequest, MultiModalFeature, ParsedBody, TokenizedPrompt};
use router::request_control::Produced;
use router::scheduling::{ProfileRunResult, SchedulingResult, Target};
use serde_json::{Value, json};

/// The endpoints of a case, by name; `None` = one without metadata, which our router does not have.
pub(super) type Endpoints = IndexMap<String, Option<Rc<Endpoint>>>;

/// Reads endpoints in their order.
pub(super) fn endpoints(list: &Value) -> Endpoints {
    list.as_array().into_iter().flatten().map(|given| (text(&given["name"]), endpoint(given))).collect()
}

/// Reads an endpoint.
pub(super) fn endpoint(given: &Value) -> Option<Rc<Endpoint>> {
    if given.get("metadata").is_some_and(Value::is_null) {
        return None;
    }
    let name = text(&given["name"]);
    let (namespace, short) = name.split_once('/').unwrap_or(("", &name));
    let metadata = EndpointMetadata {
        id: EndpointId::new(namespace, short),
        name: short.to_owned(),
        address: text(&given["address"]),
        port: text(&given["port"]),
        rank_index: given["rank_index"].as_u64().unwrap_or(0) as usize,
        ..EndpointMetadata::default()
    };
    let mut endpoint = Endpoint { metadata: Rc::new(metadata), ..Endpoint::default() };
    let metric = |metric: &str| given["metrics"][metric].as_i64().unwrap_or(0);
    endpoint.metrics.cache_block_size = metric("cache_block_size");
    endpoint.metrics.cache_num_blocks = metric("cache_num_blocks");
    endpoint.metrics.running_requests_size = metric("running_requests_size");
    endpoint.metrics.waiting_queue_size = metric("waiting_queue_size");
    for (key, value) in given["attributes"].as_object().into_iter().flatten() {
        let number = |name: &str| value[name].as_i64().unwrap_or(0);
        let tiers = value["by_tier"].as_object().map(|tiers| {
            tiers.iter().map(|(tier, blocks)| (tier.clone(), blocks.as_i64().unwrap_or(0))).collect()
        });
        let info = PrefixCacheMatchInfo {
            match_blocks: number("match_blocks"),
            total_blocks: number("total_blocks"),
            block_size_tokens: number("block_size_tokens"),
            cached_block_count: number("cached_block_count"),
            cached_blocks_by_tier: tiers.map(Rc::new),
            mm_match_blocks: value["mm_match_blocks"].as_i64(),
        };
        endpoint.attributes.put(DataKey::plain(key), Rc::new(info));
    }
    Some(Rc::new(endpoint))
}

/// Reads the parameters of a plugin.
pub(super) fn parameters(given: &Value) -> Parameters {
    if given.is_null() { Parameters::absent() } else { Parameters::new(given.clone()) }
}

/// Reads runs of consecutive token ids, `[first, count]`.
pub(super) fn consecutive(runs: &Value) -> Vec<u32> {
    let run = |run: &Value| {
        let first = super::token(&run[0]);
        (0..super::token(&run[1])).map(move |at| first.wrapping_add(at))
    };
    runs.as_array().into_iter().flatten().flat_map(run).collect()
}

/// Reads a request whose prompts are runs of consecutive token ids, or of equal ones.
pub(super) fn request(given: &Value) -> InferenceRequest {
    let has_body = given.get("body").is_none_or(|body| !body.is_null());
    InferenceRequest {
        request_id: text(&given["request_id"]),
        target_model: text(&given["target_model"]),
        body: has_body
            .then(|| ParsedBody { tokenized_prompt: prompt(given).map(Arc::new), ..ParsedBody::default() }),
        ..InferenceRequest::default()
    }
}

fn prompt(given: &Value) -> Option<TokenizedPrompt> {
    let prompts: Vec<Arc<[u32]>> = match (given["prompt_token_runs"].as_array(), given.get("prompt_runs")) {
        (Some(prompts), _) => prompts.iter().map(|runs| consecutive(runs).into()).collect(),
        (None, Some(runs)) if !runs.is_null() => super::prompt_runs(runs),
        _ => return None,
    };
    let feature = |item: &Value| MultiModalFeature {
        modality: text(&item["modality"]),
        hash: text(&item["hash"]),
        offset: item["offset"].as_u64().unwrap_or(0) as usize,
        length: item["length"].as_u64().unwrap_or(0) as usize,
    };
    let features = given["multimodal"].as_array().into_iter().flatten().map(feature).collect();
    Some(TokenizedPrompt { prompts, features, cache_salt: text(&given["cache_salt"]) })
}

/// Returns the candidates of these names; those without metadata are left out.
pub(super) fn candidates(endpoints: &Endpoints, names: &[&str]) -> Candidates {
    Candidates::new(Rc::new(names.iter().filter_map(|name| endpoints[*name].clone()).collect()))
}

/// Lets a producer run that never waits.
pub(super) fn produce(instance: &Instance, request: &mut InferenceRequest, candidates: &mut Candidates) {
    let producer = instance.roles.producer.as_ref().expect("a producer");
    match producer.produce(request, candidates) {
        Produced::Ready(Ok(())) => {}
        other => panic!("{other:?}"),
    }
}

/// Writes what is attached to each of `names` under `key`.
pub(super) fn attributes(
    endpoints: &Endpoints,
    names: &[&str],
    candidates: &Candidates,
    key: &DataKey,
) -> Value {
    let reader = candidates.read::<PrefixCacheMatchInfo>(key);
    let mut all = candidates.all();
    let attributes: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| {
            let candidate = endpoints[*name].as_ref().and_then(|_| all.next());
            let info = candidate.and_then(|candidate| reader.get(candidate));
            ((*name).to_owned(), info.map_or(Value::Null, attribute))
        })
        .collect();
    Value::Object(attributes)
}

fn attribute(info: &PrefixCacheMatchInfo) -> Value {
    let mut value = json!({
        "match_blocks": info.match_blocks,
        "total_blocks": info.total_blocks,
        "block_size_tokens": info.block_size_tokens,
        "cached_block_count": info.cached_block_count,
        "by_tier": info.cached_blocks_by_tier.as_deref(),
    });
    if let Some(blocks) = info.mm_match_blocks {
        value["mm_match_blocks"] = json!(blocks);
    }
    value
}

/// Reads the result of a decision out of a `route` step.
pub(super) fn scheduling_result(endpoints: &Endpoints, step: &Value) -> SchedulingResult {
    let mut result =
        SchedulingResult { primary: text(&step["primary_profile"]).into(), ..SchedulingResult::default() };
    for (profile, names) in step["profiles"].as_object().into_iter().flatten() {
        let targets = names.as_array().map(|names| {
            let names = names.iter().filter_map(Value::as_str);
            let endpoint = |name: &str| endpoints[name].clone();
            names.filter_map(endpoint).map(|endpoint| Target { endpoint, scored: None }).collect()
        });
        let run = targets.map(|targets| ProfileRunResult { targets, scored: Vec::new() });
        result.profiles.insert(profile.as_str().into(), run);
    }
    result
}

/// Reads a list of texts.
pub(super) fn names(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Reads a text; an absent one is empty, a number is written out.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        value => value.as_str().unwrap_or_default().to_owned(),
    }
}
