//! Building the plugins of the file, referenced ones first.

use std::rc::Rc;

use serde_json::Value;

use super::Loader;
use crate::config::assembly::Origin;
use crate::config::fault::Fault;
use crate::config::problem::{Located, Position};
use crate::config::schema::PluginSpec;
use crate::config::yaml::{Content, Node};
use crate::plugin::{FactoryError, ParameterError, Parameters, Segment};
use crate::producers::PrecisePrefixCacheProducer;
use crate::support::Support;

impl Loader<'_> {
    /// Builds every plugin of the file, in file order but for plugins that others refer to, which come first. The
    /// effective list keeps the file's order.
    pub(super) fn instantiate(&mut self) {
        let Some(mut order) = self.reference_order() else { return };
        // The deprecated scorer looks for one: declared anywhere is declared (scheduling spec 5.17).
        order.sort_by_key(|i| self.config.plugins[*i].plugin_type != PrecisePrefixCacheProducer::TYPE);
        for spec in order.into_iter().map(|i| &self.config.plugins[i]) {
            let Some(Support::Supported(factory)) = self.registry.get(&spec.plugin_type).map(|r| r.support)
            else {
                continue;
            };
            let parameters = parameters(spec);
            match factory(&spec.name, &parameters, self.handle) {
                Ok(instance) => self.add(&spec.name, &spec.plugin_type, Origin::File, instance),
                Err(error) => self.refuse_parameters(spec, &error),
            }
        }
        let place = |name: &Rc<str>| self.config.plugins.iter().position(|s| *s.name == **name);
        self.plugins.sort_by_key(|plugin| place(&plugin.name));
    }

    fn refuse_parameters(&mut self, spec: &Located<PluginSpec>, error: &FactoryError) {
        let message = |why: &dyn std::fmt::Display| {
            format!("plugin '{}' (type: {}): {why}", spec.name, spec.plugin_type)
        };
        let given = spec.parameters.as_ref();
        match (error, given) {
            (FactoryError::Parameters(wrong), Some(given)) => {
                let at = place_of(given, &wrong.path).or(given.at);
                let path = path_of(&given.path, wrong);
                self.problems.push(Fault::BadParameters, at, path, message(&wrong.message));
            }
            (FactoryError::NotBuilt(_), _) => {
                let message = format!("plugin type {}, plugin '{}': {error}", spec.plugin_type, spec.name);
                self.problems.push_at(Fault::NotBuilt, spec, message);
            }
            _ => {
                let place = given.map_or_else(|| spec.with(()), |g| g.with(()));
                self.problems.push_at(Fault::BadParameters, &place, message(error));
            }
        }
    }

    /// Returns the order of building, or reports references that lead nowhere or in a circle.
    fn reference_order(&mut self) -> Option<Vec<usize>> {
        let specs = &self.config.plugins;
        let mut edges: Vec<Vec<usize>> = Vec::with_capacity(specs.len());
        let mut sound = true;
        for spec in specs {
            let mut targets = Vec::new();
            for name in self.references(spec) {
                match specs.iter().position(|s| s.name == name) {
                    Some(target) => targets.push(target),
                    None => {
                        sound = false;
                        let message = format!(
                            "plugin '{}' refers to '{name}', which is not among the plugins",
                            spec.name
                        );
                        self.problems.push_at(Fault::UnknownPluginReference, spec, message);
                    }
                }
            }
            edges.push(targets);
        }
        if !sound {
            return None;
        }
        let mut order = Vec::with_capacity(specs.len());
        let mut state = vec![Visit::Unseen; specs.len()];
        for (i, spec) in specs.iter().enumerate() {
            if !visit(i, &edges, &mut state, &mut order) {
                let message = format!("plugin '{}' refers to itself, directly or through others", spec.name);
                self.problems.push_at(Fault::PluginReferenceCycle, spec, message);
                return None;
            }
        }
        Some(order)
    }

    /// Returns the names of plugins that the parameters of `spec` refer to.
    fn references(&self, spec: &PluginSpec) -> Vec<String> {
        let Some(registered) = self.registry.get(&spec.plugin_type) else { return Vec::new() };
        let parameters = parameters(spec);
        let named = registered.info.references.iter().filter_map(|reference| {
            let written = |path: &'static str| parameters.value().and_then(|p| text_at(p, path));
            let name = written(reference.parameter);
            name.filter(|name| !name.is_empty() || reference.stand_in.is_none())
                .or_else(|| reference.stand_in.and_then(written))
                .or_else(|| reference.default.map(str::to_owned))
        });
        named.filter(|name| !name.is_empty()).collect()
    }
}

fn parameters(spec: &PluginSpec) -> Parameters {
    spec.parameters.as_ref().map_or(Parameters::absent(), |p| Parameters::new(p.value.to_json()))
}

/// Returns the text at a path of keys joined by `.`, which match in any case.
fn text_at(value: &Value, path: &str) -> Option<String> {
    let step = |value: &'_ Value, key: &str| -> Option<Value> {
        let map = value.as_object()?;
        map.get(key)
            .or_else(|| map.iter().find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, v)| v))
            .cloned()
    };
    let found = path.split('.').try_fold(value.clone(), |value, key| step(&value, key))?;
    found.as_str().map(str::to_owned)
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    Unseen,
    Open,
    Done,
}

/// Appends `node` behind everything it refers to; false = it refers to itself. The depth is that of the longest
/// chain of references, which a configuration's own size bounds.
fn visit(node: usize, edges: &[Vec<usize>], state: &mut [Visit], order: &mut Vec<usize>) -> bool {
    match state[node] {
        Visit::Done => return true,
        Visit::Open => return false,
        Visit::Unseen => {}
    }
    state[node] = Visit::Open;
    let sound = edges[node].iter().all(|target| visit(*target, edges, state, order));
    state[node] = Visit::Done;
    order.push(node);
    sound
}

/// Returns the place of the node that `path` leads to.
fn place_of(root: &Node, path: &[Segment]) -> Option<Position> {
    let mut node = root;
    let mut at = root.at;
    for segment in path {
        (node, at) = match (segment, &node.content) {
            (Segment::Key(key), Content::Map(entries)) => {
                let entry = entries.iter().rfind(|e| e.key == *key)?;
                (&entry.value, entry.value.at)
            }
            (Segment::Index(index), Content::List(items)) => {
                let item = items.get(*index)?;
                (item, item.at)
            }
            _ => return None,
        };
    }
    Some(at)
}

fn path_of(root: &str, error: &ParameterError) -> String {
    let inner = error.path_text();
    if inner.is_empty() || inner.starts_with('[') {
        format!("{root}{inner}")
    } else {
        format!("{root}.{inner}")
    }
}
