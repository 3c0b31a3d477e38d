//! `burst-prefix-cache-producer`: holds requests for a short window and sends equal prompts to few replicas
//! (request-control spec 8.9).

mod assignment;

pub use assignment::{Arrival, BalanceBy, Limits, assign};

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::Rt;
use executor::sync::oneshot;
use serde::{Deserialize, Serialize};

use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidates;
use crate::data_key::{DataKey, resolve, well_known};
use crate::endpoint::EndpointId;
use crate::error::PluginError;
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, ParameterError, Parameters, Roles, TypedKey};
use crate::prefix::prompt_hashes;
use crate::request::{InferenceRequest, TokenizedPrompt};
use crate::request_control::{DataProducer, Produced};

/// What a request may wait beyond the window before the director goes on without an answer.
const GRACE: Duration = Duration::from_millis(300);

/// Blocks of a prompt that are looked at where no cap in tokens is given.
const DEFAULT_MAX_BLOCKS: usize = 2048;

/// Parameters as written.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct Written {
    window_duration_ms: i64,
    max_per_replica: i64,
    block_size_tokens: i64,
    max_prefix_tokens_to_match: i64,
    min_colocate_blocks: i64,
    max_batch_size: i64,
    balance_by: String,
}

impl Default for Written {
    fn default() -> Self {
        Written {
            window_duration_ms: 100,
            max_per_replica: -1,
            block_size_tokens: 64,
            max_prefix_tokens_to_match: 0,
            min_colocate_blocks: 0,
            max_batch_size: 1000,
            balance_by: "requests".to_owned(),
        }
    }
}

/// Parameters, checked.
#[derive(Clone, Copy, Debug)]
struct BurstParameters {
    window: Duration,
    block_size: usize,
    max_blocks: usize,
    /// `None` = no bound.
    max_batch_size: Option<usize>,
    limits: Limits,
}

impl Written {
    fn checked(&self) -> Result<BurstParameters, ParameterError> {
        let check = |key: &str, value: i64, is_right: bool, accepted: &str| match is_right {
            true => Ok(()),
            false => Err(ParameterError::at(
                key,
                format!("invalid configuration: {key} must be {accepted} (current value: {value})"),
            )),
        };
        let Written { window_duration_ms: window, max_per_replica, block_size_tokens: block_size, .. } =
            *self;
        let (tokens, colocate, batch) =
            (self.max_prefix_tokens_to_match, self.min_colocate_blocks, self.max_batch_size);
        check("windowDurationMs", window, (1..=10_000).contains(&window), "in [1, 10000]")?;
        check("maxPerReplica", max_per_replica, max_per_replica == -1 || max_per_replica >= 1, "-1 or >= 1")?;
        check("blockSizeTokens", block_size, block_size > 0, "> 0")?;
        check(
            "maxPrefixTokensToMatch",
            tokens,
            tokens == 0 || tokens >= block_size,
            "0 or >= blockSizeTokens",
        )?;
        check("minColocateBlocks", colocate, colocate >= 0, ">= 0")?;
        check("maxBatchSize", batch, batch == -1 || batch >= 1, "-1 or >= 1")?;
        let balance_by = match self.balance_by.as_str() {
            "requests" => BalanceBy::Requests,
            "tokens" => BalanceBy::Tokens,
            other => {
                let message = format!(
                    "invalid configuration: balanceBy must be \"requests\" or \"tokens\" (current value: {other:?})"
                );
                return Err(ParameterError::at("balanceBy", message));
            }
        };
        Ok(BurstParameters {
            window: Duration::from_millis(window as u64),
            block_size: block_size as usize,
            max_blocks: if tokens == 0 { DEFAULT_MAX_BLOCKS } else { (tokens / block_size) as usize },
            max_batch_size: usize::try_from(batch).ok(),
            limits: Limits {
                per_replica: usize::try_from(max_per_replica).ok(),
                min_colocate_blocks: colocate as usize,
                balance_by,
            },
        })
    }
}

/// Collects requests until a window is over, and gives each the replica that its prompt goes to.
///
/// A request that arrives at the very instant at which a window ends belongs to it if its task runs first.
pub struct BurstPrefixCacheProducer {
    rt: Rt,
    key: DataKey,
    parameters: BurstParameters,
    open: Rc<RefCell<Option<Batch>>>,
}

