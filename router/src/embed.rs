//! The router as a part of another program: the binary and the simulator build it here, in the same way.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use executor::Rt;

use crate::admission::{LegacyAdmission, concurrency_detector};
use crate::config::assembly::{Assembly, DataLayerPlan, PollingPlan};
use crate::config::fault::Fault;
use crate::config::loader::{self, Options};
use crate::config::notice::Notice;
use crate::config::problem::Problems;
use crate::config::schema::{EndpointPickerConfig, source_name};
use crate::config::yaml::Node;
use crate::data_layer::datastore::{Datastore, Plan};
use crate::data_layer::dispatcher::BoundSource;
use crate::data_layer::objects::{Objects, PoolIdentity, PrioritySink};
use crate::director::{Director, DirectorOptions, Pool, PoolLocator};
use crate::flow_control::admission::FlowAdmission;
use crate::flow_control::candidates::CachedLocator;
use crate::flow_control::eviction::RequestEvictor;
use crate::flow_control::{FlowController, Parts, WeakFlowController};
use crate::plugin::{Handle, run_periodic};
use crate::server::{Core, CoreHandle, Proxy, ProxyOptions};
use crate::support::Registry;

/// What a router is built from.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// Name of the configuration file, for errors.
    pub file: String,
    /// What it says.
    pub source: ConfigSource,
    /// The plugin types that it may name. Whoever embeds the router registers types of its own here: nothing is
    /// constructed before [`build`] has read and checked the whole text.
    pub types: Registry,
    /// What the command line adds.
    pub options: Options,
    /// The pool that the router serves.
    pub pool: PoolIdentity,
    /// Options of the director.
    pub director: DirectorOptions,
    /// Limits of the proxy.
    pub proxy: ProxyOptions,
}

/// An `EndpointPickerConfig`.
#[derive(Clone, Debug)]
pub enum ConfigSource {
    /// Text; empty = the built-in default configuration.
    Text(String),
    /// A part of another file, as it was read.
    Tree(Node),
}

impl RouterConfig {
    /// Returns the configuration `text`, known as `file`, with default options.
    pub fn new(file: impl Into<String>, text: impl Into<String>) -> Self {
        Self::from_source(file.into(), ConfigSource::Text(text.into()))
    }

    /// Returns the configuration `tree`, which stands in `file`, with default options.
    pub fn inline(file: impl Into<String>, tree: Node) -> Self {
        Self::from_source(file.into(), ConfigSource::Tree(tree))
    }

    fn from_source(file: String, source: ConfigSource) -> Self {
        RouterConfig {
            file,
            source,
            types: Registry::default(),
            options: Options::default(),
            pool: PoolIdentity::default(),
            director: DirectorOptions::default(),
            proxy: ProxyOptions::default(),
        }
    }
}

/// A router, ready to run.
#[derive(Debug)]
pub struct Embedded {
    /// The core; [`Core::run`] is its task, on the core thread.
    pub core: Core,
    /// The way to the core.
    pub handle: CoreHandle,
    /// The reverse proxy before it.
    pub proxy: Proxy,
    /// Takes the endpoints.
    pub datastore: Rc<Datastore>,
    /// Takes objectives, rewrites, pods and the pool itself.
    pub objects: Rc<Objects>,
    /// All instances, for those who look for a role of their own (discovery).
    pub plugins: Handle,
    /// Name of the plugin that finds endpoints, where the configuration names one.
    pub discovery: Option<Rc<str>>,
    /// What the reader of the configuration should know.
    pub notices: Vec<Notice>,
    /// The queues, where flow control is on. Shut down, they refuse every request.
    pub flow_control: Option<FlowController>,
}

