//! `producers.jsonl`, the plugins that look at headers or usage alone.

use router::candidates::Candidates;
use router::data_key::{DataKey, well_known};
use router::headers::Headers;
use router::plugin::Handle;
use router::producers::session_id_producer::{self, SessionIdParameters};
use router::request::InferenceRequest;
use router::request_control::agent_identity::{self, AgentIdentityParameters};
use router::request_control::request_attribute_reporter::{self, RequestAttributeReporterParameters};
use router::request_control::{
    Metadata, Produced, ResponseRecord, Usage, destination_endpoint_served_verifier as served_verifier,
};
use serde_json::{Map, Value, json};
use tests::compare::Rules;

use super::{parameters, parsers, refused, rt};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let given = &case["given"];
    let answer = match given["type"].as_str().unwrap_or_default() {
        session_id_producer::TYPE => session_id(given),
        agent_identity::TYPE => agent(given),
        served_verifier::TYPE => served(given),
        request_attribute_reporter::TYPE => reported(given),
        other => return Outcome::Failed(format!("no adapter for {other}")),
    };
    Rules::exact().outcome(&case["then"], &answer)
}

fn request(given: &Value) -> InferenceRequest {
    let headers = parsers::headers(&given["request"]["headers"]);
    InferenceRequest { headers, ..InferenceRequest::default() }
}

fn attributes(request: &InferenceRequest) -> Map<String, Value> {
    let value = |key: &str| Some((key.to_owned(), request.attributes.get::<String>(key)?.as_str().into()));
    request.attributes.keys().filter_map(value).collect()
}

fn session_id(given: &Value) -> Value {
    let parameters = parameters(&given["parameters"]);
    let name = given["plugin_name"].as_str().unwrap_or_default();
    let Ok(instance) = session_id_producer::factory(name, &parameters, &Handle::new(rt())) else {
        return refused::<SessionIdParameters>(&parameters);
    };
    let (mut request, mut candidates) = (request(given), Candidates::default());
    let producer = instance.roles.producer.expect("a producer");
    assert!(matches!(producer.produce(&mut request, &mut candidates), Produced::Ready(Ok(()))));
    let (data_type, producer) = well_known::SESSION_ID;
    let key = DataKey::new(data_type, producer).to_string();
    json!({
        "attributes": attributes(&request),
        "default_reader_sees": request.attributes.get::<String>(&key),
    })
}

fn agent(given: &Value) -> Value {
    let parameters = parameters(&given["parameters"]);
    let name = given["plugin_name"].as_str().unwrap_or_default();
    let Ok(instance) = agent_identity::factory(name, &parameters, &Handle::new(rt())) else {
        return refused::<AgentIdentityParameters>(&parameters);
    };
    let mut request = request(given);
    let processed = instance.roles.request_header.expect("it sees headers").process(&mut request);
    processed.expect("it never fails");
    json!({"attributes": attributes(&request), "fairness_id": request.fairness_id})
}

fn served(given: &Value) -> Value {
    let parameters = parameters(&given["parameters"]);
    let instance =
        served_verifier::factory("verifier", &parameters, &Handle::new(rt())).expect("it is built");
    let metadata = metadata(&given["response_metadata"]);
    let mut response = ResponseRecord { metadata, ..ResponseRecord::default() };
    let verifier = instance.roles.response_header.expect("it sees responses");
    verifier.response_header(None, &mut response, None);
    let headers: &Headers = &response.headers;
    let headers: Map<String, Value> =
        headers.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    json!({"response_headers": headers})
}

fn reported(given: &Value) -> Value {
    let parameters = parameters(&given["parameters"]);
    let Ok(instance) = request_attribute_reporter::factory("reporter", &parameters, &Handle::new(rt()))
    else {
        return refused::<RequestAttributeReporterParameters>(&parameters);
    };
    let count = |name: &str| given["usage"][name].as_i64();
    let usage = Usage {
        prompt_tokens: count("prompt_tokens").unwrap_or(0),
        completion_tokens: count("completion_tokens").unwrap_or(0),
        total_tokens: count("total_tokens").unwrap_or(0),
        cached_tokens: count("cached_tokens"),
    };
    let dynamic_metadata = metadata(&given["existing_dynamic_metadata"]);
    let mut response =
        ResponseRecord { usage, dynamic_metadata, end_of_stream: true, ..ResponseRecord::default() };
    let reporter = instance.roles.response_body.expect("it sees bodies");
    reporter.response_body(None, &mut response, None);
    let dynamic_metadata = Some(response.dynamic_metadata).filter(|metadata| !metadata.is_empty());
    json!({"dynamic_metadata": dynamic_metadata})
}

fn metadata(given: &Value) -> Metadata {
    let fields =
        |(namespace, fields): (&String, &Value)| Some((namespace.clone(), fields.as_object()?.clone()));
    given.as_object().into_iter().flatten().filter_map(fields).collect()
}
