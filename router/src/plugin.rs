//! Plugins: how capabilities are named, configured and built.

mod parameters;

pub use parameters::{ParameterError, Parameters, Segment};

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use executor::{Instant, Missed, Rt, Stream};

use crate::admission::SaturationDetector;
use crate::config::schema::Compat;
use crate::data_key::DataKey;
use crate::data_layer::k8s_notification_source::GroupVersionKind;
use crate::data_layer::{Discovery, EndpointListener, Extractor, PodListener, PollingSource};
use crate::flow_control::eviction::{EvictionFilter, EvictionOrder};
use crate::flow_control::fairness::FairnessPolicy;
use crate::flow_control::ordering::OrderingPolicy;
use crate::flow_control::usage_limits::UsageLimitPolicy;
use crate::metrics;
use crate::prefix::kv_events::KvEventSink;
use crate::request::Parser;
use crate::request_control::{
    Admitter, DataProducer, PreRequest, RequestHeaderProcessor, ResponseBodyProcessor,
    ResponseHeaderProcessor, Screener,
};
use crate::scheduling::{Decider, Filter, Picker, ProfileHandler, Scorer};

/// What identifies a plugin instance; prints as `name/type` (scheduling spec 2.1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TypedName {
    /// Type that the instance reports, which some types choose to differ from the configured one.
    pub plugin_type: Rc<str>,
    /// Name, unique in a configuration.
    pub name: Rc<str>,
}

impl fmt::Display for TypedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.plugin_type)
    }
}

/// The capabilities of one instance: each field that is set enters it into that hook's list.
///
/// A plugin with several capabilities clones its `Rc` into several fields.
#[derive(Clone, Default)]
pub struct Roles {
    /// Drops candidates.
    pub filter: Option<Rc<dyn Filter>>,
    /// Scores candidates.
    pub scorer: Option<Rc<dyn Scorer>>,
    /// Chooses.
    pub picker: Option<Rc<dyn Picker>>,
    /// Runs profiles.
    pub profile_handler: Option<Rc<dyn ProfileHandler>>,
    /// Tells a profile handler whether to disaggregate.
    pub decider: Option<Rc<dyn Decider>>,
    /// Sees requests before admission.
    pub request_header: Option<Rc<dyn RequestHeaderProcessor>>,
    /// Narrows candidates.
    pub screener: Option<Rc<dyn Screener>>,
    /// Finds things out.
    pub producer: Option<Rc<dyn DataProducer>>,
    /// Lets requests pass.
    pub admitter: Option<Rc<dyn Admitter>>,
    /// Acts before forwarding.
    pub pre_request: Option<Rc<dyn PreRequest>>,
    /// Sees response headers.
    pub response_header: Option<Rc<dyn ResponseHeaderProcessor>>,
    /// Sees response bodies.
    pub response_body: Option<Rc<dyn ResponseBodyProcessor>>,
    /// Polls endpoints.
    pub polling_source: Option<Rc<dyn PollingSource>>,
    /// Reads what a source fetched.
    pub extractor: Option<Rc<dyn Extractor>>,
    /// Takes endpoint events.
    pub endpoint_listener: Option<Rc<dyn EndpointListener>>,
    /// Knows which endpoints there are, however the plugin itself comes to hear of them.
    pub roster: Option<Rc<dyn EndpointListener>>,
    /// Takes the KV events of engines.
    pub kv_events: Option<Rc<dyn KvEventSink>>,
    /// Takes pod notifications.
    pub pod_listener: Option<Rc<dyn PodListener>>,
    /// Passes endpoint events on; it needs no code for that.
    pub endpoint_source: bool,
    /// Passes on what happens to Kubernetes objects of this kind.
    pub notification_source: Option<GroupVersionKind>,
    /// Finds endpoints.
    pub discovery: Option<Rc<dyn Discovery>>,
    /// Reads request bodies and responses.
    pub parser: Option<Arc<dyn Parser>>,
    /// Orders the items of a flow.
    pub ordering_policy: Option<Rc<dyn OrderingPolicy>>,
    /// Shares a band among its flows.
    pub fairness_policy: Option<Rc<dyn FairnessPolicy>>,
    /// Says how full the pool may be for each band.
    pub usage_limit_policy: Option<Rc<dyn UsageLimitPolicy>>,
    /// Says how full the pool is.
    pub saturation_detector: Option<Rc<dyn SaturationDetector>>,
    /// Says which requests in flight may be evicted.
    pub eviction_filter: Option<Rc<dyn EvictionFilter>>,
    /// Says which of them is evicted first.
    pub eviction_order: Option<Rc<dyn EvictionOrder>>,
    /// Works at intervals, each at its own.
    pub periodic: Vec<Rc<dyn Periodic>>,
    /// Works beside requests from the start.
    pub startup: Option<Rc<dyn Startup>>,
    /// Shows its state.
    pub state_dumper: Option<Rc<dyn StateDumper>>,
}

