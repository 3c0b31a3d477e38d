//! `precise-prefix-cache-producer`: how much of a prompt each candidate holds, by what the engines report
//! (request-control spec 8.8).

mod events;
mod guesses;
mod indexer;
mod parameters;
mod request_keys;

pub use indexer::{Backend, IndexerParameters};
pub use parameters::{
    KvEventsParameters, PodDiscoveryParameters, PreciseParameters, TokenProcessorParameters,
};
pub use request_keys::RequestKeys;

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt};
use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::plugin_state::{JANITOR_PERIOD, PluginState};
use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidates;
use crate::data_key::{DataKey, well_known};
use crate::endpoint::EndpointMetadata;
use crate::error::PluginError;
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Periodic, Roles, TypedKey};
use crate::prefix::block_index::{BlockIndex, PodEntry};
use crate::prefix::kv_events::{KvEventApplier, Subscribers};
use crate::prefix::{LongestPrefix, PodMatch};
use crate::request::{InferenceRequest, TokenizedPrompt};
use crate::request_control::{DataProducer, PreRequest, Produced};
use crate::scheduling::SchedulingResult;

use events::EventMetrics;
use guesses::{Guess, Guesses};

/// The state's only key.
const STATE_KEY: &str = "keys";

/// Keeps an index of the engines' KV blocks and reads from it what each candidate holds.
pub struct PrecisePrefixCacheProducer {
    rt: Rt,
    parameters: PreciseParameters,
    key: DataKey,
    core: RefCell<Core>,
    metrics: EventMetrics,
    subscribers: OnceCell<Box<dyn Subscribers>>,
}

struct Core {
    index: BlockIndex,
    applier: KvEventApplier,
    prefix: LongestPrefix,
    guesses: Guesses,
    /// The blocks of requests between Produce and PreRequest.
    pending: PluginState<Vec<Vec<u64>>>,
    pods: PodNames,
}

/// Builds a `precise-prefix-cache-producer`, which publishes `PrefixCacheMatchInfoDataKey/<name>`.
///
/// # Errors
/// Parameters that do not decode or are out of range, and a Redis index, which is not built.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let producer = PrecisePrefixCacheProducer::build(name, parameters, handle)?;
    let (roles, data) = producer.roles_and_data();
    Ok(Instance::new(PrecisePrefixCacheProducer::TYPE, name, roles).with_data(data))
}

impl PrecisePrefixCacheProducer {
    /// The plugin type.
    pub const TYPE: &str = "precise-prefix-cache-producer";

    /// Returns a producer that publishes under `name`.
    ///
    /// # Errors
    /// As [`factory`].
    pub fn build(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Rc<Self>, FactoryError> {
        let parameters = PreciseParameters::read(parameters)?;
        let limits = match parameters.indexer.backend()? {
            Backend::InMemory(limits) | Backend::CostAware(limits) => limits,
            Backend::Redis => return Err(FactoryError::NotBuilt("the Redis index (redisConfig)".to_owned())),
        };
        let hasher = parameters.hasher.clone();
        let core = Core {
            index: BlockIndex::new(limits),
            applier: KvEventApplier::new(hasher, handle.compat().kv_events),
            prefix: LongestPrefix::default(),
            guesses: Guesses::new(parameters.speculative_ttl.unwrap_or_default()),
            pending: PluginState::default(),
            pods: PodNames::default(),
        };
        Ok(Rc::new(PrecisePrefixCacheProducer {
            rt: handle.rt().clone(),
            key: DataKey::new(well_known::PREFIX_CACHE_MATCH_INFO.0, name),
            core: RefCell::new(core),
            metrics: EventMetrics::new(handle.metrics(), name, parameters.indexer.has_metrics()),
            parameters,
            subscribers: OnceCell::new(),
        }))
    }

    /// Returns what an instance of this producer can do, and the keys that it reads and writes.
    pub(crate) fn roles_and_data(self: &Rc<Self>) -> (Roles, DataFlow) {
        let roles = Roles {
            producer: Some(self.clone()),
            pre_request: Some(self.clone()),
            endpoint_listener: Some(self.clone()),
            kv_events: Some(self.clone()),
            periodic: vec![self.clone()],
            ..Roles::default()
        };
        let tokens = crate::data_key::resolve(well_known::TOKENIZED_PROMPT, "");
        let data = DataFlow {
            produces: vec![TypedKey::of::<PrefixCacheMatchInfo>(&self.key)],
            requires: vec![TypedKey::of::<TokenizedPrompt>(&tokens)],
            declares: true,
            ..DataFlow::default()
        };
        (roles, data)
    }

    /// Returns the parameters.
    pub fn parameters(&self) -> &PreciseParameters {
        &self.parameters
    }

    /// Returns the key under which matches are published.
    pub fn key(&self) -> &DataKey {
        &self.key
    }

    /// Returns the blocks that a request asks for.
    ///
    /// # Errors
    /// None that a request can cause.
    pub fn request_keys(&self, model: &str, prompt: &TokenizedPrompt) -> Result<RequestKeys, PluginError> {
        let keys = RequestKeys::of(&self.parameters.hasher, model, prompt);
        keys.map_err(|error| PluginError::other(format!("failed to compute block keys: {error}")))
    }

    /// Lets `read` look at the index as it is now.
    pub fn with_index<T>(&self, read: impl FnOnce(&mut BlockIndex) -> T) -> T {
        read(&mut self.up_to_date().index)
    }

    /// Returns the requests whose guesses count now, sorted.
    pub fn guessed_requests(&self) -> Vec<String> {
        self.up_to_date().guesses.requests()
    }

    /// Returns the core without guesses that are too old. Whoever looks at the index does it through this, so a
    /// guess is gone at its time, whenever it is taken out.
    fn up_to_date(&self) -> std::cell::RefMut<'_, Core> {
        let mut core = self.core.borrow_mut();
        core.expire(self.rt.now());
        core
    }
}

