use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::plugin_state::{JANITOR_PERIOD, PluginState};
use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidates;
use crate::data_key::{DataKey, well_known};
use crate::data_layer::{EndpointEvent, EndpointListener};
use crate::endpoint::{Endpoint, EndpointId};
use crate::error::PluginError;
use crate::plugin::{
    DataFlow, FactoryError, Handle, Instance, ParameterError, Parameters, Periodic, Roles, StateDumper,
    TypedKey,
};
use crate::prefix::{ApproximateIndex, prompt_hashes};
use crate::request::{InferenceRequest, TokenizedPrompt};
use crate::request_control::{DataProducer, PreRequest, Produced};
use crate::scheduling::SchedulingResult;

/// Smallest block, whatever is configured or scraped. Unit: tokens.
const MIN_BLOCK_SIZE: i64 = 64;

/// Hashes that an endpoint holds where nothing better is known.
const DEFAULT_CAPACITY: i64 = 31_250;

/// Every how many visits of the janitor endpoints that are gone are forgotten: every two minutes.
const CLEAN_UP_EVERY: u32 = 2;

/// The state's only key.
const STATE_KEY: &str = "prefix";

/// Parameters of [`ApproxPrefixCacheProducer`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ApproxPrefixCacheParameters {
    /// Take block size and capacity from endpoint metrics where they are known.
    pub auto_tune: bool,
    /// Tokens a block; at least 64 count.
    pub block_size_tokens: i64,
    /// Deprecated name of `blockSizeTokens`, used where that is at its default.
    pub block_size: i64,
    /// Cap on the part of a prompt that is looked at; zero = the cap in blocks counts.
    pub max_prefix_tokens_to_match: i64,
    /// Cap in blocks; zero = none, less = nothing is looked at.
    pub max_prefix_blocks_to_match: i64,
    /// Hashes remembered for an endpoint.
    pub lru_capacity_per_server: i64,
}

impl Default for ApproxPrefixCacheParameters {
    fn default() -> Self {
        ApproxPrefixCacheParameters {
            auto_tune: true,
            block_size_tokens: 16,
            block_size: 0,
            max_prefix_tokens_to_match: 131_072,
            max_prefix_blocks_to_match: 2048,
            lru_capacity_per_server: DEFAULT_CAPACITY,
        }
    }
}

impl ApproxPrefixCacheParameters {
    /// Returns the parameters with the deprecated one in its place.
    ///
    /// # Errors
    /// A value out of range.
    pub fn checked(mut self) -> Result<Self, ParameterError> {
        if self.block_size > 0 && self.block_size_tokens == Self::default().block_size_tokens {
            self.block_size_tokens = self.block_size;
        }
        if !self.auto_tune && self.block_size_tokens <= 0 {
            return Err(ParameterError::at(
                "blockSizeTokens",
                format!(
                    "invalid configuration: BlockSizeTokens must be > 0 when AutoTune is disabled (current value: {})",
                    self.block_size_tokens
                ),
            ));
        }
        if self.max_prefix_tokens_to_match < 0 {
            return Err(ParameterError::at(
                "maxPrefixTokensToMatch",
                format!(
                    "invalid configuration: MaxPrefixTokensToMatch must be >= 0 (current value: {})",
                    self.max_prefix_tokens_to_match
                ),
            ));
        }
        Ok(self)
    }
}

/// `approx-prefix-cache-producer`: guesses from earlier decisions which endpoint holds which part of a prompt
/// (request-control spec 8.1).
///
/// What a decision teaches the index is known to the very next one; upstream's background task may be late.
pub struct ApproxPrefixCacheProducer {
    rt: Rt,
    parameters: ApproxPrefixCacheParameters,
    key: DataKey,
    core: RefCell<Core>,
}

#[derive(Default)]
struct Core {
    index: ApproximateIndex,
    /// The hashes of requests between Produce and PreRequest, one chain a prompt.
    pending: PluginState<Vec<Vec<u64>>>,
    /// The endpoints of the data layer.
    alive: BTreeSet<EndpointId>,
    visits: u32,
}

/// Builds an `approx-prefix-cache-producer`, which publishes `PrefixCacheMatchInfoDataKey/<name>`.
///
/// # Errors
/// Parameters that do not decode or are out of range.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    build(ApproxPrefixCacheProducer::TYPE, name, parameters, handle)
}

/// Builds an instance that reports `plugin_type`.
pub(super) fn build(
    plugin_type: &str,
    name: &str,
    parameters: &Parameters,
    handle: &Handle,
) -> Result<Instance, FactoryError> {
    let parameters: ApproxPrefixCacheParameters = parameters.decode()?;
    let producer = Rc::new(ApproxPrefixCacheProducer::new(name, parameters.checked()?, handle.rt().clone()));
    let data = DataFlow {
        produces: vec![TypedKey::of::<PrefixCacheMatchInfo>(&producer.key)],
        requires: vec![TypedKey::of::<TokenizedPrompt>(&crate::data_key::resolve(
            well_known::TOKENIZED_PROMPT,
            "",
        ))],
        declares: true,
        ..DataFlow::default()
    };
    let roles = Roles {
        producer: Some(producer.clone()),
        pre_request: Some(producer.clone()),
        endpoint_listener: Some(producer.clone()),
        periodic: vec![producer.clone()],
        state_dumper: Some(producer),
        ..Roles::default()
    };
    Ok(Instance::new(plugin_type, name, roles).with_data(data))
}

impl ApproxPrefixCacheProducer {
    /// The plugin type.
    pub const TYPE: &str = "approx-prefix-cache-producer";