impl Roles {
    /// Returns the roles of a mere filter.
    pub fn filter(filter: impl Filter + 'static) -> Self {
        Roles { filter: Some(Rc::new(filter)), ..Roles::default() }
    }

    /// Returns the roles of a mere scorer.
    pub fn scorer(scorer: impl Scorer + 'static) -> Self {
        Roles { scorer: Some(Rc::new(scorer)), ..Roles::default() }
    }

    /// Returns the roles of a mere picker.
    pub fn picker(picker: impl Picker + 'static) -> Self {
        Roles { picker: Some(Rc::new(picker)), ..Roles::default() }
    }

    /// Returns the roles of a mere profile handler.
    pub fn profile_handler(handler: impl ProfileHandler + 'static) -> Self {
        Roles { profile_handler: Some(Rc::new(handler)), ..Roles::default() }
    }

    /// Returns the roles of a decider.
    pub fn decider(decider: impl Decider + 'static) -> Self {
        Roles { decider: Some(Rc::new(decider)), ..Roles::default() }
    }
}

/// A plugin under one of its roles.
pub struct Hook<T: ?Sized> {
    /// Who it is.
    pub id: TypedName,
    /// What it does.
    pub plugin: Rc<T>,
}

impl<T: ?Sized> Clone for Hook<T> {
    fn clone(&self) -> Self {
        Hook { id: self.id.clone(), plugin: Rc::clone(&self.plugin) }
    }
}

impl<T: ?Sized> fmt::Debug for Hook<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.id, f)
    }
}

/// Does something at intervals. The assembly drives it with [`run_periodic`] for as long as the router runs;
/// the plugin itself starts nothing.
pub trait Periodic {
    /// Returns the interval, above zero; the first tick is one interval after the start.
    fn period(&self) -> Duration;

    /// Does it. `now` is when the tick was due.
    fn tick(&self, now: Instant);
}

/// Begins something that goes on beside requests. The assembly says when; a factory starts nothing, since it also runs
/// where a configuration is only checked.
pub trait Startup {
    /// Begins it: once, on the core's thread.
    fn start(&self);
}

/// Starts what instances do beside requests, and a daemon for each that works at intervals. To be called once, on the
/// core's thread.
pub fn run_periodic(rt: &Rt, instances: &[Instance]) {
    instances
        .iter()
        .filter_map(|instance| instance.roles.startup.as_ref())
        .for_each(|startup| startup.start());
    for periodic in instances.iter().flat_map(|instance| instance.roles.periodic.clone()) {
        let period = periodic.period();
        let mut ticks = rt.interval_at(rt.now() + period, period, Missed::Delay);
        rt.daemon("plugin interval", async move {
            loop {
                periodic.tick(ticks.tick().await);
            }
        });
    }
}

/// Shows what a plugin holds, for debugging.
pub trait StateDumper {
    /// Returns a snapshot of bounded size.
    fn dump_state(&self) -> serde_json::Value;
}

/// A data key with the type of its value, for the check of the dependency graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedKey {
    /// The key.
    pub key: DataKey,
    /// Name of the value's type.
    pub value_type: &'static str,
}

impl TypedKey {
    /// Returns `key` with values of type `T`.
    pub fn of<T>(key: &DataKey) -> Self {
        TypedKey { key: key.clone(), value_type: std::any::type_name::<T>() }
    }
}

