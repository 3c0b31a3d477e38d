//! What flow control is told to do: a configuration brought to life (flow-control spec 2).

use std::time::Duration;

use super::fairness::FairnessPolicy;
use super::ordering::OrderingPolicy;
use super::usage_limits::UsageLimitPolicy;
use crate::plugin::Hook;

/// Everything that a configuration says of flow control.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The waits, and eviction.
    pub controller: ControllerSettings,
    /// Bands and flows.
    pub registry: RegistrySettings,
    /// How full the pool may be for each band.
    pub usage_limits: Hook<dyn UsageLimitPolicy>,
}

/// How requests wait and are evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerSettings {
    /// How long a request may wait; zero = for ever.
    pub default_request_ttl: Duration,
    /// Time between two sweeps of items that are dead, above zero.
    pub expiry_cleanup_interval: Duration,
    /// Whether requests in flight may be evicted.
    pub enable_eviction: bool,
    /// Most requests that one decision evicts, above zero.
    pub max_revocations_per_decision: usize,
    /// How long capacity counts as pending after an eviction was confirmed: until the detector sees it.
    pub eviction_confirmation_grace: Duration,
    /// How long a confirmation is waited for, above zero.
    pub eviction_confirmation_timeout: Duration,
}

impl Default for ControllerSettings {
    fn default() -> Self {
        ControllerSettings {
            default_request_ttl: Duration::from_secs(60),
            expiry_cleanup_interval: Duration::from_secs(1),
            enable_eviction: false,
            max_revocations_per_decision: 2,
            eviction_confirmation_grace: Duration::from_millis(500),
            eviction_confirmation_timeout: Duration::from_secs(10),
        }
    }
}

/// Which bands there are, and how long what is idle stays.
#[derive(Clone, Debug)]
pub struct RegistrySettings {
    /// Most bytes that wait in all bands together; zero = no limit.
    pub max_bytes: u64,
    /// Most requests that wait in all bands together; zero = no limit.
    pub max_requests: u64,
    /// How long a flow must be idle to go; also the time between two looks.
    pub flow_gc_timeout: Duration,
    /// How long a band that nobody asks for must be idle to go; not less than that of flows.
    pub priority_band_gc_timeout: Duration,
    /// The bands that are always there, the highest priority first; 0 is among them.
    pub bands: Vec<BandSettings>,
    /// What a band is like that is asked for later.
    pub default_band: BandSettings,
    /// The same for priorities below zero, where they are to be different.
    pub default_negative_band: Option<BandSettings>,
}

impl RegistrySettings {
    /// How long an idle flow stays.
    pub const FLOW_GC_TIMEOUT: Duration = Duration::from_secs(5 * 60);
    /// How long an idle band stays.
    pub const PRIORITY_BAND_GC_TIMEOUT: Duration = Duration::from_secs(10 * 60);
}

/// One band.
#[derive(Clone, Debug)]
pub struct BandSettings {
    /// Priority; higher goes first.
    pub priority: i64,
    /// Most bytes that wait in the band, above zero.
    pub max_bytes: u64,
    /// Most requests that wait in the band, above zero.
    pub max_requests: u64,
    /// Policy between its flows.
    pub fairness: Hook<dyn FairnessPolicy>,
    /// Policy inside a flow.
    pub ordering: Hook<dyn OrderingPolicy>,
}

impl BandSettings {
    /// Bytes where nothing else is said.
    pub const MAX_BYTES: u64 = 1_000_000_000;
    /// Requests where nothing else is said.
    pub const MAX_REQUESTS: u64 = 5000;
}
