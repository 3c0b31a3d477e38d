//! KV events: what engines tell of their prefix caches (request-control spec 15).

mod apply;
mod decode;
mod extra_keys;
mod message;
mod msgpack;
mod sglang;
mod subscribers;
mod subscription;
mod vllm;

pub use apply::{Applied, KvEventApplier, MissingKind};
pub use decode::{DecodeError, decode};
pub use message::Message;
pub use subscribers::{RegistryAction, SubscriberRegistry, SubscriberSpec, Subscribers};
pub use subscription::{
    LiveSocket, ReplaySlots, ReplaySocket, Subscription, SubscriptionMetrics, Transport, TransportError,
};

use super::block_index::{BlockIndex, EngineKey};

use super::block_keys::ExtraKeys;

/// Whose events these are; the layouts differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineType {
    /// vLLM.
    #[default]
    Vllm,
    /// SGLang.
    Sglang,
}

impl EngineType {
    /// Returns the type called `name`; the empty name is vLLM.
    ///
    /// # Errors
    /// Another name, with those that are accepted.
    pub fn of(name: &str) -> Result<Self, String> {
        match name {
            "" | "vllm" => Ok(EngineType::Vllm),
            "sglang" => Ok(EngineType::Sglang),
            _ => Err(format!("unsupported engine type: {name:?} (supported: \"vllm\", \"sglang\")")),
        }
    }
}

/// What an engine published at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KvBatch {
    /// When, by the engine's clock. Unit: seconds since 1970.
    pub timestamp: f64,
    /// What happened, in order.
    pub events: Vec<KvEvent>,
}

/// A change of a prefix cache.
#[derive(Clone, Debug, PartialEq)]
pub enum KvEvent {
    /// Blocks can be found now.
    Stored(Stored),
    /// Blocks cannot be found any more.
    Removed(Removed),
    /// Nothing can be found any more.
    Cleared,
}

/// Blocks that can be found now, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// The engine's names of the blocks.
    pub hashes: Vec<EngineKey>,
    /// The engine's name of the block before them; zero = they start a sequence.
    pub parent: EngineKey,
    /// What they hold; empty = they are known, and lie in another tier as well.
    pub tokens: Vec<u32>,
    /// Tokens a block of the engine, as it says.
    pub block_size: i64,
    /// Number of the adapter.
    pub lora_id: Option<i64>,
    /// Where they lie, as the engine calls it; empty = it does not say.
    pub medium: String,
    /// Name of the adapter, which stands in the place of the model.
    pub lora_name: Option<String>,
    /// Extra keys, one entry for each of the engine's blocks.
    pub extra: Option<Vec<ExtraKeys>>,
    /// KV-cache group.
    pub group: Option<i64>,
    /// What kind of cache the group is.
    pub kind: Option<String>,
    /// Window of a sliding-window cache. Unit: tokens.
    pub window: Option<i64>,
}

/// Blocks that cannot be found any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The engine's names of the blocks.
    pub hashes: Vec<EngineKey>,
    /// Where they lay; empty = the engine does not say.
    pub medium: String,
    /// KV-cache group.
    pub group: Option<i64>,
}

/// Takes the KV events of engines: from sockets in production, from simulated engines directly.
pub trait KvEventSink {
    /// Says who subscribes to the endpoints from now on; the first call counts. Where the configuration names a
    /// socket of our own, it is opened.
    fn subscribe_with(&self, subscribers: Box<dyn Subscribers>);

    /// Returns whether the configuration names a socket that servers connect to.
    fn has_own_socket(&self) -> bool;

    /// Applies a batch as it was published under `topic`. `source` is the `address:port` of the server that sent
    /// it; where it is empty, the topic names the pod. What cannot be read is dropped and counted.
    fn ingest(&self, source: &str, topic: &str, payload: &[u8]);

    /// Applies a batch that never was bytes.
    fn ingest_batch(&self, source: &str, topic: &str, batch: &KvBatch);

    /// Forgets what a pod holds: it has started anew, or its events were lost.
    fn reset(&self, source: &str, topic: &str);

    /// Forgets what the pod `address:port` holds, but not how often it said so: the endpoint is gone.
    fn clear_endpoint(&self, pod: &str);
}

/// Returns the pod and the model that a topic names: `kv@<pod>@<model>`. Another topic is a pod's name as a whole,
/// and its model is empty.
pub fn split_topic(topic: &str) -> (&str, &str) {
    let mut parts = topic.split('@');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(pod), Some(model), None) => (pod, model),
        _ => (topic, ""),
    }
}

/// Forgets all that a pod holds, and how often it said so.
pub fn reset_pod(index: &mut BlockIndex, pod: &str) {
    apply::reset(index, pod);
}

#[cfg(test)]
mod tests;
