//! What this build can run: every plugin type of the pinned release, and which of them have a factory.
//!
//! The list cannot lie: a type is supported exactly when one of the tables that live with the plugins holds its
//! factory. All others are refused when a configuration is loaded, before any plugin is constructed.

mod release;

pub use release::{Area, Deprecation, EndpointEvents, PluginType, RELEASE, Reference, Stability};

use std::collections::BTreeMap;
use std::fmt;

use crate::plugin::Factory;
use crate::{admission, data_layer, flow_control, producers, request, request_control, scheduling};

/// Returns the types that this build has, as the capabilities list them. A new capability adds its table here.
fn built() -> impl Iterator<Item = (&'static str, Factory)> {
    let tables =
        [admission::TYPES, data_layer::TYPES, producers::TYPES, request::TYPES, request_control::TYPES];
    scheduling::types().chain(flow_control::types()).chain(tables.into_iter().flatten().copied())
}

/// Whether a type can run.
#[derive(Clone, Copy)]
pub enum Support {
    /// It can: here is its factory.
    Supported(Factory),
    /// It belongs to the pinned release and is not built yet.
    NotBuilt,
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Support::Supported(_) => "supported",
            Support::NotBuilt => "not built yet",
        })
    }
}

impl fmt::Debug for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A type with what is known of it.
#[derive(Clone, Debug)]
pub struct Registered {
    /// Its entry.
    pub info: PluginType,
    /// Whether it can run.
    pub support: Support,
}

/// All plugin types that a configuration may name, in order of their names.
#[derive(Clone, Debug)]
pub struct Registry(BTreeMap<&'static str, Registered>);

impl Default for Registry {
    /// Returns the types of the pinned release, those supported that this build has.
    fn default() -> Self {
        let listed = RELEASE.iter().map(|info| Registered { info: *info, support: Support::NotBuilt });
        let mut types: BTreeMap<_, _> = listed.map(|entry| (entry.info.name, entry)).collect();
        for (name, factory) in built() {
            if let Some(entry) = types.get_mut(name) {
                entry.support = Support::Supported(factory);
            }
        }
        Registry(types)
    }
}

impl Registry {
    /// Returns a registry without types.
    pub fn empty() -> Self {
        Registry(BTreeMap::new())
    }

    /// Adds a type of one's own, or replaces one of the release. To be called before a configuration is loaded.
    pub fn register(&mut self, info: PluginType, factory: Factory) {
        self.0.insert(info.name, Registered { info, support: Support::Supported(factory) });
    }

    /// Takes the factory of a type away: configurations that name it are refused from then on.
    pub fn withdraw(&mut self, name: &str) {
        if let Some(entry) = self.0.get_mut(name) {
            entry.support = Support::NotBuilt;
        }
    }

    /// Returns the type `name`.
    pub fn get(&self, name: &str) -> Option<&Registered> {
        self.0.get(name)
    }

    /// Iterates over all types in order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Registered> {
        self.0.values()
    }

    /// Returns the stability of a reported type; one that is not registered counts as stable.
    pub fn stability(&self, reported: &str) -> Stability {
        self.get(reported).map_or(Stability::Stable, |r| r.info.stability)
    }

    /// Returns the type that is created where nobody produces `key`.
    pub fn default_producer(&self, key: &str) -> Option<&Registered> {
        self.iter().find(|r| r.info.default_producer_of == Some(key))
    }
}

#[cfg(test)]
mod tables;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_has_96_types_each_once() {
        let names: std::collections::BTreeSet<&str> = RELEASE.iter().map(|t| t.name).collect();
        assert_eq!((names.len(), RELEASE.len()), (96, 96));
    }

    #[test]
    fn every_type_of_this_build_belongs_to_the_release_and_is_listed_once() {
        let mut seen = std::collections::BTreeSet::new();
        for (name, _) in built() {
            assert!(RELEASE.iter().any(|t| t.name == name), "{name} is in no list of the release");
            assert!(seen.insert(name), "two tables hold {name}");
        }
        let registry = Registry::default();
        let supported = registry.iter().filter(|r| matches!(r.support, Support::Supported(_))).count();
        assert_eq!(supported, seen.len());
    }

    #[test]
    fn replacements_are_types_of_the_release() {
        for replacement in RELEASE.iter().filter_map(|t| t.deprecation.map(|d| d.replacement)) {
            assert!(RELEASE.iter().any(|t| t.name == replacement), "{replacement}");
        }
    }

    #[test]
    fn a_type_of_ones_own_is_supported_and_counts_as_it_says() {
        let mut registry = Registry::empty();
        let info = PluginType::new(Area::Scorer, "acme-scorer", Stability::Alpha);
        registry.register(info, |name, _, _| {
            Ok(crate::plugin::Instance::new("acme-scorer", name, crate::plugin::Roles::default()))
        });
        assert!(matches!(registry.get("acme-scorer").map(|r| r.support), Some(Support::Supported(_))));
        assert_eq!(registry.stability("acme-scorer"), Stability::Alpha);
        assert_eq!(registry.stability("nobody-knows"), Stability::Stable);
    }
}
