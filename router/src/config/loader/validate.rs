//! Checks of what is written, before and after the defaults.

use super::Loader;
use super::defaults::Defaulted;
use crate::config::fault::Fault;
use crate::config::problem::{Located, accepted_instead, closest};
use crate::support::{Registered, Support};

impl Loader<'_> {
    /// Reports plugins without a type, of a name that is taken, or of a type that does not exist.
    pub(super) fn check_plugin_list(&mut self) {
        for (i, spec) in self.config.plugins.iter().enumerate() {
            let name = &spec.name;
            if spec.plugin_type.is_empty() {
                self.problems.push_at(
                    Fault::PluginWithoutType,
                    spec,
                    format!("plugin '{name}' is missing a type"),
                );
                continue;
            }
            if let Some(first) = self.config.plugins[..i].iter().find(|s| s.name == *name) {
                let message = format!("duplicate plugin name '{name}', first given at {}", first.path);
                self.problems.push_at(Fault::DuplicatePluginName, spec, message);
            }
            if self.registry.get(&spec.plugin_type).is_none() {
                let types: Vec<&str> = self.registry.iter().map(|r| r.info.name).collect();
                let guess = closest(&spec.plugin_type, &types);
                let guess = guess.map_or(String::new(), |g| format!("; did you mean \"{g}\"?"));
                let message = format!(
                    "plugin type '{}' is not registered{guess}; accepted: the types that `lockstep-router plugins` lists",
                    spec.plugin_type
                );
                self.problems.push_at(Fault::UnknownPluginType, spec, message);
            }
        }
    }

    /// Reports every type that the file names, or relies on, and that this build does not have. Nothing has
    /// been constructed yet.
    pub(super) fn check_support(&mut self) {
        for spec in &self.config.plugins {
            self.require_built(&spec.plugin_type, "configured", &spec.with(()));
        }
        let named = |name: &str| self.config.plugins.iter().any(|s| s.name == name);
        let mut relied_on: Vec<(&str, Located<()>)> = Vec::new();
        for parser in self.config.parsers.iter().filter(|p| !named(&p.0)) {
            relied_on.push((&parser.0, parser.with(())));
        }
        let flow_control = self.config.flow_control.as_ref();
        let detector = flow_control.and_then(|f| f.saturation_detector.as_ref());
        if let Some(detector) = detector.filter(|d| !named(&d.0)) {
            relied_on.push((&detector.0, detector.with(())));
        }
        for (plugin_type, place) in relied_on {
            self.require_built(plugin_type, "referred to", &place);
        }
    }

    fn require_built(&mut self, plugin_type: &str, why: &str, place: &Located<()>) {
        let support = self.registry.get(plugin_type).map(|Registered { support, .. }| *support);
        if matches!(support, Some(Support::NotBuilt)) {
            self.refuse_unbuilt(plugin_type, why, place);
        }
    }

    /// Reports references of profiles, detector and parsers that lead nowhere.
    pub(super) fn check_references(&mut self, defaulted: &Defaulted) {
        let names: Vec<_> = self.plugins.iter().map(|p| p.name.clone()).collect();
        let names: Vec<&str> = names.iter().map(|n| &**n).collect();
        for (i, profile) in defaulted.profiles.iter().enumerate() {
            let name = &profile.name;
            if name.is_empty() {
                let message = format!("schedulingProfiles[{i}] is missing a name");
                self.problems.push_at(Fault::ProfileWithoutName, profile, message);
            } else if defaulted.profiles[..i].iter().any(|p| p.name == *name) {
                let message = format!("duplicate profile name '{name}'");
                self.problems.push_at(Fault::DuplicateProfileName, profile, message);
            }
            for entry in &profile.plugins {
                let reference = entry.plugin_ref.as_str();
                if reference.is_empty() {
                    let message = format!("profile '{name}' has an entry without a 'pluginRef'");
                    self.problems.push_at(Fault::ProfileEntryWithoutRef, entry, message);
                } else if !names.contains(&reference) {
                    let message = format!(
                        "profile '{name}' references undefined plugin '{reference}'{}",
                        accepted_instead(reference, &names)
                    );
                    self.problems.push_at(Fault::UndefinedProfileRef, entry, message);
                }
            }
        }
        let detector = &defaulted.saturation_detector;
        if !names.contains(&detector.value.as_str()) {
            let instead = accepted_instead(detector, &names);
            let message =
                format!("saturation detector references undefined plugin '{}'{instead}", detector.value);
            self.problems.push_at(Fault::UndefinedSaturationDetector, detector, message);
        }
        for parser in defaulted.parsers.iter().filter(|p| !names.contains(&p.0.as_str())) {
            let message = format!("parser references undefined plugin '{}'", parser.0);
            self.problems.push_at(Fault::UndefinedParser, parser, message);
        }
    }
}