    /// Returns a producer that publishes under `name`; `parameters` have been
    /// [checked](ApproxPrefixCacheParameters::checked).
    pub fn new(name: &str, parameters: ApproxPrefixCacheParameters, rt: Rt) -> Self {
        let key = DataKey::new(well_known::PREFIX_CACHE_MATCH_INFO.0, name);
        ApproxPrefixCacheProducer { rt, parameters, key, core: RefCell::default() }
    }

    /// Returns the block size for these candidates, and the hashes of the blocks that are looked at, one chain a
    /// prompt.
    pub fn hashes(
        &self,
        model: &str,
        prompt: Option<&TokenizedPrompt>,
        candidates: &[Rc<Endpoint>],
    ) -> (usize, Vec<Vec<u64>>) {
        let block_size = self.block_size(candidates);
        let max_blocks = self.max_blocks(block_size);
        let chains = prompt.map(|prompt| prompt_hashes(model, prompt, block_size, max_blocks));
        (block_size, chains.unwrap_or_default())
    }

    /// Returns the block size for these candidates: the first one's own, where it is known.
    fn block_size(&self, endpoints: &[Rc<Endpoint>]) -> usize {
        let scraped = endpoints.first().map(|e| e.metrics.cache_block_size).filter(|size| *size > 0);
        let tuned = scraped.filter(|_| self.parameters.auto_tune);
        tuned.unwrap_or(self.parameters.block_size_tokens).max(MIN_BLOCK_SIZE) as usize
    }

    fn max_blocks(&self, block_size: usize) -> usize {
        match (self.parameters.max_prefix_tokens_to_match, self.parameters.max_prefix_blocks_to_match) {
            (0, 0) => usize::MAX,
            (0, blocks) => usize::try_from(blocks).unwrap_or(0),
            (tokens, _) => tokens as usize / block_size,
        }
    }

    fn capacity(&self, endpoint: &Endpoint) -> usize {
        let scraped = Some(endpoint.metrics.cache_num_blocks).filter(|n| self.parameters.auto_tune && *n > 0);
        let configured = Some(self.parameters.lru_capacity_per_server).filter(|n| *n > 0);
        scraped.or(configured).unwrap_or(DEFAULT_CAPACITY) as usize
    }
}

impl DataProducer for ApproxPrefixCacheProducer {
    fn produce<'a>(
        &'a self,
        request: &'a mut InferenceRequest,
        candidates: &'a mut Candidates,
    ) -> Produced<'a> {
        let (block_size, chains) =
            self.hashes(&request.target_model, request.tokenized_prompt(), candidates.endpoints());
        let total = chains.iter().map(Vec::len).sum::<usize>() as i64;
        let mut core = self.core.borrow_mut();
        let metadata = candidates.endpoints().iter().map(|endpoint| &endpoint.metadata);
        let counts = core.index.matches(&chains, metadata);
        let info = |count| Some(PrefixCacheMatchInfo::new(count, total, block_size as i64));
        let column = match counts {
            Some(counts) => counts.into_iter().map(info).collect(),
            None => vec![info(0); candidates.len()],
        };
        candidates.put(self.key.clone(), column);
        if !request.request_id.is_empty() {
            core.pending.write(&request.request_id, STATE_KEY, chains, self.rt.now());
        }
        Produced::Ready(Ok(()))
    }
}

impl PreRequest for ApproxPrefixCacheProducer {
    /// Learns the decision: the first target of the primary profile and that of a profile named `prefill`.
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        _candidates: &Candidates,
    ) -> Result<(), PluginError> {
        let core = &mut *self.core.borrow_mut();
        let Some(chains) = core.pending.delete(&request.request_id).next() else { return Ok(()) };
        let Some(target) = result.primary_targets().first() else { return Ok(()) };
        let prefill = Some("prefill").filter(|name| **name != *result.primary);
        let prefill = prefill.and_then(|name| result.profile_targets(name).first());
        for target in [Some(target), prefill].into_iter().flatten() {
            let capacity = self.capacity(&target.endpoint);
            for chain in &chains {
                core.index.add(&target.endpoint.metadata, chain, capacity);
            }
        }
        Ok(())
    }
}

impl EndpointListener for ApproxPrefixCacheProducer {
    fn on_event(&self, event: &EndpointEvent, _endpoint: Option<&mut Endpoint>) {
        let mut core = self.core.borrow_mut();
        match event {
            EndpointEvent::AddOrUpdate(metadata) => core.alive.insert(metadata.id.clone()),
            EndpointEvent::Delete(metadata) => core.alive.remove(&metadata.id),
        };
    }
}

impl Periodic for ApproxPrefixCacheProducer {
    fn period(&self) -> Duration {
        JANITOR_PERIOD
    }

    fn tick(&self, now: Instant) {
        let core = &mut *self.core.borrow_mut();
        core.pending.sweep(now);
        core.visits += 1;
        if core.visits == CLEAN_UP_EVERY {
            core.visits = 0;
            core.index.retain(|id| core.alive.contains(id));
        }
    }
}

/// Most endpoints that a dump lists.
const MOST_DUMPED: usize = 100;

impl StateDumper for ApproxPrefixCacheProducer {
    fn dump_state(&self) -> Value {
        let core = self.core.borrow();
        let mut pods: Vec<(String, usize)> = core.index.sizes().map(|(id, n)| (id.to_string(), n)).collect();
        pods.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let total = pods.len();
        let listed: Vec<Value> = pods
            .into_iter()
            .take(MOST_DUMPED)
            .map(|(pod, blocks)| json!({"pod": pod, "blocks": blocks}))
            .collect();
        json!({"pods": listed, "totalPods": total, "maxPods": MOST_DUMPED})
    }
}

impl std::fmt::Debug for ApproxPrefixCacheProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApproxPrefixCacheProducer")
            .field("key", &self.key)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}
