//! An assembly in the words of the vectors.

use std::rc::Rc;

use router::config::assembly::{Assembly, Origin, PollingPlan, experimental};
use router::config::notice::Notice;
use router::endpoint::EndpointMetadata;
use router::flow_control::{BandSettings, ControllerSettings, RegistrySettings, Settings};
use router::plugin::Hook;
use router::support::Registry;
use serde_json::{Value, json};

/// Describes an assembly; of the recorded order of producers it repeats the pairs that hold.
pub(super) fn of(assembly: &Assembly, registry: &Registry, then: &Value) -> Value {
    let mut notices: Vec<String> = assembly.notices.iter().filter_map(notice).collect();
    // The real router has one notice for all parsers that are never asked; ours names each.
    notices.dedup();
    let mut answer = json!({
        "plugins": plugins(assembly),
        "auto_producers": sorted(named(assembly, Origin::Required)),
        "profiles": profiles(assembly),
        "profile_handler": reference(assembly, &assembly.profile_handler),
        "saturation_detector": reference(assembly, &assembly.saturation_detector),
        "parsers": parsers(assembly),
        "feature_gates": Value::Object(assembly.gates.all().into_iter().map(|(n, on)| (n.to_owned(), on.into())).collect()),
        "flow_control": assembly.flow_control.as_ref().map(flow_control),
        "data_layer": data_layer(assembly),
        "request_control": request_control(assembly),
        "producer_order": producer_order(assembly, &then["producer_order"]),
        "first_alpha_plugin": experimental(&assembly.plugins, registry).first().map(|p| p.name.to_string()),
        "notices": notices,
    });
    if let Some(discovery) = &assembly.discovery {
        answer["discovery"] = json!(**discovery);
    }
    answer
}

fn named(assembly: &Assembly, origin: Origin) -> Vec<String> {
    assembly.plugins.iter().filter(|p| p.origin == origin).map(|p| p.name.to_string()).collect()
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names
}

fn plugins(assembly: &Assembly) -> Vec<Value> {
    let own = assembly.plugins.iter().filter(|p| p.origin != Origin::Required);
    own.map(|plugin| {
        let mut value = json!({"name": *plugin.name, "type": *plugin.plugin_type});
        let reported = plugin.reported_type();
        if reported != &*plugin.plugin_type {
            value["reported_type"] = json!(reported);
        }
        if plugin.instance.id.name != plugin.name {
            value["reported_name"] = json!(*plugin.instance.id.name);
        }
        value
    })
    .collect()
}

fn profiles(assembly: &Assembly) -> Vec<Value> {
    let describe = |profile: &router::config::assembly::ProfilePlan| {
        let scorers =
            profile.scorers.iter().map(|(name, weight)| json!({"name": **name, "weight": number(*weight)}));
        json!({
            "name": *profile.name,
            "filters": profile.filters.iter().map(|f| f.to_string()).collect::<Vec<_>>(),
            "scorers": scorers.collect::<Vec<_>>(),
            "picker": *profile.picker,
        })
    };
    assembly.profiles.iter().map(describe).collect()
}

/// Writes a whole weight as the vectors do, without a fraction.
fn number(weight: f64) -> Value {
    if weight.fract() == 0.0 && weight.abs() < 1e15 { json!(weight as i64) } else { json!(weight) }
}

fn reference(assembly: &Assembly, name: &str) -> Value {
    json!({"name": name, "type": assembly.plugin(name).map(|p| p.plugin_type.to_string())})
}

fn parsers(assembly: &Assembly) -> Value {
    let chain: Vec<String> = assembly.parser_names.iter().map(|n| n.to_string()).collect();
    let last_takes_all = assembly.parsers.parsers().last().is_some_and(|p| p.claims().is_empty());
    json!({"fallback": chain.last().filter(|_| last_takes_all), "chain": chain})
}

fn data_layer(assembly: &Assembly) -> Value {
    let plan = &assembly.data_layer;
    let mut sources: Vec<(String, Value)> = plan.polling.iter().map(polling_source).collect();
    // A plugin that hears of endpoints and of pods is two extractors there.
    let all_pod_listeners = plan.notification_sources.iter().flat_map(|s| &s.listeners);
    let hears_pods = |name: &str| all_pod_listeners.clone().any(|p| *p.id.name == *name);
    let endpoint_half =
        |name: &str| if hears_pods(name) { format!("{name}/endpoint") } else { name.to_owned() };
    for source in &plan.endpoint_sources {
        let listeners: Vec<String> = source.listeners.iter().map(|l| endpoint_half(&l.id.name)).collect();
        let value = json!({
            "name": *source.id.name, "type": *source.id.plugin_type, "variant": "endpoint", "extractors": listeners,
        });
        sources.push((source.id.name.to_string(), value));
    }
    for source in &plan.notification_sources {
        let halves: Vec<String> = source.listeners.iter().map(|l| format!("{}/pod", l.id.name)).collect();
        let value = json!({
            "name": *source.id.name, "type": *source.id.plugin_type, "variant": "notification",
            "gvk": source.watched.to_string(), "extractors": halves,
        });
        sources.push((source.id.name.to_string(), value));
    }
    sources.sort_by(|a, b| a.0.cmp(&b.0));
    json!({
        "base_tick_ms": plan.base_tick.as_millis() as u64,
        "sources": sources.into_iter().map(|(_, value)| value).collect::<Vec<_>>(),
    })
}