impl Core {
    fn expire(&mut self, now: Instant) {
        while let Some(Guess { blocks, entries }) = self.guesses.expired(now) {
            for block in blocks {
                let evicted = self.index.evict_block(block, &entries);
                debug_assert!(evicted.is_ok(), "a guess has entries");
            }
        }
    }

    /// Returns what each candidate holds of the prompts.
    fn matches(
        &mut self,
        producer: &PrecisePrefixCacheProducer,
        keys: &RequestKeys,
        candidates: &Candidates,
    ) -> Vec<PodMatch> {
        let names: Vec<Rc<str>> =
            candidates.endpoints().iter().map(|endpoint| self.pods.of(&endpoint.metadata)).collect();
        // Candidates of one address are one pod: the first one's matches are copied.
        let mut first: FxHashMap<&str, usize> = FxHashMap::default();
        let mut pods: Vec<&str> = Vec::with_capacity(names.len());
        let place: Vec<usize> = names
            .iter()
            .map(|name| {
                *first.entry(name).or_insert_with(|| {
                    pods.push(name);
                    pods.len() - 1
                })
            })
            .collect();
        let mut matches = vec![PodMatch::default(); pods.len()];
        for prompt in &keys.prompts {
            let weights = &producer.parameters.indexer.weights;
            self.prefix.add(&mut self.index, prompt, &pods, weights, &mut matches);
        }
        place.into_iter().map(|at| matches[at].clone()).collect()
    }
}

impl DataProducer for PrecisePrefixCacheProducer {
    fn produce<'a>(
        &'a self,
        request: &'a mut InferenceRequest,
        candidates: &'a mut Candidates,
    ) -> Produced<'a> {
        let keys = match request.tokenized_prompt() {
            None => RequestKeys::default(),
            Some(prompt) => match self.request_keys(&request.target_model, prompt) {
                Ok(keys) => keys,
                Err(error) => return Produced::Ready(Err(error)),
            },
        };
        if keys.prompts.is_empty() {
            return Produced::Ready(Ok(()));
        }
        let mut core = self.up_to_date();
        let matches = core.matches(self, &keys, candidates);
        self.metrics.looked_up(&matches);
        let (total, block_size) = (keys.total() as i64, self.parameters.hasher.block_size() as i64);
        let nothing: Rc<BTreeMap<String, i64>> = Rc::default();
        let info = |found: PodMatch| PrefixCacheMatchInfo {
            match_blocks: found.score as i64,
            total_blocks: total,
            block_size_tokens: block_size,
            cached_block_count: found.blocks,
            cached_blocks_by_tier: Some(match found.by_tier.is_empty() {
                true => Rc::clone(&nothing),
                false => Rc::new(found.by_tier),
            }),
            mm_match_blocks: (!keys.multimodal.is_empty())
                .then(|| keys.multimodal.partition_point(|at| (*at as i64) < found.blocks) as i64),
        };
        candidates.put(self.key.clone(), matches.into_iter().map(|found| Some(info(found))).collect());
        if self.parameters.speculative_ttl.is_some() {
            core.pending.write(&request.request_id, STATE_KEY, keys.prompts, self.rt.now());
        }
        Produced::Ready(Ok(()))
    }
}

impl PreRequest for PrecisePrefixCacheProducer {
    /// Takes the request's blocks for held where it goes, until events say so or the time is over.
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        _candidates: &Candidates,
    ) -> Result<(), PluginError> {
        let mut core = self.up_to_date();
        let Some(prompts) = core.pending.delete(&request.request_id).next() else { return Ok(()) };
        let Some(target) = result.primary_targets().first() else { return Ok(()) };
        let prefill = Some("prefill").filter(|name| **name != *result.primary);
        let prefill = prefill.and_then(|name| result.profile_targets(name).first());
        let mut entries: Vec<PodEntry> = Vec::new();
        for target in [Some(target), prefill].into_iter().flatten() {
            let entry = PodEntry::speculative(&core.pods.of(&target.endpoint.metadata));
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        for blocks in &prompts {
            // A full index takes no guesses: they are worth less than what it holds.
            let _ = core.index.add(&[], blocks, &entries);
        }
        let guess = Guess { blocks: prompts.into_iter().flatten().collect(), entries };
        core.guesses.add(&request.request_id, guess, self.rt.now());
        Ok(())
    }
}

impl Periodic for PrecisePrefixCacheProducer {
    fn period(&self) -> Duration {
        JANITOR_PERIOD
    }

    fn tick(&self, now: Instant) {
        let mut core = self.up_to_date();
        core.pending.sweep(now);
        core.pods.sweep();
    }
}

/// `address:port` of endpoints, as events name them: an IPv6 address has no brackets.
#[derive(Default)]
struct PodNames(IndexMap<usize, (Rc<EndpointMetadata>, Rc<str>), FxBuildHasher>);

impl PodNames {
    fn of(&mut self, endpoint: &Rc<EndpointMetadata>) -> Rc<str> {
        // The object is kept, so its address is nobody else's.
        let (_, name) = self.0.entry(Rc::as_ptr(endpoint) as usize).or_insert_with(|| {
            (Rc::clone(endpoint), format!("{}:{}", endpoint.address, endpoint.port).into())
        });
        Rc::clone(name)
    }

    /// Forgets the endpoints that nobody else knows.
    fn sweep(&mut self) {
        self.0.retain(|_, (endpoint, _)| Rc::strong_count(endpoint) > 1);
    }
}

impl std::fmt::Debug for PrecisePrefixCacheProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrecisePrefixCacheProducer")
            .field("key", &self.key)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}
