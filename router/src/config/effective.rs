//! The configuration that a file amounts to, written as one: `lockstep-router check` prints it.

mod document;

use std::time::Duration;

use serde_json::{Map, Value, json};

use self::document::{Document, Tree};
use super::assembly::{Assembly, Origin, Plugin};
use super::json_schema::parameters;
use super::schema::{Behavior, EndpointPickerConfig, LockstepConfig};
use super::shape::{Field, Shape};
use crate::flow_control::{BandSettings, Settings};
use crate::plugin::{Handle, Hook};
use crate::support::{Registry, Support};

/// Returns the effective configuration as YAML: with the plugins, profiles, sources and limits that defaulting adds, and
/// all parameters of every plugin.
///
/// It is a configuration itself, and amounts to itself. Factories run once more, without effect; `handle` is one that
/// nothing else uses.
pub fn effective(
    config: &EndpointPickerConfig,
    assembly: &Assembly,
    registry: &Registry,
    handle: &Handle,
) -> String {
    let mut document = Document::default();
    document.set("apiVersion", "llm-d.ai/v1alpha1");
    document.set("kind", "EndpointPickerConfig");
    let gates = assembly.gates.all().map(|(gate, on)| Tree::from(format!("{gate}={on}")));
    document.set("featureGates", Tree::List(gates.into()));
    let written = |plugin: &Plugin| {
        let spec = config.plugins.iter().find(|spec| spec.name == *plugin.name)?;
        spec.parameters.as_ref().map(|parameters| parameters.to_json())
    };
    let plugins = assembly.plugins.iter().map(|plugin| {
        let mut entry = Document::default();
        entry.set("type", &*plugin.plugin_type);
        entry.note(match plugin.origin {
            Origin::File => None,
            Origin::Default => Some("added by default"),
            Origin::Required => Some("added for data that others require"),
        });
        entry.set("name", &*plugin.name);
        let shape = match registry.get(&plugin.plugin_type).map(|registered| registered.support) {
            Some(Support::Supported(factory)) => parameters(factory, handle),
            _ => None,
        };
        let written = written(plugin);
        match shape.map(|shape| complete(&shape, written.as_ref())) {
            None | Some(Tree::Null) => {}
            Some(parameters) => entry.set("parameters", parameters),
        }
        entry.into()
    });
    document.set("plugins", Tree::List(plugins.collect()));
    document.set("schedulingProfiles", Tree::List(profiles(assembly)));
    document.set("dataLayer", data_layer(config, assembly));
    document.set("flowControl", flow_control(assembly));
    let parsers = assembly.parser_names.iter().map(|name| reference(name));
    let mut request_handler = Document::default();
    request_handler.set("parsers", Tree::List(parsers.collect()));
    document.set("requestHandler", request_handler);
    if assembly.lockstep != LockstepConfig::default() {
        document.set("lockstep", lockstep(&assembly.lockstep));
    }
    document.to_string()
}

fn reference(name: &str) -> Tree {
    let mut entry = Document::default();
    entry.set("pluginRef", name);
    entry.into()
}

fn profiles(assembly: &Assembly) -> Vec<Tree> {
    let profile = |profile: &super::assembly::ProfilePlan| {
        let filters = profile.filters.iter().map(|name| reference(name));
        let scorers = profile.scorers.iter().map(|(name, weight)| {
            let mut entry = Document::default();
            entry.set("pluginRef", &**name);
            entry.set("weight", Tree::Value(Value::from(*weight)));
            entry.into()
        });
        let picker = std::iter::once(reference(&profile.picker));
        let mut entry = Document::default();
        entry.set("name", &*profile.name);
        entry.set("plugins", Tree::List(filters.chain(scorers).chain(picker).collect()));
        entry.into()
    };
    assembly.profiles.iter().map(profile).collect()
}

