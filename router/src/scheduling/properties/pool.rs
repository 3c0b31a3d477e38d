//! Pools and requests as chance would have them: every signal that a scheduling plugin reads is sometimes there.

use std::rc::Rc;

use executor::Instant;
use proptest::option::of;
use proptest::prelude::*;

use crate::attributes::{
    EncoderCacheMatchInfo, EncoderItem, InFlightLoad, LatencyPredictionInfo, PrefixCacheMatchInfo,
    ScalarMetricValue, Topology, UncachedRequestTokens,
};
use crate::candidates::Candidates;
use crate::data_key::{DataKey, resolve, well_known};
use crate::endpoint::{Endpoint, EndpointId, EndpointMetadata, Metrics};
use crate::request::InferenceRequest;
use crate::scheduling::PEER_ENDPOINT;
use crate::scheduling::testing::{candidates, prompt, with};

/// Blocks of the prompt, and tokens of a block.
const BLOCKS: i64 = 64;
const BLOCK_TOKENS: i64 = 16;

/// What is drawn of an endpoint.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    waiting: i64,
    running: i64,
    kv: f64,
    role: Option<&'static str>,
    range: Option<&'static str>,
    place: Option<(&'static str, &'static str)>,
    /// Whether the adapter is waiting or active, and how many slots there are.
    adapter: Option<(bool, i64)>,
    in_flight: Option<(i64, i64)>,
    cached_blocks: Option<i64>,
    cached_media: Option<i64>,
    headroom: Option<(f64, f64)>,
    pub(super) load: Option<f64>,
    cluster: Option<(f64, i64)>,
}

prop_compose! {
    pub(super) fn drawn()(
        (waiting, running, kv) in (0..300_i64, 0..300_i64, prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64]),
        role in of(prop_oneof![Just("decode"), Just("prefill"), Just("both"), Just("encode")]),
        range in of(prop_oneof![Just("0-100"), Just("50-2000"), Just("7-7"), Just("9-1")]),
        place in of((prop_oneof![Just("r1"), Just("r2"), Just("")], prop_oneof![Just("a"), Just("b")])),
        adapter in of((any::<bool>(), 0..4_i64)),
        in_flight in of((0..50_i64, 0..2_000_000_i64)),
        cached_blocks in of(0..=BLOCKS),
        cached_media in of(0..=100_i64),
        headroom in of((-500.0..500.0_f64, -50.0..50.0_f64)),
        load in of(prop_oneof![-10.0..10.0_f64, Just(f64::NAN), Just(f64::INFINITY)]),
        cluster in of((0.0..1.0_f64, 0..50_i64)),
    ) -> Drawn {
        Drawn {
            waiting, running, kv, role, range, place, adapter, in_flight, cached_blocks, cached_media,
            headroom, load, cluster,
        }
    }
}

/// Returns a pool, an order of its endpoints, and a request.
pub(super) fn pools() -> impl Strategy<Value = (Vec<Drawn>, Vec<usize>, Asked)> {
    (proptest::collection::vec(drawn(), 0..12), asked()).prop_flat_map(|(drawn, asked)| {
        let order: Vec<usize> = (0..drawn.len()).collect();
        (Just(drawn), Just(order).prop_shuffle(), Just(asked))
    })
}

/// Returns candidates `e0`, `e1`, … in the order that `order` gives.
pub(super) fn pool(drawn: &[Drawn], order: &[usize]) -> Candidates {
    let mut candidates = candidates(order.iter().map(|&at| endpoint(at, &drawn[at])));
    let cached = || order.iter().map(|&at| drawn[at].cached_blocks);
    let info = |blocks| PrefixCacheMatchInfo::new(blocks, BLOCKS, BLOCK_TOKENS);
    let matches = cached().map(|blocks| blocks.map(info)).collect();
    candidates.put(resolve(well_known::PREFIX_CACHE_MATCH_INFO, ""), matches);
    let uncached = |blocks| UncachedRequestTokens((BLOCKS - blocks) * BLOCK_TOKENS);
    let uncached = cached().map(|blocks| blocks.map(uncached)).collect();
    candidates.put(resolve(well_known::UNCACHED_REQUEST_TOKENS, ""), uncached);
    candidates
}

fn topology(&(rack, zone): &(&str, &str)) -> Topology {
    Topology { rack: rack.to_owned(), zone: zone.to_owned(), ..Topology::default() }
}