/// What a plugin produces and consumes (scheduling spec 2.6).
#[derive(Clone, Debug, Default)]
pub struct DataFlow {
    /// Keys that it writes.
    pub produces: Vec<TypedKey>,
    /// Keys without which it cannot work.
    pub requires: Vec<TypedKey>,
    /// Keys that it uses where they exist.
    pub optional: Vec<TypedKey>,
    /// Whether it declares what it consumes at all, be it nothing; several types read metrics without saying so
    /// (scheduling spec 2.6).
    pub declares: bool,
}

impl DataFlow {
    /// Returns the flow of a consumer that requires these keys and produces nothing.
    pub fn consumer(requires: Vec<TypedKey>) -> Self {
        DataFlow { requires, declares: true, ..DataFlow::default() }
    }
}

/// A plugin instance.
#[derive(Clone)]
pub struct Instance {
    /// Identity as it reports itself.
    pub id: TypedName,
    /// Capabilities.
    pub roles: Roles,
    /// Dependencies.
    pub data: DataFlow,
}

impl Instance {
    /// Returns an instance that reports `plugin_type` and has the capabilities `roles`.
    pub fn new(plugin_type: &str, name: &str, roles: Roles) -> Self {
        Instance {
            id: TypedName { plugin_type: plugin_type.into(), name: name.into() },
            roles,
            data: DataFlow::default(),
        }
    }

    /// Declares what the instance consumes and produces.
    pub fn with_data(mut self, data: DataFlow) -> Self {
        self.data = data;
        self
    }
}

impl fmt::Debug for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("id", &self.id).field("data", &self.data).finish_non_exhaustive()
    }
}

/// Why an instance could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactoryError {
    /// The parameters do not decode or are out of range.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// The parameters ask for a part of the type that is not built yet; the text says which.
    #[error("{0} is not built yet")]
    NotBuilt(String),
    /// Anything else: what is wrong and what is accepted.
    #[error("{0}")]
    Other(String),
}

/// Builds an instance of one plugin type under `name`.
pub type Factory = fn(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError>;

/// Instances under their configured names, in order of creation.
type Named = Vec<(Rc<str>, Instance)>;

/// What a factory is given beside its parameters.
#[derive(Clone)]
pub struct Handle {
    rt: Rt,
    metrics: metrics::Registry,
    instances: Rc<RefCell<Named>>,
    compat: Rc<Cell<Compat>>,
}

impl Handle {
    /// Returns a handle without instances.
    pub fn new(rt: Rt) -> Self {
        Handle { rt, metrics: metrics::Registry::default(), instances: Rc::default(), compat: Rc::default() }
    }

    /// Returns the registry of the metrics that plugins write.
    pub fn metrics(&self) -> &metrics::Registry {
        &self.metrics
    }

    /// Returns the runtime that hosts the plugins: their clock, tasks, channels and randomness.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// Returns where the configuration departs from the llm-d Router.
    pub fn compat(&self) -> Compat {
        self.compat.get()
    }

    /// Says where the configuration departs from the llm-d Router. To be called before an instance is built.
    pub fn set_compat(&self, compat: Compat) {
        self.compat.set(compat);
    }

    /// Returns the random stream of the instance `name`.
    pub fn stream(&self, name: &str) -> Stream {
        self.rt.stream(name)
    }

    /// Returns the instance configured as `name`.
    pub fn instance(&self, name: &str) -> Option<Instance> {
        self.instances.borrow().iter().find(|(n, _)| &**n == name).map(|(_, i)| i.clone())
    }

    /// Returns all instances in order of creation.
    pub fn instances(&self) -> Vec<Instance> {
        self.instances.borrow().iter().map(|(_, i)| i.clone()).collect()
    }

    /// Adds an instance under `name`; one of that name is replaced.
    pub fn add(&self, name: &str, instance: Instance) {
        let mut all = self.instances.borrow_mut();
        match all.iter_mut().find(|(n, _)| &**n == name) {
            Some(entry) => entry.1 = instance,
            None => all.push((name.into(), instance)),
        }
    }
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roles").finish_non_exhaustive()
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.instances.borrow().iter().map(|(n, _)| n.clone())).finish()
    }
}
