//! `mm-embeddings-cache-producer`: guesses from earlier decisions which endpoint holds the encoded images, sounds and
//! videos of a request (request-control spec 8.4).

mod content;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::plugin_state::{JANITOR_PERIOD, PluginState};
use super::roster::Roster;
use crate::attributes::{EncoderCacheMatchInfo, EncoderItem};
use crate::candidates::Candidates;
use crate::data_key::{DataKey, resolve, well_known};
use crate::data_layer::{EndpointEvent, EndpointListener};
use crate::endpoint::{Endpoint, EndpointId};
use crate::error::PluginError;
use crate::metrics::Metric;
use crate::plugin::{
    DataFlow, FactoryError, Handle, Instance, Parameters, Periodic, Roles, StateDumper, TypedKey,
};
use crate::request::{InferenceRequest, TokenizedPrompt};
use crate::request_control::{DataProducer, PreRequest, Produced};
use crate::scheduling::SchedulingResult;
use content::Content;

/// Name of the type.
pub const TYPE: &str = "mm-embeddings-cache-producer";

/// Cache of an endpoint where none is configured. Unit: MiB.
const DEFAULT_CACHE_MIB: i64 = 4096;

/// What one item is taken to need. Unit: MiB.
const ITEM_MIB: i64 = 2;

/// Every how many visits of the janitor endpoints that are gone are forgotten: every two minutes.
const CLEAN_UP_EVERY: u32 = 2;

/// Parameters of the type.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct MmEmbeddingsCacheParameters {
    /// Encoder cache of an endpoint, 4096 where not positive. Unit: MiB.
    #[serde(rename = "cacheSizeInMBPerServer")]
    pub cache_size_in_mb_per_server: i64,
}

/// Builds an instance, which publishes `MultiModalEncoderCacheMatchInfoKey/<name>` for requests with media.
///
/// # Errors
/// Parameters that do not decode.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let MmEmbeddingsCacheParameters { cache_size_in_mb_per_server: size } = parameters.decode()?;
    let size = if size > 0 { size } else { DEFAULT_CACHE_MIB };
    let metric = |name: &str| handle.metrics().metric(name);
    let roster = Rc::new(Roster::default());
    let producer = Rc::new(MmEmbeddingsCacheProducer {
        rt: handle.rt().clone(),
        name: name.to_owned(),
        key: DataKey::new(well_known::ENCODER_CACHE_MATCH_INFO.0, name),
        capacity: usize::try_from((size / ITEM_MIB).max(1)).unwrap_or(usize::MAX),
        roster: Rc::clone(&roster),
        queries: metric("llm_d_epp_encoder_cache_queries_total"),
        hits: metric("llm_d_epp_encoder_cache_hits_total"),
        hit_ratio: metric("llm_d_epp_encoder_cache_hit_ratio"),
        core: RefCell::default(),
    });
    let data = DataFlow {
        produces: vec![TypedKey::of::<EncoderCacheMatchInfo>(&producer.key)],
        requires: vec![TypedKey::of::<TokenizedPrompt>(&resolve(well_known::TOKENIZED_PROMPT, ""))],
        declares: true,
        ..DataFlow::default()
    };
    let roles = Roles {
        producer: Some(producer.clone()),
        pre_request: Some(producer.clone()),
        endpoint_listener: Some(producer.clone()),
        roster: Some(roster),
        periodic: vec![producer.clone()],
        state_dumper: Some(producer),
        ..Roles::default()
    };
    Ok(Instance::new(TYPE, name, roles).with_data(data))
}

/// What a decision teaches is known to the very next one; upstream's background task may be late. The items of a
/// request enter a cache in the order of its prompt, where upstream's is random.
struct MmEmbeddingsCacheProducer {
    rt: Rt,
    name: String,
    key: DataKey,
    /// Items that an endpoint holds.
    capacity: usize,
    roster: Rc<Roster>,
    queries: Metric,
    hits: Metric,
    hit_ratio: Metric,
    core: RefCell<Core>,
}

#[derive(Default)]
struct Core {
    caches: BTreeMap<EndpointId, Content>,
    /// The items of requests between Produce and PreRequest.
    pending: PluginState<Vec<EncoderItem>>,
    visits: u32,
}