/// Requests of one window, in order of arrival.
#[derive(Default)]
struct Batch {
    arrivals: Vec<Arrival>,
    waiting: Vec<oneshot::Sender<Option<EndpointId>>>,
}

/// Builds a `burst-prefix-cache-producer`, which publishes `PrefixCacheMatchInfoDataKey/<name>`.
///
/// # Errors
/// Parameters that do not decode or are out of range.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let parameters = parameters.decode::<Written>()?.checked()?;
    let key = DataKey::new(well_known::PREFIX_CACHE_MATCH_INFO.0, name);
    let data = DataFlow {
        produces: vec![TypedKey::of::<PrefixCacheMatchInfo>(&key)],
        requires: vec![TypedKey::of::<TokenizedPrompt>(&resolve(well_known::TOKENIZED_PROMPT, ""))],
        declares: true,
        ..DataFlow::default()
    };
    let producer = BurstPrefixCacheProducer { rt: handle.rt().clone(), key, parameters, open: Rc::default() };
    let roles = Roles { producer: Some(Rc::new(producer)), ..Roles::default() };
    Ok(Instance::new(BurstPrefixCacheProducer::TYPE, name, roles).with_data(data))
}

impl BurstPrefixCacheProducer {
    /// The plugin type.
    pub const TYPE: &str = "burst-prefix-cache-producer";

    /// Puts a request into the open batch and returns where its replica will be told.
    fn enqueue(&self, arrival: Arrival) -> Result<oneshot::Receiver<Option<EndpointId>>, PluginError> {
        let mut open = self.open.borrow_mut();
        if open.is_none() {
            self.open_window();
        }
        let batch = open.get_or_insert_default();
        if let Some(most) = self.parameters.max_batch_size
            && batch.arrivals.len() >= most
        {
            return Err(PluginError::other(format!("burst prefix batch full: maxBatchSize {most} reached")));
        }
        let (sender, receiver) = self.rt.oneshot();
        batch.arrivals.push(arrival);
        batch.waiting.push(sender);
        Ok(receiver)
    }

    /// Starts the timer that seals the batch.
    fn open_window(&self) {
        let (rt, open, parameters) = (self.rt.clone(), Rc::clone(&self.open), self.parameters);
        let seal = async move {
            rt.sleep(parameters.window).await;
            let Some(batch) = open.borrow_mut().take() else { return };
            let assigned = assign(&batch.arrivals, parameters.limits);
            for (waiting, replica) in batch.waiting.into_iter().zip(assigned) {
                // Whoever was cancelled has taken part all the same.
                let _ = waiting.send(replica);
            }
        };
        drop(self.rt.spawn_local("burst window", seal));
    }
}

impl DataProducer for BurstPrefixCacheProducer {
    fn produce<'a>(
        &'a self,
        request: &'a mut InferenceRequest,
        candidates: &'a mut Candidates,
    ) -> Produced<'a> {
        let BurstParameters { block_size, max_blocks, .. } = self.parameters;
        let chains = request
            .tokenized_prompt()
            .map(|prompt| prompt_hashes(&request.target_model, prompt, block_size, max_blocks));
        let blocks = chains.into_iter().flatten().flatten().collect::<Vec<u64>>();
        let total = blocks.len() as i64;
        let replicas = candidates
            .endpoints()
            .iter()
            .map(|endpoint| (endpoint.metadata.id.clone(), endpoint.metrics.running_requests_size));
        let receiver = match self.enqueue(Arrival { blocks, replicas: replicas.collect() }) {
            Ok(receiver) => receiver,
            Err(error) => return Produced::Ready(Err(error)),
        };
        Produced::Pending(Box::pin(async move {
            let replica = receiver.await.map_err(|_| PluginError::other("the burst window was given up"))?;
            let matches = candidates.endpoints().iter().map(|endpoint| {
                let is_assigned = replica.as_ref() == Some(&endpoint.metadata.id);
                let blocks = if is_assigned { total } else { 0 };
                Some(PrefixCacheMatchInfo::new(blocks, total, block_size as i64))
            });
            let column = matches.collect();
            candidates.put(self.key.clone(), column);
            Ok(())
        }))
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.parameters.window + GRACE)
    }
}

impl std::fmt::Debug for BurstPrefixCacheProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BurstPrefixCacheProducer").field("key", &self.key).finish_non_exhaustive()
    }
}
