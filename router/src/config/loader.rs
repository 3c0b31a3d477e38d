//! From a configuration's text to its plugins, built and wired (configuration spec 2).
//!
//! The steps are those of the llm-d Router, in its order. Where it stops at the first error, a step here reports
//! all that it finds, and the first of them is the one that the llm-d Router would have stopped at.

mod data_layer;
mod defaults;
mod flow_control;
mod instantiate;
mod producers;
mod scheduling;
mod validate;

use std::rc::Rc;
use std::time::Duration;

use super::assembly::{Assembly, DataLayerPlan, Origin, Plugin, experimental};
use super::fault::Fault;
use super::gates::FeatureGates;
use super::notice::Notice;
use super::problem::{Located, Problems};
use super::schema::{Deprecated, EndpointPickerConfig, PluginRef, source_name};
use crate::director::Hooks;
use crate::plugin::{Handle, Instance, Parameters};
use crate::request::ParserRegistry;
use crate::support::{Registry, Support};

/// What the command line adds to a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether plugins of Alpha stability may run.
    pub allow_experimental: bool,
    /// Requested time between two rounds of polling.
    pub refresh_metrics_interval: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options { allow_experimental: false, refresh_metrics_interval: Duration::from_millis(50) }
    }
}

/// Loads `text`, which the user knows as `file`.
///
/// `registry` holds the types that may be named: whoever embeds the router registers types of its own before
/// this call, and nothing is constructed before the whole file has been read, checked against the registry and
/// ordered. Instances are added to `handle`. An empty text is the built-in configuration.
///
/// # Errors
/// Everything that is wrong, with its place; see [`Fault`].
pub fn load(
    file: &str,
    text: &str,
    registry: &Registry,
    handle: &Handle,
    options: &Options,
) -> Result<Assembly, Problems<Fault>> {
    let config = EndpointPickerConfig::parse(file, text)?;
    load_parsed(source_name(file, text), &config, registry, handle, options)
}

/// Loads what was read from `file`, as [`load`] does.
///
/// # Errors
/// Everything that is wrong, with its place; see [`Fault`].
pub fn load_parsed(
    file: &str,
    config: &EndpointPickerConfig,
    registry: &Registry,
    handle: &Handle,
    options: &Options,
) -> Result<Assembly, Problems<Fault>> {
    let mut loader = Loader {
        config,
        registry,
        handle,
        options,
        gates: FeatureGates::default(),
        problems: Problems::new(file),
        plugins: Vec::new(),
        notices: Vec::new(),
    };
    loader.run()
}

/// The state of loading.
struct Loader<'a> {
    config: &'a EndpointPickerConfig,
    registry: &'a Registry,
    handle: &'a Handle,
    options: &'a Options,
    gates: FeatureGates,
    problems: Problems<Fault>,
    /// The effective list.
    plugins: Vec<Plugin>,
    notices: Vec<Notice>,
}

