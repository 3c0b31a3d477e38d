//! What a user wants to see of a configuration, and of what may stand in one.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use super::assembly::{Assembly, Origin};
use super::json_schema::parameters;
use super::schema::LockstepConfig;
use crate::plugin::{Handle, Hook};
use crate::support::{Registered, Registry, Support};

/// Describes what a configuration amounts to, for people: effective plugins, profiles, order of producers, sources,
/// parsers, gates and notices.
pub fn summary(assembly: &Assembly) -> String {
    let mut text = String::new();
    write_summary(&mut text, assembly).expect("writing to a text cannot fail");
    text
}

fn write_summary(out: &mut String, assembly: &Assembly) -> fmt::Result {
    writeln!(out, "plugins ({})", assembly.plugins.len())?;
    let width = assembly.plugins.iter().map(|p| p.name.len()).max().unwrap_or(0);
    for plugin in &assembly.plugins {
        let origin = match plugin.origin {
            Origin::File => "configured",
            Origin::Default => "added by default",
            Origin::Required => "added for data that others require",
        };
        writeln!(out, "  {:width$}  {} ({origin})", plugin.name, plugin.plugin_type)?;
    }
    writeln!(out, "profiles, run by {}", assembly.profile_handler)?;
    for profile in &assembly.profiles {
        let scorers = profile.scorers.iter().map(|(name, weight)| format!("{name} x {weight}"));
        writeln!(out, "  {}", profile.name)?;
        writeln!(out, "    filters  {}", list(profile.filters.iter()))?;
        writeln!(out, "    scorers  {}", list(scorers))?;
        writeln!(out, "    picker   {}", profile.picker)?;
    }
    writeln!(out, "data producers, in order")?;
    writeln!(out, "  {}", list(assembly.hooks.producers.iter().map(name)))?;
    writeln!(out, "sources, every {} ms", assembly.data_layer.base_tick.as_millis())?;
    for polling in &assembly.data_layer.polling {
        let extractors = list(polling.extractors.iter().map(name));
        writeln!(out, "  {} (every {} ticks): {extractors}", polling.source.id.name, polling.period_ticks)?;
    }
    let discovery = assembly.discovery.as_deref().unwrap_or("Kubernetes");
    writeln!(out, "endpoints from {discovery}")?;
    writeln!(out, "parsers {}", list(assembly.parser_names.iter()))?;
    let gates = assembly.gates.all().map(|(gate, on)| format!("{gate}={on}"));
    writeln!(out, "feature gates {}", list(gates.iter()))?;
    if assembly.lockstep != LockstepConfig::default() {
        writeln!(out, "departs from the llm-d Router: {:?}", assembly.lockstep.compat)?;
    }
    for notice in &assembly.notices {
        writeln!(out, "note: {notice}")?;
    }
    Ok(())
}

fn name<T: ?Sized>(hook: &Hook<T>) -> String {
    hook.id.name.to_string()
}

fn list<T: fmt::Display>(items: impl Iterator<Item = T>) -> String {
    let text = items.map(|i| i.to_string()).collect::<Vec<_>>().join(", ");
    if text.is_empty() { "-".to_owned() } else { text }
}

/// Describes every plugin type, one a line, for people.
pub fn plugin_types(registry: &Registry) -> String {
    let width = registry.iter().map(|r| r.info.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for Registered { info, support } in registry.iter() {
        let mut line = format!("{:width$}  {:5}  {support}", info.name, info.stability.to_string());
        if let Some(deprecated) = info.deprecation {
            line.push_str(&format!(
                "; deprecated since {}, removed in {}: use {}",
                deprecated.since, deprecated.removal, deprecated.replacement
            ));
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// Describes every plugin type, for programs: a list of objects in order of names.
///
/// `parameters` is the JSON Schema of what a supported type accepts, null where it takes none. Factories run once,
/// without effect; `handle` is one that nothing else uses.
pub fn plugin_types_json(registry: &Registry, handle: &Handle) -> Value {
    let describe = |Registered { info, support }: &Registered| {
        let deprecated = info
            .deprecation
            .map(|d| json!({"since": d.since, "removal": d.removal, "replacement": d.replacement}));
        json!({
            "type": info.name,
            "area": format!("{:?}", info.area),
            "stability": info.stability.to_string(),
            "deprecated": deprecated,
            "supported": matches!(support, Support::Supported(_)),
            "reason": match support {
                Support::Supported(_) => None,
                Support::NotBuilt => Some(support.to_string()),
            },
            "parameters": match support {
                Support::Supported(factory) => parameters(*factory, handle).map(|shape| shape.json_schema()),
                Support::NotBuilt => None,
            },
            "default_producer_of": info.default_producer_of,
        })
    };
    registry.iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use executor::Real;

    use super::*;
    use crate::config::loader::{Options, load};

    fn summary_of(text: &str) -> String {
        let runtime = Real::builder().current_thread().seed(7).build().expect("the runtime starts");
        let handle = Handle::new(runtime.rt());
        let loaded = load("epp.yaml", text, &Registry::default(), &handle, &Options::default());
        summary(&loaded.unwrap_or_else(|problems| panic!("{problems}")))
    }

    #[test]
    fn the_built_in_configuration_is_that_of_the_llm_d_router() {
        let summary = summary_of("");
        for line in [
            "    scorers  queue-scorer x 2, kv-cache-utilization-scorer x 2, prefix-cache-scorer x 3",
            "    picker   max-score-picker",
            "data producers, in order\n  token-producer, approx-prefix-cache-producer",
            "sources, every 50 ms\n  metrics-data-source (every 1 ticks): core-metrics-extractor",
            "parsers openai-parser, anthropic-parser, vllmhttp-parser",
            "feature gates flowControl=false, haPopulateNonLeaderDatastore=true",
            "profiles, run by single-profile-handler",
        ] {
            assert!(summary.contains(&format!("{line}\n")), "{line:?} is not in\n{summary}");
        }
    }

    /// The explicit form of the built-in configuration differs from it only in who names the metrics source.
    #[test]
    fn the_explicit_default_schedules_as_the_built_in_one() {
        let explicit = "plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: prefix-cache-scorer}]\n\
                        schedulingProfiles:\n- name: default\n  plugins:\n  - {pluginRef: queue-scorer, weight: 2}\n  \
                        - {pluginRef: kv-cache-utilization-scorer, weight: 2}\n  - {pluginRef: prefix-cache-scorer, weight: 3}\n";
        let behind_plugins =
            |text: &str| text.split_once("profiles,").expect("a summary has profiles").1.to_owned();
        assert_eq!(behind_plugins(&summary_of(explicit)), behind_plugins(&summary_of("")));
    }

    #[test]
    fn types_are_listed_with_their_support_and_replacement() {
        let registry = Registry::default();
        let text = plugin_types(&registry);
        assert_eq!(text.lines().count(), registry.iter().count());
        let line = text.lines().find(|l| l.starts_with("by-label ")).expect("by-label is listed");
        assert!(
            line.ends_with("deprecated since 0.9.0, removed in 0.11.0: use label-selector-filter"),
            "{line}"
        );
        let runtime = Real::builder().current_thread().seed(7).build().expect("the runtime starts");
        let listed = plugin_types_json(&registry, &Handle::new(runtime.rt()));
        let entry =
            listed.as_array().and_then(|l| l.iter().find(|e| e["type"] == "token-producer")).expect("listed");
        assert_eq!(
            (&entry["stability"], &entry["supported"], &entry["reason"]),
            (&json!("Beta"), &json!(true), &Value::Null)
        );
    }
}
