mod counters;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::plugin_state::{JANITOR_PERIOD, PluginState};
use crate::attributes::{InFlightLoad, PrefixCacheMatchInfo, UncachedRequestTokens};
use crate::candidates::Candidates;
use crate::data_key::{self, DataKey, well_known};
use crate::data_layer::{EndpointEvent, EndpointListener};
use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use crate::error::PluginError;
use crate::plugin::{
    DataFlow, FactoryError, Handle, Instance, ParameterError, Parameters, Periodic, Roles, StateDumper,
    TypedKey,
};
use crate::request::{InferenceRequest, TokenizedPrompt};
use crate::request_control::{DataProducer, PreRequest, Produced, ResponseBodyProcessor, ResponseRecord};
use crate::scheduling::SchedulingResult;
use counters::{Counters, Held};

/// The profile whose work is over with the first chunk of the response.
const PREFILL: &str = "prefill";

/// Parameters of [`InflightLoadProducer`].
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct InflightLoadParameters {
    /// Count the expected output as well.
    pub add_estimated_output_tokens: bool,
    /// Expected output tokens for one input token.
    pub output_ratio: f64,
    /// Cap on the expected output.
    pub max_estimated_output_tokens: Option<i64>,
    /// Whose prefix matches to read; empty = the approximate producer's.
    pub prefix_match_info_producer_name: String,
    /// Whether replicas of the router add up their counts.
    pub sync_cross_replica_state: bool,
}

impl Default for InflightLoadParameters {
    fn default() -> Self {
        InflightLoadParameters {
            add_estimated_output_tokens: false,
            output_ratio: 1.5,
            max_estimated_output_tokens: None,
            prefix_match_info_producer_name: String::new(),
            sync_cross_replica_state: true,
        }
    }
}

impl InflightLoadParameters {
    fn checked(self) -> Result<Self, ParameterError> {
        if self.output_ratio < 0.0 {
            let message = format!("outputRatio must be non-negative, got {}", self.output_ratio);
            return Err(ParameterError::at("outputRatio", message));
        }
        if let Some(cap) = self.max_estimated_output_tokens.filter(|cap| *cap < 0) {
            let message = format!("maxEstimatedOutputTokens must be non-negative, got {cap}");
            return Err(ParameterError::at("maxEstimatedOutputTokens", message));
        }
        Ok(self)
    }
}

/// `inflight-load-producer`: requests and tokens that this router has in flight, for each endpoint
/// (request-control spec 8.3).
pub struct InflightLoadProducer {
    rt: Rt,
    parameters: InflightLoadParameters,
    load_key: DataKey,
    uncached_key: DataKey,
    prefix_key: DataKey,
    core: RefCell<Core>,
}

#[derive(Default)]
struct Core {
    counters: Counters,
    /// What each request holds, by endpoint and profile.
    held: PluginState<Held>,
}

/// Builds an `inflight-load-producer`, which publishes `InFlightLoadDataKey/<name>` on the endpoints and
/// `UncachedRequestTokensDataKey/<name>` on the candidates.
///
/// # Errors
/// Parameters that do not decode or are out of range.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let parameters = parameters.decode::<InflightLoadParameters>()?.checked()?;
    let producer = Rc::new(InflightLoadProducer {
        rt: handle.rt().clone(),
        load_key: DataKey::new(well_known::IN_FLIGHT_LOAD.0, name),
        uncached_key: DataKey::new(well_known::UNCACHED_REQUEST_TOKENS.0, name),
        prefix_key: data_key::resolve(
            well_known::PREFIX_CACHE_MATCH_INFO,
            &parameters.prefix_match_info_producer_name,
        ),
        parameters,
        core: RefCell::default(),
    });
    let data = DataFlow {
        produces: vec![
            TypedKey::of::<InFlightLoad>(&producer.load_key),
            TypedKey::of::<UncachedRequestTokens>(&producer.uncached_key),
        ],
        requires: vec![TypedKey::of::<TokenizedPrompt>(&data_key::resolve(well_known::TOKENIZED_PROMPT, ""))],
        optional: vec![TypedKey::of::<PrefixCacheMatchInfo>(&producer.prefix_key)],
        declares: true,
    };
    let roles = Roles {
        producer: Some(producer.clone()),
        pre_request: Some(producer.clone()),
        response_body: Some(producer.clone()),
        endpoint_listener: Some(producer.clone()),
        periodic: vec![producer.clone()],
        state_dumper: Some(producer),
        ..Roles::default()
    };
    Ok(Instance::new(InflightLoadProducer::TYPE, name, roles).with_data(data))
}

impl InflightLoadProducer {
    /// The plugin type.
    pub const TYPE: &str = "inflight-load-producer";

    /// Returns the tokens that a request counts for beside its uncached input: its expected output, derived
    /// from the whole input.
    fn output(&self, request: &InferenceRequest, input: i64) -> i64 {
        if !self.parameters.add_estimated_output_tokens || input <= 0 {
            return 0;
        }
        // A cast saturates where the product leaves the range; f64::round is half away from zero.
        let estimate = (input as f64 * self.parameters.output_ratio).round() as i64;
        let client = request.body.as_ref().and_then(|body| body.max_output_tokens);
        let client = client.map_or(i64::MAX, |cap| i64::try_from(cap).unwrap_or(i64::MAX));
        estimate.min(client).min(self.parameters.max_estimated_output_tokens.unwrap_or(i64::MAX))
    }
}

fn input(request: &InferenceRequest) -> i64 {
    request.tokenized_prompt().map_or(0, TokenizedPrompt::token_count) as i64
}