/// Returns the distinct items of a prompt, in its order; of one that occurs as two modalities the last counts.
fn items(prompt: Option<&TokenizedPrompt>) -> Vec<EncoderItem> {
    let mut items: IndexMap<&str, EncoderItem, FxBuildHasher> = IndexMap::default();
    let features = prompt.map_or(&[][..], |prompt| &prompt.features);
    for feature in features.iter().filter(|feature| !feature.hash.is_empty()) {
        let (hash, modality) = (feature.hash.clone(), feature.modality.clone());
        items.insert(&feature.hash, EncoderItem { hash, size: 1, modality });
    }
    items.into_values().collect()
}

impl MmEmbeddingsCacheProducer {
    /// Counts what the cache of the chosen endpoint holds.
    fn count(&self, endpoint: &EndpointId, cache: Option<&Content>, items: &[EncoderItem]) {
        let own = [TYPE, self.name.as_str()];
        let pod = endpoint.to_string();
        let mut found = 0u32;
        for item in items {
            self.queries.inc(&[own[0], own[1], &item.modality]);
            if cache.is_some_and(|cache| cache.contains(&item.hash)) {
                found += 1;
                self.hits.inc(&[own[0], own[1], &pod, &item.modality]);
            }
        }
        self.hit_ratio.observe(&own, f64::from(found) / items.len() as f64);
    }
}

impl DataProducer for MmEmbeddingsCacheProducer {
    fn produce<'a>(
        &'a self,
        request: &'a mut InferenceRequest,
        candidates: &'a mut Candidates,
    ) -> Produced<'a> {
        let items = items(request.tokenized_prompt());
        if items.is_empty() {
            return Produced::Ready(Ok(()));
        }
        let mut core = self.core.borrow_mut();
        let column = candidates.endpoints().iter().map(|endpoint| {
            let cache = core.caches.get(&endpoint.metadata.id);
            let held = |item: &&EncoderItem| cache.is_some_and(|cache| cache.contains(&item.hash));
            let matched_items = items.iter().filter(held).cloned().collect();
            Some(EncoderCacheMatchInfo { matched_items, request_items: items.clone() })
        });
        let column = column.collect();
        candidates.put(self.key.clone(), column);
        if !request.request_id.is_empty() {
            core.pending.write(&request.request_id, TYPE, items, self.rt.now());
        }
        Produced::Ready(Ok(()))
    }
}

impl PreRequest for MmEmbeddingsCacheProducer {
    /// Learns the decision: all targets of the primary profile, and no others.
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        _candidates: &Candidates,
    ) -> Result<(), PluginError> {
        let Core { caches, pending, .. } = &mut *self.core.borrow_mut();
        let Some(items) = pending.delete(&request.request_id).next() else { return Ok(()) };
        for (position, target) in result.primary_targets().iter().enumerate() {
            let id = &target.endpoint.metadata.id;
            if position == 0 {
                self.count(id, caches.get(id), &items);
            }
            let cache = caches.entry(id.clone()).or_insert_with(|| Content::new(self.capacity));
            items.iter().for_each(|item| cache.push(&item.hash));
        }
        Ok(())
    }
}

impl EndpointListener for MmEmbeddingsCacheProducer {
    /// Forgets an endpoint at once, where the configuration lists the plugin under a source of such events.
    fn on_event(&self, event: &EndpointEvent, _endpoint: Option<&mut Endpoint>) {
        if let EndpointEvent::Delete(metadata) = event {
            self.core.borrow_mut().caches.remove(&metadata.id);
        }
    }
}

impl Periodic for MmEmbeddingsCacheProducer {
    fn period(&self) -> Duration {
        JANITOR_PERIOD
    }

    fn tick(&self, now: Instant) {
        let core = &mut *self.core.borrow_mut();
        core.pending.sweep(now);
        core.visits += 1;
        if core.visits == CLEAN_UP_EVERY {
            core.visits = 0;
            // An empty list says nothing: the endpoints are not known yet.
            if !self.roster.is_empty() {
                core.caches.retain(|id, _| self.roster.contains(id));
            }
        }
    }
}

/// Most endpoints that a dump lists.
const MOST_DUMPED: usize = 100;

impl StateDumper for MmEmbeddingsCacheProducer {
    fn dump_state(&self) -> Value {
        let core = self.core.borrow();
        let mut pods: Vec<(String, usize)> =
            core.caches.iter().map(|(id, cache)| (id.to_string(), cache.len())).collect();
        pods.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let total = pods.len();
        let listed: Vec<Value> = pods
            .into_iter()
            .take(MOST_DUMPED)
            .map(|(pod, items)| json!({"pod": pod, "items": items}))
            .collect();
        json!({"pods": listed, "totalPods": total, "maxPods": MOST_DUMPED})
    }
}

#[cfg(test)]
mod tests;