fn data_layer(config: &EndpointPickerConfig, assembly: &Assembly) -> Document {
    fn source(name: &str, extractors: Vec<Tree>) -> Tree {
        let mut entry = Document::default();
        entry.set("pluginRef", name);
        if !extractors.is_empty() {
            entry.set("extractors", Tree::List(extractors));
        }
        entry.into()
    }
    let plan = &assembly.data_layer;
    // A source that is no plugin of the list is one that an extractor brings along.
    let listed = |name: &str| assembly.plugin(name).is_some();
    let polling = plan.polling.iter().map(|p| (&p.source.id.name, names(&p.extractors)));
    let endpoints = plan.endpoint_sources.iter().map(|s| (&s.id.name, names(&s.listeners)));
    let objects = plan.notification_sources.iter().map(|s| (&s.id.name, names(&s.listeners)));
    let sources = polling.chain(endpoints).chain(objects).filter(|(name, _)| listed(name));
    let mut section = Document::default();
    // Those that defaulting adds are there.
    section.set("injectDefaults", Tree::Value(Value::Bool(false)));
    section.set("sources", Tree::List(sources.map(|(name, extractors)| source(name, extractors)).collect()));
    if let Some(discovery) = &assembly.discovery {
        section.set("discovery", reference(discovery));
    }
    if let Some(syncer) = &config.data_layer.cross_replica_syncer {
        section.set("crossReplicaSyncerPluginRef", &*syncer.value);
    }
    if let Some(interval) = &config.data_layer.cross_replica_sync_interval {
        section.set("crossReplicaSyncInterval", format!("{}ns", interval.value.0));
    }
    section
}

fn names<T: ?Sized>(hooks: &[Hook<T>]) -> Vec<Tree> {
    hooks.iter().map(|hook| reference(&hook.id.name)).collect()
}

fn flow_control(assembly: &Assembly) -> Document {
    let mut section = Document::default();
    section.set("saturationDetector", reference(&assembly.saturation_detector));
    let Some(Settings { controller, registry, usage_limits }) = &assembly.flow_control else {
        return section;
    };
    section.set("maxBytes", registry.max_bytes);
    section.set("maxRequests", registry.max_requests);
    section.set("defaultRequestTTL", duration(controller.default_request_ttl));
    section.set("defaultPriorityBand", band(&registry.default_band, false));
    if let Some(negative) = &registry.default_negative_band {
        section.set("defaultNegativePriorityBand", band(negative, false));
    }
    let bands = registry.bands.iter().map(|listed| band(listed, true).into());
    section.set("priorityBands", Tree::List(bands.collect()));
    section.set("usageLimitPolicyPluginRef", &*usage_limits.id.name);
    section.set("enableEviction", Tree::Value(Value::Bool(controller.enable_eviction)));
    section
}

fn band(band: &BandSettings, listed: bool) -> Document {
    let mut section = Document::default();
    if listed {
        section.set("priority", Tree::Value(Value::from(band.priority)));
    }
    section.set("maxBytes", band.max_bytes);
    section.set("maxRequests", band.max_requests);
    section.set("fairnessPolicyRef", &*band.fairness.id.name);
    section.set("orderingPolicyRef", &*band.ordering.id.name);
    section
}

fn duration(duration: Duration) -> String {
    match duration.subsec_nanos() {
        0 => format!("{}s", duration.as_secs()),
        _ => format!("{}ns", duration.as_nanos()),
    }
}

fn lockstep(section: &LockstepConfig) -> Document {
    let mut compat = Document::default();
    for (key, behavior) in
        [("flowControl", section.compat.flow_control), ("kvEvents", section.compat.kv_events)]
    {
        compat.set(key, if behavior == Behavior::Fixed { "fixed" } else { "parity" });
    }
    let mut written = Document::default();
    written.set("compat", compat);
    written
}

/// Returns what was written with the defaults of the rest, fields in the order of the shape.
fn complete(shape: &Shape, written: Option<&Value>) -> Tree {
    match (shape, written) {
        (Shape::Fields(fields), None | Some(Value::Null | Value::Object(_))) => {
            let absent = Map::new();
            let written = written.and_then(Value::as_object).unwrap_or(&absent);
            let mut entries = Document::default();
            for field in fields {
                match field_of(field, written) {
                    Tree::Null => {}
                    value => entries.set(field.key, value),
                }
            }
            if entries.is_empty() { Tree::Null } else { entries.into() }
        }
        (Shape::List(item), Some(Value::Array(items))) => {
            Tree::List(items.iter().map(|value| complete(item, Some(value))).collect())
        }
        (_, None | Some(Value::Null)) => Tree::Null,
        (_, Some(value)) => value.clone().into(),
    }
}

/// The value of a field: of several spellings of its key the last counts, as in decoding.
fn field_of(field: &Field, written: &Map<String, Value>) -> Tree {
    let given = written.iter().rfind(|(key, value)| key.eq_ignore_ascii_case(field.key) && !value.is_null());
    match (complete(&field.shape, given.map(|(_, value)| value)), &field.default) {
        // Empty is what stands for no value.
        (Tree::Null, Some(default)) if *default == json!("") || *default == json!([]) => Tree::Null,
        (Tree::Null, Some(default)) => default.clone().into(),
        (value, _) => value,
    }
}

#[cfg(test)]
mod tests;
