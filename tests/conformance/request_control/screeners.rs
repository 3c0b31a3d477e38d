//! `screeners.jsonl`: which revision a request stays on, and what the client is told of it.

use std::rc::Rc;

use executor::Stream;
use router::candidates::Candidates;
use router::data_layer::datastore::{Datastore, Plan};
use router::data_layer::{PodEvent, PodListener};
use router::endpoint::{Endpoint, EndpointId, EndpointMetadata};
use router::headers::Headers;
use router::metrics::Registry as Metrics;
use router::plugin::Handle;
use router::request_control::disaggregatedset_rollout_screener::{
    self as rollout, RolloutScreener, RolloutScreenerParameters,
};
use router::request_control::{ResponseHeaderProcessor, ResponseRecord};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::{parameters, parsers, refused, rt};
use crate::outcome::Outcome;

/// What two sums of shares in different orders may differ by.
const TOLERANCE: f64 = 1e-9;

pub(super) fn run(case: &Value) -> Outcome {
    let (given, then) = (&case["given"], &case["then"]);
    let parameters = parameters(&given["parameters"]);
    let built = (
        rollout::factory("screener", &parameters, &Handle::new(rt())),
        RolloutScreener::new(&parameters, Stream::new(1, "screener")),
    );
    let (Ok(instance), Ok(screener)) = built else {
        // The recorded router reads a block that is no JSON only in its factory.
        let answer = match given["parameters"].get("invalid_json") {
            Some(_) => json!({"error": {"kind": "bad-parameter"}}),
            None => refused::<RolloutScreenerParameters>(&parameters),
        };
        return Rules::exact().outcome(then, &answer);
    };
    let (steps, answers) = (&given["steps"], &then["steps"]);
    let steps = steps.as_array().into_iter().flatten().zip(answers.as_array().into_iter().flatten());
    let mut got = Vec::new();
    for (step, answer) in steps {
        got.push(match step["op"].as_str().unwrap_or_default() {
            "screen" if step.get("headers").is_none() => {
                return Outcome::NotBuilt("screening without a request".to_owned());
            }
            "screen" => screen(&screener, step, answer),
            "response_header" => response_header(&screener, step),
            _ => pod(&screener, step),
        });
    }
    let answer = json!({"steps": got, "watches_pods": instance.roles.pod_listener.is_some()});
    Rules::within(TOLERANCE).outcome(then, &answer)
}

fn labels(value: &Value) -> std::collections::BTreeMap<String, String> {
    let labels = value["labels"].as_object().into_iter().flatten();
    labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

fn id(text: &str) -> EndpointId {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    EndpointId::new(namespace, name)
}

fn metadata(id: EndpointId, labelled: &Value) -> Rc<EndpointMetadata> {
    Rc::new(EndpointMetadata { id, labels: labels(labelled), ..EndpointMetadata::default() })
}

fn pod(screener: &RolloutScreener, step: &Value) -> Value {
    let EndpointId { namespace, name } = id(step["pod"].as_str().unwrap_or_default());
    let event = PodEvent {
        namespace,
        name,
        deleted: step["op"] == "pod_delete",
        ready: step["ready"] == true && step["deleting"] != true,
        labels: labels(step),
        ..PodEvent::default()
    };
    let store = Datastore::new(&rt(), Plan::default(), &Metrics::default());
    screener.on_pod(&event, store.endpoints());
    json!({"shares": screener.shares()})
}

fn screen(screener: &RolloutScreener, step: &Value, answer: &Value) -> Value {
    let candidates = step["candidates"].as_array().into_iter().flatten();
    let endpoint = |given: &Value| {
        let metadata = metadata(id(given["endpoint"].as_str().unwrap_or_default()), given);
        Rc::new(Endpoint { metadata, ..Endpoint::default() })
    };
    let candidates = Candidates::new(Rc::new(candidates.map(endpoint).collect()));
    let headers: Headers = parsers::headers(&step["headers"]);
    let kept = |u: f64| -> Vec<String> {
        let kept = screener.screen_with(&headers, &candidates, || u);
        kept.iter().map(|candidate| candidates.endpoint(*candidate).metadata.id.to_string()).collect()
    };
    let Some(choices) = answer["choices"].as_array() else { return json!({"endpoints": kept(0.5)}) };
    // Each recorded draw picks its revision, and with it that revision's endpoints.
    let of = |revision: &Value| choices.iter().find(|choice| choice["revision"] == *revision);
    let shares = screener.shares();
    let share =
        |revision: &Value| revision.as_str().and_then(|name| shares.get(name)).copied().unwrap_or(0.0);
    let all: f64 = choices.iter().map(|choice| share(&choice["revision"])).sum();
    let draws = answer["revision_at_u"].as_array().into_iter().flatten().map(|draw| {
        let kept = json!(kept(draw["u"].as_f64().unwrap_or_default()));
        let wanted = of(&draw["revision"]).is_some_and(|choice| choice["endpoints"] == kept);
        let picked =
            choices.iter().find(|choice| choice["endpoints"] == kept).map(|choice| &choice["revision"]);
        json!({"u": draw["u"], "revision": if wanted { Some(&draw["revision"]) } else { picked }})
    });
    let mut seen: Vec<Value> = choices.clone();
    for choice in &mut seen {
        choice["probability"] = json!(share(&choice["revision"]) / all);
    }
    json!({"choices": seen, "revision_at_u": draws.collect::<Vec<_>>()})
}

fn response_header(screener: &RolloutScreener, step: &Value) -> Value {
    let headers = parsers::headers(&step["response_headers"]);
    let mut response = ResponseRecord { headers, ..ResponseRecord::default() };
    screener.response_header(None, &mut response, Some(&metadata(EndpointId::default(), step)));
    let headers: Map<String, Value> =
        response.headers.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    json!({"response_headers": headers})
}