fn endpoint(at: usize, drawn: &Drawn) -> Endpoint {
    let name = format!("e{at}");
    let labels = [
        ("llm-d.ai/role", drawn.role),
        ("llm-d.ai/context-length-range", drawn.range),
        ("zone", drawn.place.map(|(_, zone)| zone)),
    ];
    let labels = labels.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
    let metadata = EndpointMetadata {
        id: EndpointId::new("", &name),
        name,
        address: format!("10.0.0.{at}"),
        port: "8000".to_owned(),
        labels: labels.collect(),
        ..EndpointMetadata::default()
    };
    let (mut active, mut waiting) = (vec![], vec![("other".to_owned(), 0)]);
    if let Some((is_active, _)) = drawn.adapter {
        if is_active { &mut active } else { &mut waiting }.push(("m".to_owned(), 0));
    }
    let metrics = Metrics {
        waiting_queue_size: drawn.waiting,
        running_requests_size: drawn.running,
        kv_cache_usage_percent: drawn.kv,
        active_models: Rc::new(active.into_iter().collect()),
        waiting_models: Rc::new(waiting.into_iter().collect()),
        max_active_models: drawn.adapter.map_or(0, |(_, most)| most),
        update_time: Some(Instant::default()),
        ..Metrics::default()
    };
    attributes(Endpoint { metadata: Rc::new(metadata), metrics, ..Endpoint::default() }, drawn)
}

fn attributes(endpoint: Endpoint, drawn: &Drawn) -> Endpoint {
    let load =
        |(requests, tokens): (i64, i64)| InFlightLoad { requests: requests.into(), tokens: tokens.into() };
    let prediction = |(ttft_headroom, tpot_headroom): (f64, f64)| LatencyPredictionInfo {
        ttft_headroom,
        tpot_headroom,
        ttft: 500.0 - ttft_headroom,
        dispatched_request_count: drawn.waiting % 2,
        ..LatencyPredictionInfo::default()
    };
    let item = |size| EncoderItem { size, ..EncoderItem::default() };
    let media = |size| EncoderCacheMatchInfo {
        matched_items: vec![item(size)],
        request_items: vec![item(60), item(40)],
    };
    let (cluster_kv, cluster_queue) = (
        DataKey::plain("llm-d.ai/multicluster-kv-cache-utilization"),
        DataKey::plain("llm-d.ai/multicluster-queue-size"),
    );
    let endpoint = with(endpoint, &resolve(well_known::IN_FLIGHT_LOAD, ""), drawn.in_flight.map(load));
    let predictions = resolve(well_known::LATENCY_PREDICTION_INFO, "");
    let endpoint = with(endpoint, &predictions, drawn.headroom.map(prediction));
    let encoder_cache = resolve(well_known::ENCODER_CACHE_MATCH_INFO, "");
    let endpoint = with(endpoint, &encoder_cache, drawn.cached_media.map(media));
    let places = resolve(well_known::TOPOLOGY, "");
    let endpoint = with(endpoint, &places, drawn.place.as_ref().map(topology));
    let endpoint = with(endpoint, &DataKey::plain("load"), drawn.load.map(ScalarMetricValue));
    let endpoint = with(endpoint, &cluster_kv, drawn.cluster.map(|(kv, _)| ScalarMetricValue(kv)));
    with(endpoint, &cluster_queue, drawn.cluster.map(|(_, queue)| ScalarMetricValue(queue as f64)))
}

/// What is drawn of a request.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    tokens: usize,
    media: bool,
    peer: Option<(&'static str, &'static str)>,
    /// Whether it belongs to the session of `/e1`.
    session: bool,
}

prop_compose! {
    fn asked()(
        tokens in 0..200_usize,
        media in any::<bool>(),
        peer in of((Just("r1"), prop_oneof![Just("a"), Just("b")])),
        session in any::<bool>(),
    ) -> Asked {
        Asked { tokens, media, peer, session }
    }
}

impl Asked {
    pub(super) fn request(&self) -> InferenceRequest {
        let mut request = prompt(self.tokens, if self.media { &["image"] } else { &[] });
        request.target_model = "m".to_owned();
        request.headers.insert("x-zone", "a");
        request.headers.insert("test-epp-endpoint-selection", "10.0.0.1,10.0.0.0:8000,10.0.0.1");
        if self.session {
            request.headers.insert("x-session-token", "L2Ux"); // base64 of /e1
        }
        if let Some(place) = &self.peer {
            let peer = with(Endpoint::default(), &resolve(well_known::TOPOLOGY, ""), Some(topology(place)));
            request.attributes.put(PEER_ENDPOINT, Rc::new(peer));
        }
        request
    }
}