/// Describes a source; the parts of its URL show in the URL of an endpoint whose parts all differ.
fn polling_source(plan: &PollingPlan) -> (String, Value) {
    let endpoint = EndpointMetadata {
        address: "192.0.2.1".into(),
        node_address: "192.0.2.2".into(),
        port: "8001".into(),
        metrics_host: "192.0.2.3:8003".into(),
        ..EndpointMetadata::default()
    };
    let source = &plan.source.plugin;
    let url = source.url(&endpoint);
    let (scheme, rest) = url.split_once("://").unwrap_or(("", &url));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let port: u64 = port.parse().unwrap_or(0);
    let extractors: Vec<String> = plan.extractors.iter().map(|e| e.id.name.to_string()).collect();
    let name = plan.source.id.name.to_string();
    let value = json!({
        "name": name,
        "type": *plan.source.id.plugin_type,
        "variant": "polling",
        "interval_ms": source.interval().as_millis() as u64,
        "period_ticks": plan.period_ticks,
        "scheme": scheme,
        "path": path,
        "port_override": if port == 8003 { 0 } else { port },
        "use_node_address": host == "192.0.2.2",
        "extractors": extractors,
    });
    (name, value)
}

fn request_control(assembly: &Assembly) -> Value {
    fn names<T: ?Sized>(hooks: &[Hook<T>]) -> Vec<String> {
        sorted(hooks.iter().map(|h| h.id.name.to_string()).collect())
    }
    let hooks = &assembly.hooks;
    json!({
        "request_header_processors": names(&hooks.request_header),
        "screeners": names(&hooks.screeners),
        "data_producers": names(&hooks.producers),
        "admitters": names(&hooks.admitters),
        "pre_request": names(&hooks.pre_request),
        "response_header_processors": names(&hooks.response_header),
        "response_body_processors": names(&hooks.response_body),
    })
}

/// Returns those of the recorded pairs whose order is ours too.
fn producer_order(assembly: &Assembly, pairs: &Value) -> Vec<Value> {
    let place = |name: &Value| {
        let name: Rc<str> = name.as_str().unwrap_or_default().into();
        assembly.hooks.producers.iter().position(|p| p.id.name == name)
    };
    let holds = |pair: &&Value| matches!((place(&pair[0]), place(&pair[1])), (Some(a), Some(b)) if a < b);
    pairs.as_array().into_iter().flatten().filter(holds).cloned().collect()
}

fn flow_control(settings: &Settings) -> Value {
    let registry = &settings.registry;
    let band = |band: &BandSettings| {
        json!({
            "priority": band.priority,
            "max_bytes": band.max_bytes,
            "max_requests": band.max_requests,
            "fairness_policy": *band.fairness.id.name,
            "ordering_policy": *band.ordering.id.name,
        })
    };
    let mut controller = controller(&settings.controller);
    controller["default_request_ttl_ms"] = json!(settings.controller.default_request_ttl.as_millis() as u64);
    json!({
        "bands": registry.bands.iter().map(band).collect::<Vec<_>>(),
        "controller": controller,
        "default_band": band(&registry.default_band),
        "default_negative_band": registry.default_negative_band.as_ref().map(band),
        "registry": self::registry(registry),
        "usage_limit_policy": *settings.usage_limits.id.name,
    })
}

/// Describes the controller. It has no channel whose size could be told.
pub(crate) fn controller(settings: &ControllerSettings) -> Value {
    json!({
        "enable_eviction": settings.enable_eviction,
        "eviction_confirmation_grace_ms": settings.eviction_confirmation_grace.as_millis() as u64,
        "eviction_confirmation_timeout_ms": settings.eviction_confirmation_timeout.as_millis() as u64,
        "expiry_cleanup_interval_ms": settings.expiry_cleanup_interval.as_millis() as u64,
        "max_revocations_per_decision": settings.max_revocations_per_decision,
    })
}

/// Describes what holds for all bands.
pub(crate) fn registry(settings: &RegistrySettings) -> Value {
    json!({
        "max_bytes": settings.max_bytes,
        "max_requests": settings.max_requests,
        "flow_gc_timeout_ms": settings.flow_gc_timeout.as_millis() as u64,
        "priority_band_gc_timeout_ms": settings.priority_band_gc_timeout.as_millis() as u64,
    })
}

/// Returns a notice in the vectors' words; those that only this router gives have none.
fn notice(notice: &Notice) -> Option<String> {
    Some(match notice {
        Notice::DeprecatedApiVersion => "deprecated-api-version".into(),
        Notice::DeprecatedSaturationDetector => "deprecated-top-level-saturation-detector".into(),
        Notice::DeprecatedParser => "deprecated-top-level-parser".into(),
        Notice::DeprecatedPlugin { name, .. } => format!("deprecated-plugin:{name}"),
        Notice::FlowControlSectionIgnored => "flow-control-section-ignored".into(),
        Notice::NoDataSources => "no-data-sources".into(),
        Notice::DuplicateParserType(_) => "duplicate-parser-type-skipped".into(),
        Notice::ParserAfterFallback(_) => "parser-after-fallback-skipped".into(),
        Notice::OptionalKeyUnproduced { plugin, key } => format!("optional-key-unproduced:{plugin}:{key}"),
        Notice::NoKubernetes(_) | Notice::NoKvEvents(_) => return None,
    })
}
