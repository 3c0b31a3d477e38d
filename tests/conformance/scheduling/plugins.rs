//! Plugins as cases describe them.

use executor::Rt;
use router::plugin::{FactoryError, Handle, Instance, Parameters};
use router::support::{Registry, Support};
use serde_json::Value;

/// Returns the first plugin type of a case for which there is no code.
pub(super) fn not_built(given: &Value) -> Option<String> {
    let one = given.get("plugin").into_iter();
    let lists = ["plugins", "other_plugins", "existing_plugins"];
    let many = lists.iter().filter_map(|list| given.get(list)?.as_array()).flatten();
    let mut types = one.chain(many).filter_map(|plugin| plugin["type"].as_str());
    let registry = Registry::default();
    let built = |name: &&str| matches!(registry.get(name).map(|r| &r.support), Some(Support::Supported(_)));
    types.find(|name| !built(name)).map(str::to_owned)
}

/// Builds a plugin, and enters it into the handle under its configured name.
pub(crate) fn build(plugin: &Value, handle: &Handle) -> Result<Instance, FactoryError> {
    let plugin_type = plugin["type"].as_str().expect("a plugin has a type");
    let name = plugin.get("name").and_then(Value::as_str).unwrap_or(plugin_type);
    let Some(Support::Supported(factory)) = Registry::default().get(plugin_type).map(|r| r.support) else {
        panic!("types that are not built were sorted out before");
    };
    let instance = factory(name, &parameters(plugin), handle)?;
    handle.add(name, instance.clone());
    Ok(instance)
}

/// Builds all plugins of a list.
pub(super) fn build_all(list: Option<&Value>, handle: &Handle) -> Result<(), FactoryError> {
    for plugin in list.and_then(Value::as_array).into_iter().flatten() {
        build(plugin, handle)?;
    }
    Ok(())
}

/// Returns a handle without plugins.
pub(super) fn handle(rt: &Rt) -> Handle {
    Handle::new(rt.clone())
}

fn parameters(plugin: &Value) -> Parameters {
    if let Some(text) = plugin.get("parameters_raw").and_then(Value::as_str) {
        // Only the first JSON value counts. A malformed one cannot reach our factories, whose parameters were
        // parsed with the configuration; a text stands for it, which no type with parameters accepts either.
        let first = serde_json::Deserializer::from_str(text).into_iter::<Value>().next();
        return match first {
            Some(Ok(value)) => Parameters::new(value),
            _ => Parameters::new(Value::String(text.to_owned())),
        };
    }
    plugin.get("parameters").map_or_else(Parameters::absent, |value| Parameters::new(value.clone()))
}
