//! `p2p-source-producer`: names a peer from which the computing server may take cached KV blocks (request-control
//! spec 8.10).

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidates;
use crate::data_key::{DataKey, resolve, well_known};
use crate::error::PluginError;
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, ParameterError, Parameters, Roles, TypedKey};
use crate::request::InferenceRequest;
use crate::request_control::{DataProducer, PreRequest, Produced};
use crate::scheduling::SchedulingResult;

/// The header that names the peer.
const HEADER: &str = "x-kv-cache-source-host-port";

/// The tier from which peers can take blocks.
const TIER: &str = "cpu";

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct P2pSourceParameters {
    /// Whose matches to read; empty = the default producer's.
    prefix_match_info_producer_name: String,
    /// By how much the peer must be ahead of the computing server. Unit: tokens.
    min_cached_token_delta: i64,
    /// The profile whose target computes the prompt, where there is one; empty = `prefill`.
    prefill_profile_name: String,
}

impl Default for P2pSourceParameters {
    fn default() -> Self {
        P2pSourceParameters {
            prefix_match_info_producer_name: String::new(),
            min_cached_token_delta: 1,
            prefill_profile_name: "prefill".to_owned(),
        }
    }
}

/// The candidate that holds most of a request's prompt: an attribute of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestMatch {
    /// Where it is.
    pub host_port: String,
    /// What it holds. Unit: tokens.
    pub cached_tokens: i64,
}

/// Finds the best peer, and names it once it is known who computes.
#[derive(Debug)]
pub struct P2pSourceProducer {
    parameters: P2pSourceParameters,
    key: DataKey,
    stash: String,
}

/// Builds a `p2p-source-producer`.
///
/// # Errors
/// Parameters that do not decode or are out of range.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let mut parameters: P2pSourceParameters = parameters.decode()?;
    if parameters.prefill_profile_name.is_empty() {
        parameters.prefill_profile_name = P2pSourceParameters::default().prefill_profile_name;
    }
    let delta = parameters.min_cached_token_delta;
    if delta < 1 {
        let message = format!("p2p-source-producer: minCachedTokenDelta must be >= 1, got {delta}");
        return Err(ParameterError::at("minCachedTokenDelta", message).into());
    }
    let key = resolve(well_known::PREFIX_CACHE_MATCH_INFO, &parameters.prefix_match_info_producer_name);
    let data = DataFlow::consumer(vec![TypedKey::of::<PrefixCacheMatchInfo>(&key)]);
    let stash = format!("{}/{name}/best-match", P2pSourceProducer::TYPE);
    let producer = Rc::new(P2pSourceProducer { parameters, key, stash });
    let roles = Roles { producer: Some(producer.clone()), pre_request: Some(producer), ..Roles::default() };
    Ok(Instance::new(P2pSourceProducer::TYPE, name, roles).with_data(data))
}

impl P2pSourceProducer {
    /// The plugin type.
    pub const TYPE: &str = "p2p-source-producer";

    /// Chooses among the candidates that are within a block of the best: idle ones more often, the same one for
    /// the same request.
    fn best(&self, request_id: &str, candidates: &Candidates) -> Option<BestMatch> {
        struct Holder {
            index: usize,
            cached: i64,
            block_size: i64,
            weight: f64,
        }
        let matches = candidates.read::<PrefixCacheMatchInfo>(&self.key);
        let holder = |(index, candidate): (usize, crate::candidates::Candidate)| {
            let info = matches.get(candidate)?;
            let blocks = match &info.cached_blocks_by_tier {
                Some(tiers) => tiers.get(TIER).copied().unwrap_or(0),
                None => info.cached_block_count,
            };
            let cached = blocks.saturating_mul(info.block_size_tokens);
            let waiting = candidates.endpoints()[index].metrics.waiting_queue_size;
            let weight = 1.0 / (1.0 + waiting as f64);
            (cached > 0).then_some(Holder { index, cached, block_size: info.block_size_tokens, weight })
        };
        let mut holders: Vec<Holder> = candidates.all().enumerate().filter_map(holder).collect();
        let most = holders.iter().map(|holder| holder.cached).max()?;
        holders.retain(|holder| holder.cached.saturating_add(holder.block_size) >= most);
        let total: f64 = holders.iter().map(|holder| holder.weight).sum();
        let mut x = f64::from(fnv1a_32(request_id.as_bytes())) / (1u64 << 32) as f64 * total;
        let chosen = holders.iter().find(|holder| {
            let is_here = x < holder.weight;
            x -= holder.weight;
            is_here
        });
        let chosen = chosen.or(holders.last())?;
        let host_port = candidates.endpoints()[chosen.index].metadata.host_port();
        Some(BestMatch { host_port, cached_tokens: chosen.cached })
    }
}

impl DataProducer for P2pSourceProducer {
    fn produce<'a>(
        &'a self,
        request: &'a mut InferenceRequest,
        candidates: &'a mut Candidates,
    ) -> Produced<'a> {
        if let Some(best) = self.best(&request.request_id, candidates) {
            request.attributes.put(self.stash.clone(), best);
        }
        Produced::Ready(Ok(()))
    }
}

impl PreRequest for P2pSourceProducer {
    /// Names the peer where it is far enough ahead of the server that computes. What the client says of a peer
    /// does not count.
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        candidates: &Candidates,
    ) -> Result<(), PluginError> {
        request.headers.remove(HEADER);
        let Some(best) = request.attributes.get::<BestMatch>(&self.stash).cloned() else { return Ok(()) };
        let prefill = result.profile_targets(&self.parameters.prefill_profile_name).first();
        let Some(computing) = prefill.or(result.primary_targets().first()) else { return Ok(()) };
        let endpoint = &computing.endpoint;
        if endpoint.metadata.host_port() == best.host_port {
            return Ok(());
        }
        let at = candidates.endpoints().iter().position(|other| other.metadata.id == endpoint.metadata.id);
        let matches = candidates.read::<PrefixCacheMatchInfo>(&self.key);
        let own = at.and_then(|at| matches.get(crate::candidates::Candidate(at as u32)));
        let cached = own.map_or(0, |info| info.cached_block_count.saturating_mul(info.block_size_tokens));
        if best.cached_tokens.saturating_sub(cached) >= self.parameters.min_cached_token_delta {
            request.headers.insert(HEADER, best.host_port);
        }
        Ok(())
    }
}

/// FNV-1a, 32 bits.
fn fnv1a_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::fnv1a_32;

    #[test]
    fn the_draw_of_a_request_is_the_specifications() {
        assert_eq!(fnv1a_32(b"req-7"), 3_709_211_191);
    }
}