/// Builds a router; to be called on the core thread.
///
/// # Errors
/// Everything that is wrong with the configuration, with its place.
pub fn build(rt: &Rt, config: RouterConfig) -> Result<Embedded, Problems<Fault>> {
    let RouterConfig { file, source, types, pool, options, director: director_options, proxy } = config;
    let plugins = Handle::new(rt.clone());
    let (file, parsed) = match &source {
        ConfigSource::Text(text) => (source_name(&file, text), EndpointPickerConfig::parse(&file, text)?),
        ConfigSource::Tree(tree) => (file.as_str(), EndpointPickerConfig::from_node(&file, tree)?),
    };
    let assembly = loader::load_parsed(file, &parsed, &types, &plugins, &options)?;
    let metrics = plugins.metrics().clone();
    let datastore = Rc::new(Datastore::new(rt, plan(&assembly.data_layer), &metrics));
    let mut flow_control: Option<FlowController> = None;
    // Weak, since the queues own the pool and with it the objects.
    let queues: Rc<OnceCell<WeakFlowController>> = Rc::default();
    let control_plane = Rc::clone(&queues);
    let tell_priorities: PrioritySink = Box::new(move |priorities| {
        if let Some(controller) = control_plane.get().and_then(WeakFlowController::upgrade) {
            controller.set_desired_priorities(priorities.iter().copied().map(i64::from));
        }
    });
    let pool_name = pool.name.clone();
    // The core owns them, and with them the datastore: endpoints are polled for as long as the core lives.
    let objects = Rc::new(Objects::new(pool, Rc::clone(&datastore), Some(tell_priorities)));
    run_periodic(rt, &plugins.instances());
    let behavior = plugins.compat().flow_control;
    let Assembly { scheduler, hooks, parsers, discovery, notices, flow_control: settings, detector, .. } =
        assembly;
    let silence = datastore.silence().clone();
    let (core, handle) =
        Core::new(rt, Rc::clone(&objects) as Rc<dyn Pool>, silence, metrics.clone(), |pool| {
            let Some(mut settings) = settings else {
                let admission = LegacyAdmission::new(detector.plugin);
                return Director::new(rt.clone(), pool, scheduler, admission, hooks, director_options);
            };
            settings.controller.eviction_confirmation_grace =
                confirmation_grace(detector.plugin.plugin_type(), options.refresh_metrics_interval);
            let locator = PoolLocator::new(Rc::clone(&pool), director_options.disable_endpoint_subset_filter);
            let cached = Rc::new(CachedLocator::new(rt.clone(), Rc::new(locator), Duration::ZERO));
            let evicts = settings.controller.enable_eviction;
            let evictor = evicts.then(|| Rc::new(RequestEvictor::new(rt.clone())));
            let parts = Parts {
                settings,
                detector: detector.plugin,
                pool: Rc::clone(&cached),
                evictor: evictor.clone(),
                metrics,
                pool_name,
                behavior,
                elides_ticks: true,
            };
            let controller = flow_control.insert(FlowController::start(rt, parts)).clone();
            queues.get_or_init(|| controller.downgrade());
            let admission = FlowAdmission::new(controller, Rc::clone(&cached), behavior);
            Director::new(rt.clone(), pool, scheduler, admission, hooks, director_options)
                .with_flow_control(cached, evictor)
        });
    let proxy = Proxy::new(rt.clone(), handle.clone(), parsers, proxy);
    Ok(Embedded { core, handle, proxy, datastore, objects, plugins, discovery, notices, flow_control })
}

/// Returns how long it takes until the detector sees that requests have ended (flow-control spec 13.6): at once where it
/// counts them itself, else when their metrics must have been scraped.
fn confirmation_grace(detector: &str, refresh: Duration) -> Duration {
    /// Age from which the llm-d Router's server counts metrics as stale, whatever the detector thinks.
    const STALENESS: Duration = Duration::from_secs(2);
    const MARGIN: Duration = Duration::from_millis(250);
    if detector == concurrency_detector::TYPE {
        Duration::from_millis(10)
    } else {
        refresh + STALENESS + MARGIN
    }
}

fn plan(plan: &DataLayerPlan) -> Plan {
    let source = |polling: &PollingPlan| BoundSource {
        source_type: Rc::clone(&polling.source.id.plugin_type),
        source: Rc::clone(&polling.source.plugin),
        extractors: polling
            .extractors
            .iter()
            .map(|extractor| (Rc::clone(&extractor.id.plugin_type), Rc::clone(&extractor.plugin)))
            .collect(),
        period: polling.period_ticks,
    };
    Plan {
        sources: plan.polling.iter().map(source).collect(),
        base: plan.base_tick,
        listeners: plan.all_endpoint_listeners().map(|listener| Rc::clone(&listener.plugin)).collect(),
    }
}
