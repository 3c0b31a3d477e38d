//! One registered type: its entry in the support list, and instances of it.

use router::plugin::{Handle, Instance, Parameters, Roles};
use router::support::{EndpointEvents, Registry, Support};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use crate::outcome::Outcome;

/// Runs one case.
pub(super) fn run(given: &Value, then: &Value) -> Outcome {
    let (name, plugin_type) = (text(given, "name"), text(given, "type"));
    let registry = Registry::default();
    let Some(registered) = registry.get(plugin_type) else {
        return Outcome::Failed(format!("{plugin_type} is not in the support list"));
    };
    let Support::Supported(factory) = registered.support else {
        return Outcome::NotBuilt(format!("plugin type {plugin_type}"));
    };
    let build = |parameters: &Parameters| factory(name, parameters, &Handle::new(super::rt()));
    let mut forms = Map::new();
    for form in then["parameter_forms"].as_object().into_iter().flatten().map(|(form, _)| form) {
        let parameters = match form.as_str() {
            "<absent>" => Parameters::absent(),
            json => Parameters::new(serde_json::from_str(json).expect("a form is JSON")),
        };
        forms.insert(form.clone(), json!(if build(&parameters).is_ok() { "ok" } else { "error" }));
    }
    let info = registered.info;
    let mut answer = json!({
        "parameter_forms": forms,
        "stability": info.stability.to_string(),
        "deprecated": info.deprecation.is_some(),
        "has_plugin_references": !info.references.is_empty(),
        "default_producer_of": info.default_producer_of.into_iter().collect::<Vec<_>>(),
    });
    if let Some(deprecation) = info.deprecation {
        answer["replacement"] = json!(deprecation.replacement);
    }
    if then.get("roles").is_some() {
        match build(&Parameters::absent()) {
            Ok(instance) => describe(&instance, info.endpoint_events, &mut answer),
            Err(error) => return Outcome::Failed(format!("refused without parameters: {error}")),
        }
    }
    let mut then = then.clone();
    // The real router crashes there; the right answer is an error.
    for form in then["parameter_forms"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        if *form == "panic" {
            *form = json!("error");
        }
    }
    let sets = ["roles", "produces", "requires", "optional", "default_producer_of"];
    sets.into_iter().fold(Rules::exact(), Rules::set).outcome(&then, &answer)
}

fn describe(instance: &Instance, events: EndpointEvents, answer: &mut Value) {
    let keys = |list: &[router::plugin::TypedKey]| list.iter().map(|k| k.key.to_string()).collect::<Vec<_>>();
    answer["reported_type"] = json!(*instance.id.plugin_type);
    answer["reported_name"] = json!(*instance.id.name);
    answer["roles"] = json!(roles(&instance.roles, events));
    answer["produces"] = json!(keys(&instance.data.produces));
    answer["requires"] = json!(keys(&instance.data.requires));
    answer["optional"] = json!(keys(&instance.data.optional));
}

/// Names the roles as the vectors do; deciders and extractors have no name there.
fn roles(roles: &Roles, events: EndpointEvents) -> Vec<&'static str> {
    let listable = matches!(events, EndpointEvents::Listed | EndpointEvents::Subscribed);
    let subscribes = matches!(events, EndpointEvents::Subscribed | EndpointEvents::SubscribedWithPods);
    let table = [
        (roles.filter.is_some(), "filter"),
        (roles.scorer.is_some(), "scorer"),
        (roles.picker.is_some(), "picker"),
        (roles.profile_handler.is_some(), "profile-handler"),
        (roles.request_header.is_some(), "request-header-processor"),
        (roles.screener.is_some(), "screener"),
        (roles.producer.is_some(), "data-producer"),
        (roles.admitter.is_some(), "admitter"),
        (roles.pre_request.is_some(), "pre-request"),
        (roles.response_header.is_some(), "response-header-processor"),
        (roles.response_body.is_some(), "response-body-processor"),
        (roles.polling_source.is_some(), "polling-source"),
        (roles.endpoint_source, "endpoint-source"),
        (roles.endpoint_listener.is_some() && listable, "endpoint-extractor"),
        (subscribes, "registrant"),
        (roles.parser.is_some(), "parser"),
        (roles.state_dumper.is_some(), "state-dumper"),
        (roles.ordering_policy.is_some(), "ordering-policy"),
        (roles.fairness_policy.is_some(), "fairness-policy"),
        (roles.usage_limit_policy.is_some(), "usage-limit-policy"),
        (roles.saturation_detector.is_some(), "saturation-detector"),
    ];
    table.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}

fn text<'a>(given: &'a Value, key: &str) -> &'a str {
    given[key].as_str().expect("a case has a type and a name")
}