impl Loader<'_> {
    fn run(&mut self) -> Result<Assembly, Problems<Fault>> {
        let lockstep = self.config.lockstep.as_ref().map(|section| section.value).unwrap_or_default();
        self.handle.set_compat(lockstep.compat);
        self.gates = FeatureGates::resolve(&self.config.feature_gates, &mut self.problems);
        self.notice_what_is_written();
        self.check_plugin_list();
        self.step()?;
        self.check_support();
        self.step()?;
        self.instantiate();
        self.step()?;
        let defaulted = self.apply_defaults();
        self.step()?;
        self.check_references(&defaulted);
        self.step()?;
        let built = self.build_profiles(&defaulted.profiles);
        self.check_data_layer_references(&defaulted.sources);
        let flow_control = self.build_flow_control();
        let (parser_names, parsers) = self.build_parsers(&defaulted.parsers);
        let detector = self.build_saturation_detector(&defaulted.saturation_detector);
        self.step()?;
        let order = self.complete_data_graph();
        self.step()?;
        let discovery = self.resolve_discovery();
        self.step()?;
        self.check_stability();
        self.step()?;
        let data_layer = self.plan_data_layer(&defaulted.sources);
        self.notice_who_hears_nothing(&data_layer);
        self.step()?;
        let built = built.expect("a problem was reported for every profile that could not be built");
        Ok(Assembly {
            hooks: Hooks::new(
                self.plugins.iter().map(|p| &p.instance),
                order.iter().map(|p| &self.plugins[*p].instance),
            ),
            plugins: std::mem::take(&mut self.plugins),
            profiles: built.plans,
            scheduler: built.scheduler,
            profile_handler: built.handler,
            saturation_detector: defaulted.saturation_detector.value.as_str().into(),
            detector: detector.expect("a problem was reported where the detector is none"),
            flow_control,
            parser_names,
            parsers,
            data_layer,
            discovery,
            gates: self.gates,
            lockstep,
            notices: std::mem::take(&mut self.notices),
        })
    }

    /// Ends loading if anything is wrong so far.
    fn step(&mut self) -> Result<(), Problems<Fault>> {
        let empty = Problems::new(self.problems.file());
        std::mem::replace(&mut self.problems, empty).into_result(())
    }

    /// Notes every plugin that waits for KV events and subscribes to nobody.
    fn notice_who_hears_nothing(&mut self, data_layer: &DataLayerPlan) {
        let hears =
            |name: &str| data_layer.all_endpoint_listeners().any(|listener| *listener.id.name == *name);
        let waits = |plugin: &&Plugin| {
            let sink = plugin.instance.roles.kv_events.as_ref();
            sink.is_some_and(|sink| !sink.has_own_socket()) && !hears(&plugin.name)
        };
        let names: Vec<Rc<str>> = self.plugins.iter().filter(waits).map(|p| Rc::clone(&p.name)).collect();
        self.notices.extend(names.into_iter().map(Notice::NoKvEvents));
    }

    fn notice_what_is_written(&mut self) {
        self.notices.extend(self.config.deprecated.iter().map(|deprecated| match deprecated {
            Deprecated::ApiVersion => Notice::DeprecatedApiVersion,
            Deprecated::SaturationDetector => Notice::DeprecatedSaturationDetector,
            Deprecated::Parser => Notice::DeprecatedParser,
        }));
        let section = self.config.flow_control.as_ref();
        if !self.gates.flow_control && section.is_some_and(|s| s.is_ignored_without_gate()) {
            self.notices.push(Notice::FlowControlSectionIgnored);
        }
    }

    fn plugin(&self, name: &str) -> Option<&Plugin> {
        self.plugins.iter().find(|p| *p.name == *name)
    }

    fn instance(&self, name: &str) -> Option<&Instance> {
        Some(&self.plugin(name)?.instance)
    }

    /// Adds a built plugin to the effective list and the handle.
    fn add(&mut self, name: &str, plugin_type: &str, origin: Origin, instance: Instance) {
        self.handle.add(name, instance.clone());
        if let Some(deprecation) = self.registry.get(plugin_type).and_then(|r| r.info.deprecation) {
            let (name, plugin_type) = (name.into(), plugin_type.into());
            self.notices.push(Notice::DeprecatedPlugin { name, plugin_type, deprecation });
        }
        self.plugins.push(Plugin { name: name.into(), plugin_type: plugin_type.into(), origin, instance });
    }

    /// Returns the parsers that are asked, in order.
    fn build_parsers(&mut self, references: &[Located<PluginRef>]) -> (Vec<Rc<str>>, ParserRegistry) {
        let mut names: Vec<Rc<str>> = Vec::new();
        let mut parsers: Vec<std::sync::Arc<dyn crate::request::Parser>> = Vec::new();
        for reference in references {
            let name: Rc<str> = reference.0.as_str().into();
            let Some(parser) = self.instance(&name).and_then(|i| i.roles.parser.clone()) else {
                let message = format!("plugin \"{name}\" is not a parser");
                self.problems.push_at(Fault::WrongParserRole, reference, message);
                continue;
            };
            if parsers.last().is_some_and(|last| last.claims().is_empty()) {
                self.notices.push(Notice::ParserAfterFallback(name));
            } else if parsers.iter().any(|p| p.plugin_type() == parser.plugin_type()) {
                self.notices.push(Notice::DuplicateParserType(name));
            } else {
                names.push(name);
                parsers.push(parser);
            }
        }
        (names, ParserRegistry::new(parsers))
    }

    /// Returns the name of the discovery plugin.
    fn resolve_discovery(&mut self) -> Option<Rc<str>> {
        let reference = self.config.data_layer.discovery.as_ref()?;
        let name = reference.0.as_str();
        match self.instance(name) {
            None => {
                let message = format!("discovery refers to \"{name}\", which is not among the plugins");
                self.problems.push_at(Fault::UndefinedDiscovery, reference, message);
            }
            Some(instance) if instance.roles.discovery.is_none() => {
                let message = format!("plugin \"{name}\" does not find endpoints");
                self.problems.push_at(Fault::WrongDiscoveryRole, reference, message);
            }
            Some(_) => {}
        }
        Some(name.into())
    }

    fn check_stability(&mut self) {
        if self.options.allow_experimental {
            return;
        }
        for plugin in experimental(&self.plugins, self.registry) {
            let message = format!(
                "plugin '{}' (type: '{}') has Alpha stability level, but command line flag \
                 --allow-experimental-plugins is not set",
                plugin.name, plugin.plugin_type
            );
            let spec = self.config.plugins.iter().find(|s| *s.name == *plugin.name);
            let (at, path) = spec.map_or((None, ""), |s| (s.at, s.path.as_str()));
            self.problems.push(Fault::Experimental, at, path, message);
        }
    }

    /// Builds `plugin_type` under its own name, without parameters, as a default.
    fn add_default(&mut self, plugin_type: &str, wanted_by: &Located<()>) {
        let Some(registered) = self.registry.get(plugin_type) else {
            let message = format!("{plugin_type:?} is neither a plugin of this file nor a plugin type");
            self.problems.push_at(Fault::UnknownDefaultPluginType, wanted_by, message);
            return;
        };
        let Support::Supported(factory) = registered.support else {
            return self.refuse_unbuilt(plugin_type, "added by default", wanted_by);
        };
        match factory(plugin_type, &Parameters::absent(), self.handle) {
            Ok(instance) => self.add(plugin_type, plugin_type, Origin::Default, instance),
            Err(error) => {
                let message = format!("default plugin {plugin_type} cannot be built: {error}");
                self.problems.push_at(Fault::DefaultPluginFailed, wanted_by, message);
            }
        }
    }

    fn refuse_unbuilt(&mut self, plugin_type: &str, why: &str, place: &Located<()>) {
        let message = format!(
            "plugin type {plugin_type} ({why}) belongs to the llm-d Router v0.10.0, but is not built yet here"
        );
        self.problems.push_at(Fault::NotBuilt, place, message);
    }
}

#[cfg(test)]
mod tests;
