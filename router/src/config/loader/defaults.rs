//! What is added to a configuration (configuration spec 2.4).

use super::Loader;
use crate::config::problem::Located;
use crate::config::schema::{PluginRef, ProfileEntry, SchedulingProfile, SourceConfig};

/// Names of the plugins that every configuration gets for flow control.
const FLOW_CONTROL_POLICIES: [&str; 3] =
    ["fcfs-ordering-policy", "global-strict-fairness-policy", "static-usage-limit-policy"];
const PARSERS: [&str; 3] = ["openai-parser", "anthropic-parser", "vllmhttp-parser"];
const SATURATION_DETECTOR: &str = "utilization-detector";
const PROFILE_HANDLER: &str = "single-profile-handler";
const PICKER: &str = "max-score-picker";
const METRICS_SOURCE: &str = "metrics-data-source";
const METRICS_EXTRACTOR: &str = "core-metrics-extractor";

/// The parts of a configuration that defaults change.
pub(super) struct Defaulted {
    pub(super) profiles: Vec<Located<SchedulingProfile>>,
    pub(super) parsers: Vec<Located<PluginRef>>,
    pub(super) saturation_detector: Located<String>,
    pub(super) sources: Vec<Located<SourceConfig>>,
}

impl Loader<'_> {
    /// Adds the default plugins, in the order of the llm-d Router, and returns what refers to them.
    pub(super) fn apply_defaults(&mut self) -> Defaulted {
        let profiles = self.default_profiles();
        for policy in FLOW_CONTROL_POLICIES {
            self.ensure(policy, &Located::nowhere(()));
        }
        let parsers = self.default_parsers();
        let saturation_detector = self.default_saturation_detector();
        let sources = self.default_sources();
        Defaulted { profiles, parsers, saturation_detector, sources }
    }

    /// Adds a default unless a plugin has its name.
    fn ensure(&mut self, plugin_type: &str, wanted_by: &Located<()>) {
        if self.plugin(plugin_type).is_none() {
            self.add_default(plugin_type, wanted_by);
        }
    }

    fn default_profiles(&mut self) -> Vec<Located<SchedulingProfile>> {
        let mut profiles = self.config.scheduling_profiles.clone();
        if profiles.is_empty() {
            profiles.push(Located::nowhere(self.profile_of_everything()));
        }
        let has_handler = self.plugins.iter().any(|p| p.instance.roles.profile_handler.is_some());
        if profiles.len() == 1 && !has_handler {
            self.add_default(PROFILE_HANDLER, &profiles[0].with(()));
        }
        let is_picker =
            |loader: &Self, name: &str| loader.instance(name).is_some_and(|i| i.roles.picker.is_some());
        let first_picker = self.plugins.iter().map(|p| p.name.clone()).find(|name| is_picker(self, name));
        if first_picker.is_none() {
            self.add_default(PICKER, &Located::nowhere(()));
        }
        let picker = first_picker.map_or(PICKER.to_owned(), |name| name.to_string());
        for profile in &mut profiles {
            if !profile.plugins.iter().any(|e| is_picker(self, &e.plugin_ref)) {
                let entry = ProfileEntry { plugin_ref: picker.clone(), weight: None };
                let entry = profile.with(entry);
                profile.value.plugins.push(entry);
            }
        }
        profiles
    }

    /// Returns the profile that stands in where none is given: every filter, scorer and picker, in list order.
    fn profile_of_everything(&self) -> SchedulingProfile {
        let takes_part = self.plugins.iter().filter(|p| {
            let roles = &p.instance.roles;
            roles.filter.is_some() || roles.scorer.is_some() || roles.picker.is_some()
        });
        let entry = |name: &str| ProfileEntry { plugin_ref: name.to_owned(), weight: None };
        SchedulingProfile {
            name: "default".to_owned(),
            plugins: takes_part.map(|p| Located::nowhere(entry(&p.name))).collect(),
        }
    }

    /// A reference to a parser that is no plugin means the default instance of that type.
    fn default_parsers(&mut self) -> Vec<Located<PluginRef>> {
        let mut parsers = self.config.parsers.clone();
        if parsers.is_empty() {
            parsers.extend(PARSERS.map(|name| Located::nowhere(PluginRef(name.to_owned()))));
        }
        for parser in &parsers {
            self.ensure(&parser.0, &parser.with(()));
        }
        parsers
    }

    fn default_saturation_detector(&mut self) -> Located<String> {
        let written = self.config.flow_control.as_ref().and_then(|f| f.saturation_detector.as_ref());
        let reference = match written {
            Some(detector) if !detector.0.is_empty() => detector.with(detector.0.clone()),
            Some(detector) => detector.with(SATURATION_DETECTOR.to_owned()),
            None => Located::nowhere(SATURATION_DETECTOR.to_owned()),
        };
        if reference.value == SATURATION_DETECTOR {
            self.ensure(SATURATION_DETECTOR, &reference.with(()));
        }
        reference
    }

    /// Adds the metrics source unless it is switched off or one is referred to by exactly its name.
    ///
    /// A metrics source under another name does not count: it is scraped beside the default one, as in the llm-d
    /// Router; `injectDefaults: false` avoids that.
    fn default_sources(&mut self) -> Vec<Located<SourceConfig>> {
        let data_layer = &self.config.data_layer;
        let mut sources = data_layer.sources.clone();
        if data_layer.inject_defaults && !sources.iter().any(|s| s.plugin_ref == METRICS_SOURCE) {
            self.ensure(METRICS_SOURCE, &Located::nowhere(()));
            self.ensure(METRICS_EXTRACTOR, &Located::nowhere(()));
            sources.push(Located::nowhere(SourceConfig {
                plugin_ref: METRICS_SOURCE.to_owned(),
                extractors: vec![Located::nowhere(PluginRef(METRICS_EXTRACTOR.to_owned()))],
            }));
        }
        sources
    }
}
