//! `config.jsonl`: from a configuration to what flow control does.

use executor::Real;
use router::config::assembly::Assembly;
use router::config::fault::Fault;
use router::config::loader::{Options, load};
use router::config::notice::Notice;
use router::flow_control::{BandSettings, Settings};
use router::plugin::{Handle, TypedName};
use router::support::Registry;
use serde_json::{Value, json};
use tests::compare::Rules;

use crate::config::{controller, registry};
use crate::outcome::Outcome;

pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let rt = Real::builder().current_thread().seed(1).build().expect("a runtime starts").rt();
    let options = Options { allow_experimental: true, ..Options::default() };
    let text = given["config"].to_string();
    let answer = match load("case.yaml", &text, &Registry::default(), &Handle::new(rt), &options) {
        Ok(assembly) => accepted(&assembly),
        Err(problems) => json!({"error": {"kind": kind(problems.list()[0].kind)}}),
    };
    // We have no channel whose size could be told, and nobody asks for a template's priority.
    let mut then = super::without_empty(then);
    let mut answer = super::without_empty(&answer);
    for value in [&mut then, &mut answer] {
        for template in ["default_band", "default_negative_band"] {
            if let Some(Value::Object(band)) =
                value.pointer_mut(&format!("/flow_control/registry/{template}"))
            {
                band.remove("priority");
            }
        }
        if let Some(Value::Object(policy)) = value.pointer_mut("/flow_control/usage_limit_policy") {
            policy.remove("type");
        }
    }
    Rules::exact()
        .set("default_named_plugins_present")
        .ignore("enqueue_channel_buffer_size")
        .outcome(&then, &answer)
}

fn kind(fault: Fault) -> &'static str {
    match fault {
        Fault::Text(_) => "undecodable-config",
        Fault::UndefinedPolicy => "plugin-not-found",
        Fault::WrongPolicyRole | Fault::WrongSaturationDetectorRole => "wrong-plugin-kind",
        Fault::BadParameters => "plugin-creation-failed",
        other => other.name(),
    }
}

fn accepted(assembly: &Assembly) -> Value {
    const DEFAULTS: [&str; 4] = [
        "fcfs-ordering-policy",
        "global-strict-fairness-policy",
        "static-usage-limit-policy",
        "utilization-detector",
    ];
    // Recorded only where flow control is on.
    let on = assembly.flow_control.is_some();
    let present = DEFAULTS.iter().filter(|name| on && assembly.plugin(name).is_some());
    json!({
        "saturation_detector": named(&assembly.detector.id),
        "ignored_settings_warning": assembly.notices.contains(&Notice::FlowControlSectionIgnored),
        "top_level_detector_deprecation": assembly.notices.contains(&Notice::DeprecatedSaturationDetector),
        "default_named_plugins_present": present.collect::<Vec<_>>(),
        "flow_control": assembly.flow_control.as_ref().map(flow_control),
    })
}

fn flow_control(settings: &Settings) -> Value {
    let mut described = registry(&settings.registry);
    described["bands"] = settings.registry.bands.iter().map(band).collect();
    described["default_band"] = band(&settings.registry.default_band);
    described["default_negative_band"] = json!(settings.registry.default_negative_band.as_ref().map(band));
    let mut controller = controller(&settings.controller);
    controller["default_request_ttl_ns"] = json!(settings.controller.default_request_ttl.as_nanos() as u64);
    json!({
        "controller": controller,
        "registry": described,
        "usage_limit_policy": named(&settings.usage_limits.id),
    })
}

fn band(band: &BandSettings) -> Value {
    json!({
        "priority": band.priority,
        "max_bytes": band.max_bytes,
        "max_requests": band.max_requests,
        "fairness_policy": named(&band.fairness.id),
        "ordering_policy": named(&band.ordering.id),
    })
}

fn named(id: &TypedName) -> Value {
    json!({"name": *id.name, "type": *id.plugin_type})
}
