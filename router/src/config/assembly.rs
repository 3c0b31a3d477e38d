//! A configuration brought to life: what the director, the data layer and the servers are built from.

use std::rc::Rc;
use std::time::Duration;

use super::gates::FeatureGates;
use super::notice::Notice;
use super::schema::LockstepConfig;
use crate::admission::SaturationDetector;
use crate::data_layer::k8s_notification_source::GroupVersionKind;
use crate::data_layer::{EndpointListener, Extractor, PodListener, PollingSource};
use crate::director::Hooks;
use crate::flow_control::Settings;
use crate::plugin::{Hook, Instance, TypedName};
use crate::request::ParserRegistry;
use crate::scheduling::Scheduler;
use crate::support::{Registry, Stability};

/// Everything that a configuration says, built and wired.
///
/// Where the llm-d Router's order is random, the order here is that of `plugins`.
#[derive(Debug)]
pub struct Assembly {
    /// All plugins: those of the file in its order, then defaults, then producers added for missing data.
    pub plugins: Vec<Plugin>,
    /// The profiles, as configured.
    pub profiles: Vec<ProfilePlan>,
    /// The profiles and the handler, ready to run.
    pub scheduler: Scheduler,
    /// Name of the profile handler.
    pub profile_handler: Rc<str>,
    /// Name of the saturation detector.
    pub saturation_detector: Rc<str>,
    /// The saturation detector itself.
    pub detector: Hook<dyn SaturationDetector>,
    /// What flow control is to do; `None` where it is off.
    pub flow_control: Option<Settings>,
    /// Names of the parsers that are asked, in order.
    pub parser_names: Vec<Rc<str>>,
    /// The parsers themselves.
    pub parsers: ParserRegistry,
    /// Hooks around a decision.
    pub hooks: Hooks,
    /// What is scraped, and who listens.
    pub data_layer: DataLayerPlan,
    /// Name of the plugin that finds endpoints; `None` = Kubernetes.
    pub discovery: Option<Rc<str>>,
    /// Feature gates.
    pub gates: FeatureGates,
    /// Options that the llm-d Router does not have.
    pub lockstep: LockstepConfig,
    /// What to tell the reader.
    pub notices: Vec<Notice>,
}

/// A plugin of the effective list.
#[derive(Clone, Debug)]
pub struct Plugin {
    /// Name.
    pub name: Rc<str>,
    /// Type as configured; an instance may report another.
    pub plugin_type: Rc<str>,
    /// Why it is there.
    pub origin: Origin,
    /// The instance.
    pub instance: Instance,
}

/// Why a plugin is part of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The file names it.
    File,
    /// It was added by default.
    Default,
    /// It was added because another plugin requires its data.
    Required,
}

/// One profile, by names of plugins.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfilePlan {
    /// Name.
    pub name: Rc<str>,
    /// Filters in order.
    pub filters: Vec<Rc<str>>,
    /// Scorers in order, with their weights.
    pub scorers: Vec<(Rc<str>, f64)>,
    /// Picker.
    pub picker: Rc<str>,
}

/// What the data layer does for each endpoint (configuration spec 5.2).
#[derive(Clone, Debug)]
pub struct DataLayerPlan {
    /// Time between two rounds of polling.
    pub base_tick: Duration,
    /// Polling sources in order of configuration.
    pub polling: Vec<PollingPlan>,
    /// Sources of endpoint events with those that are bound to them, in order.
    pub endpoint_sources: Vec<EndpointSourcePlan>,
    /// Plugins that hear of endpoints whatever the configuration says, in order.
    pub endpoint_listeners: Vec<Hook<dyn EndpointListener>>,
    /// Sources of events of Kubernetes objects with those that are bound to them, in order.
    pub notification_sources: Vec<NotificationSourcePlan>,
}

impl DataLayerPlan {
    /// Iterates over everyone who hears of endpoints, in the order in which they do.
    pub fn all_endpoint_listeners(&self) -> impl Iterator<Item = &Hook<dyn EndpointListener>> {
        self.endpoint_sources.iter().flat_map(|s| &s.listeners).chain(&self.endpoint_listeners)
    }
}

/// A source of events of Kubernetes objects.
#[derive(Clone, Debug)]
pub struct NotificationSourcePlan {
    /// The source.
    pub id: TypedName,
    /// What it watches.
    pub watched: GroupVersionKind,
    /// Who hears of its events, in order; only pods have listeners in the pinned release.
    pub listeners: Vec<Hook<dyn PodListener>>,
}

/// A source of endpoint events.
#[derive(Clone, Debug)]
pub struct EndpointSourcePlan {
    /// The source.
    pub id: TypedName,
    /// Who hears of its events, in order.
    pub listeners: Vec<Hook<dyn EndpointListener>>,
}

/// A polling source with its extractors.
#[derive(Clone, Debug)]
pub struct PollingPlan {
    /// The source.
    pub source: Hook<dyn PollingSource>,
    /// It polls in the first round and in every `period_ticks`-th after it.
    pub period_ticks: u32,
    /// Its extractors in order.
    pub extractors: Vec<Hook<dyn Extractor>>,
}

impl Assembly {
    /// Returns the plugin `name`.
    pub fn plugin(&self, name: &str) -> Option<&Plugin> {
        self.plugins.iter().find(|p| *p.name == *name)
    }

    /// Returns the instance `name`.
    pub fn instance(&self, name: &str) -> Option<&Instance> {
        Some(&self.plugin(name)?.instance)
    }
}

impl Plugin {
    /// Returns the type that the plugin reports, in metrics and for its stability.
    pub fn reported_type(&self) -> &str {
        &self.instance.id.plugin_type
    }
}

/// Returns the experimental plugins in order of their names.
pub fn experimental<'a>(plugins: &'a [Plugin], registry: &Registry) -> Vec<&'a Plugin> {
    let is_alpha = |p: &&Plugin| registry.stability(p.reported_type()) == Stability::Alpha;
    let mut found: Vec<&Plugin> = plugins.iter().filter(is_alpha).collect();
    found.sort_by_key(|p| Rc::clone(&p.name));
    found
}