/// Returns the input tokens that an endpoint has to compute. A partly filled last block counts as a whole one,
/// so it may be more than the input.
fn uncached(input: i64, found: Option<&PrefixCacheMatchInfo>) -> i64 {
    match found.filter(|found| found.block_size_tokens > 0) {
        None => input.max(0),
        Some(found) => {
            let size = found.block_size_tokens;
            let missing = found.total_blocks.saturating_sub(found.match_blocks).saturating_mul(size).max(0);
            let beyond = input.saturating_sub(found.total_blocks.saturating_mul(size)).max(0);
            missing.saturating_add(beyond)
        }
    }
}

impl DataProducer for InflightLoadProducer {
    fn produce<'a>(
        &'a self,
        request: &'a mut InferenceRequest,
        candidates: &'a mut Candidates,
    ) -> Produced<'a> {
        let input = input(request);
        let output = self.output(request, input);
        let prefix = candidates.read::<PrefixCacheMatchInfo>(&self.prefix_key);
        let column = candidates
            .all()
            .map(|c| Some(UncachedRequestTokens(uncached(input, prefix.get(c)).saturating_add(output))))
            .collect();
        candidates.put(self.uncached_key.clone(), column);
        Produced::Ready(Ok(()))
    }
}

impl PreRequest for InflightLoadProducer {
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        candidates: &Candidates,
    ) -> Result<(), PluginError> {
        if request.request_id.is_empty() {
            return Ok(());
        }
        let input = input(request);
        let output = self.output(request, input);
        let Core { counters, held } = &mut *self.core.borrow_mut();
        let now = self.rt.now();
        for (profile, result) in &result.profiles {
            let Some(target) = result.as_ref().and_then(|result| result.targets.first()) else { continue };
            let found = target.read::<PrefixCacheMatchInfo>(candidates, &self.prefix_key);
            let tokens = uncached(input, found).saturating_add(output);
            let id = &target.endpoint.metadata.id;
            held.write(&request.request_id, &key(id, profile), counters.take(id, tokens), now);
            held.bind(&request.request_id, &request.stream);
        }
        Ok(())
    }
}

impl ResponseBodyProcessor for InflightLoadProducer {
    /// Between the first chunk and the end nothing is given back, and the stream's life is known otherwise.
    fn watches_every_chunk(&self) -> bool {
        false
    }

    fn response_body(
        &self,
        request: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        _target: Option<&Rc<EndpointMetadata>>,
    ) {
        let Some(request) = request else { return };
        let Some(result) = &request.scheduling_result else { return };
        let Core { counters, held } = &mut *self.core.borrow_mut();
        if response.end_of_stream {
            for mut share in held.delete(&request.request_id) {
                counters.release(&mut share);
            }
            return;
        }
        let now = self.rt.now();
        if !response.start_of_stream {
            held.touch(&request.request_id, now);
            return;
        }
        for (profile, result) in &result.profiles {
            let Some(target) = result.as_ref().and_then(|result| result.targets.first()) else { continue };
            let key = key(&target.endpoint.metadata.id, profile);
            let Some(share) = held.read(&request.request_id, &key, now) else { continue };
            if **profile == *PREFILL {
                counters.release(share);
            } else if !self.parameters.add_estimated_output_tokens {
                counters.release_tokens(share);
            }
        }
    }
}

/// Returns the key under which a request's share in an endpoint is kept.
fn key(endpoint: &EndpointId, profile: &str) -> String {
    format!("{endpoint}|{profile}|added")
}

impl EndpointListener for InflightLoadProducer {
    fn on_event(&self, event: &EndpointEvent, endpoint: Option<&mut Endpoint>) {
        let counters = &mut self.core.borrow_mut().counters;
        match event {
            EndpointEvent::AddOrUpdate(metadata) => {
                let load = counters.attach(metadata);
                if let Some(endpoint) = endpoint {
                    endpoint.attributes.put(self.load_key.clone(), load);
                }
            }
            EndpointEvent::Delete(metadata) => counters.detach(metadata),
        }
    }
}

impl Periodic for InflightLoadProducer {
    fn period(&self) -> Duration {
        JANITOR_PERIOD
    }

    /// Gives back what requests hold whose stream is gone.
    fn tick(&self, now: Instant) {
        let Core { counters, held } = &mut *self.core.borrow_mut();
        for mut share in held.sweep(now) {
            counters.release(&mut share);
        }
    }
}

/// Most endpoints that a dump lists.
const MOST_DUMPED: usize = 100;

impl StateDumper for InflightLoadProducer {
    fn dump_state(&self) -> Value {
        let core = self.core.borrow();
        let mut loads: Vec<_> = core
            .counters
            .tracked()
            .map(|(id, l)| (id.to_string(), l.requests.get(), l.tokens.get()))
            .collect();
        let total = loads.len();
        loads.sort_by(|a, b| (b.1 + b.2).cmp(&(a.1 + a.2)).then_with(|| a.0.cmp(&b.0)));
        let listed: Vec<Value> = loads
            .into_iter()
            .take(MOST_DUMPED)
            .map(|(id, requests, tokens)| json!({"endpoint": id, "requests": requests, "tokens": tokens}))
            .collect();
        json!({"endpoints": listed, "totalEndpoints": total, "maxEndpoints": MOST_DUMPED})
    }
}

impl std::fmt::Debug for InflightLoadProducer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InflightLoadProducer")
            .field("key", &self.load_key)
            .field("parameters", &self.parameters)
            .finish_non_exhaustive()
    }
}
