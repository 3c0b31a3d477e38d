//! Adding the data producers that others require.

use super::Loader;
use crate::config::assembly::Origin;
use crate::config::graph::{self, DefaultProducers, Node, NotCreated};
use crate::config::notice::Notice;
use crate::data_key::DataKey;
use crate::plugin::{Handle, Instance, Parameters};
use crate::support::{Registry, Support};

/// Creates default producers from the registry, and keeps what it created.
struct FromRegistry<'a> {
    registry: &'a Registry,
    handle: &'a Handle,
    created: Vec<(String, Instance)>,
}

impl DefaultProducers for FromRegistry<'_> {
    fn type_for(&self, key: &DataKey) -> Option<String> {
        self.registry.default_producer(key.as_str()).map(|r| r.info.name.to_owned())
    }

    fn create(&mut self, plugin_type: &str) -> Result<Node, NotCreated> {
        let registered = self.registry.get(plugin_type).ok_or(NotCreated::NoFactory)?;
        let Support::Supported(factory) = registered.support else { return Err(NotCreated::NotBuilt) };
        let instance = factory(plugin_type, &Parameters::absent(), self.handle)
            .map_err(|error| NotCreated::Failed(error.to_string()))?;
        let node = Node::of(plugin_type, &instance);
        self.created.push((plugin_type.to_owned(), instance));
        Ok(node)
    }
}

impl Loader<'_> {
    /// Adds missing producers to the effective list and returns all data producers, as indexes into it, in the
    /// order in which they run.
    pub(super) fn complete_data_graph(&mut self) -> Vec<usize> {
        let mut nodes: Vec<Node> = self.plugins.iter().map(|p| Node::of(&p.name, &p.instance)).collect();
        let mut defaults = FromRegistry { registry: self.registry, handle: self.handle, created: Vec::new() };
        let mut faults = graph::complete(&mut nodes, &mut defaults);
        for (name, instance) in defaults.created {
            self.add(&name, &name, Origin::Required, instance);
        }
        let mut order = Vec::new();
        if faults.is_empty() {
            let unproduced = graph::unproduced_optional(&nodes);
            let notice = |(plugin, key): (crate::plugin::TypedName, _)| Notice::OptionalKeyUnproduced {
                plugin: plugin.name,
                key,
            };
            self.notices.extend(unproduced.into_iter().map(notice));
            match graph::order(&nodes) {
                Ok(producers) => order = producers,
                Err(found) => faults = found,
            }
        }
        for fault in faults {
            self.problems.push(fault.fault(), None, "plugins", fault.to_string());
        }
        order
    }
}
