//! Scrapes over a socket, through source, dispatcher and extractors.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use executor::http::Body;
use executor::{Rt, Server};
use http::{Request, Response};
use router::attributes::{Models, ScalarMetricValue};
use router::data_layer::EndpointNotifier;
use router::data_layer::datastore::{Datastore, Plan};
use router::data_layer::dispatcher::{BoundSource, Dispatcher};
use router::data_layer::metric_spec::{MetricSpec, MetricSpecError};
use router::endpoint::{Endpoint, EndpointId, EndpointMetadata, Metrics};
use router::metrics::Registry;
use router::plugin::Handle;
use serde_json::{Map, Value, json};
use tests::compare::{Rules, float};

use super::{Fault, instance, real, text};
use crate::outcome::Outcome;

pub(super) fn run(case: &Value) -> Outcome {
    let (given, then) = (&case["given"], &case["then"]);
    let answer = if let Some(spec) = given.get("metric_spec") {
        Ok(metric_spec(spec.as_str().unwrap_or("")))
    } else if given.get("steps").is_some() {
        scrapes(given, then)
    } else if given.get("type").is_some() {
        scrape_url(given)
    } else {
        accepted(given)
    };
    match answer {
        Ok(answer) => Rules::exact().outcome(&without_absent(then, &answer), &answer),
        Err(fault) => fault.into(),
    }
}

fn metric_spec(spec: &str) -> Value {
    match MetricSpec::parse(spec) {
        Ok(None) => json!({ "disabled": true }),
        Ok(Some(spec)) => json!({ "name": spec.name, "labels": spec.labels }),
        Err(MetricSpecError::Spec(_)) => json!({ "error": { "kind": "bad-spec" } }),
        Err(MetricSpecError::LabelPair(_)) => json!({ "error": { "kind": "bad-label-pair" } }),
    }
}

fn accepted(given: &Value) -> Result<Value, Fault> {
    let handle = Handle::new(real().rt());
    let built = instance("core-metrics-extractor", "e", given.get("parameters"), &handle)?;
    Ok(json!({ "accepted": built.is_ok() }))
}

fn scrape_url(given: &Value) -> Result<Value, Fault> {
    let handle = Handle::new(real().rt());
    let Ok(built) = instance(text(given, "type"), "s", given.get("parameters"), &handle)? else {
        return Ok(json!({ "error": { "kind": "bad-parameters" } }));
    };
    let source = built.roles.polling_source.ok_or_else(|| Fault::Failed("not a source".into()))?;
    let endpoint = EndpointMetadata {
        address: text(given, "address").into(),
        node_address: text(given, "node_address").into(),
        port: text(given, "port").into(),
        metrics_host: text(given, "metrics_host").into(),
        ..EndpointMetadata::default()
    };
    let interval = u64::try_from(source.interval().as_millis()).unwrap_or(u64::MAX);
    Ok(json!({ "url": source.url(&endpoint), "interval_ms": interval }))
}

/// What the server does next.
type Current = Arc<Mutex<Value>>;

fn scrapes(given: &Value, then: &Value) -> Result<Value, Fault> {
    real().run(async |rt| {
        let handle = Handle::new(rt.clone());
        let mut bound = match bind(given, &handle)? {
            Ok(bound) => Dispatcher::new(bound),
            Err(_) if then.get("error").is_some() => {
                return Ok(json!({ "error": { "kind": "bad-extractor-parameters" } }));
            }
            Err(error) => return Err(Fault::Failed(error)),
        };
        let current = Current::default();
        let address = serve(&rt, Arc::clone(&current)).await;
        // Bound once and dropped: nobody listens there.
        let refused =
            Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), 1).await.expect("a port").local_addr();
        let store = Datastore::new(&rt, Plan::default(), &Registry::default());
        let id = EndpointId::new("ns", "ep");
        let labels: BTreeMap<String, String> = serde_json::from_value(given["labels"].clone())
            .map_err(|error| Fault::Failed(format!("labels: {error}")))?;
        let mut steps = Vec::new();
        for step in given["steps"].as_array().into_iter().flatten() {
            let host = if step["connection_refused"] == true { refused } else { address };
            store.upsert(EndpointMetadata {
                id: id.clone(),
                name: text(given, "endpoint_name").into(),
                address: host.ip().to_string(),
                metrics_host: host.to_string(),
                labels: labels.clone(),
                ..EndpointMetadata::default()
            });
            let before = store.endpoints().get(&id).expect("it was added").metrics.update_time;
            *current.lock().expect("no panic while it is held") = step.clone();
            let said = bound.dispatch(&rt, store.endpoints(), &id).await;
            let endpoint = store.endpoints().get(&id).expect("nobody deletes it");
            let extractors: Vec<Value> = match &said {
                Ok(said) => said
                    .iter()
                    .map(|said| said.as_ref().err().map_or(0, |error| error.problems.len()))
                    .map(|errors| json!({ "ran": true, "failed": errors > 0, "errors": errors }))
                    .collect(),
                Err(_) => {
                    let extractors = given["extractors"].as_array().into_iter().flatten();
                    extractors.map(|_| json!({ "ran": false, "failed": false, "errors": 0 })).collect()
                }
            };
            steps.push(json!({
                "poll_failed": said.is_err(),
                "extractors": extractors,
                "metrics_updated": endpoint.metrics.update_time != before,
                "metrics": metrics(&endpoint.metrics),
                "attributes": attributes(&endpoint),
            }));
        }
        Ok(json!({ "steps": steps }))
    })
}

/// Builds the source with its extractors. The source polls the endpoint's metrics host, whatever port its type
/// has by default.
fn bind(given: &Value, handle: &Handle) -> Result<Result<BoundSource, String>, Fault> {
    let source_type = text(given, "source");
    let parameters = (source_type == "dcgm-data-source").then(|| json!({ "port": 0 }));
    let source = match instance(source_type, "s", parameters.as_ref(), handle)? {
        Ok(built) => built.roles.polling_source.ok_or_else(|| Fault::Failed("not a source".into()))?,
        Err(error) => return Err(Fault::Failed(error)),
    };
    let mut extractors = Vec::new();
    for (index, extractor) in given["extractors"].as_array().into_iter().flatten().enumerate() {
        let extractor_type = text(extractor, "type");
        match instance(extractor_type, &format!("e{index}"), extractor.get("parameters"), handle)? {
            Ok(built) => {
                let role = built.roles.extractor.ok_or_else(|| Fault::Failed("not an extractor".into()))?;
                extractors.push((Rc::from(extractor_type), role));
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(BoundSource { source_type: source_type.into(), source, extractors, period: 1 }))
}

async fn serve(rt: &Rt, current: Current) -> SocketAddr {
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), 16).await.expect("a free port");
    let address = server.local_addr();
    let clock = rt.clone();
    let service = move |request: Request<Body>| {
        let step = current.lock().expect("no panic while it is held").clone();
        let clock = clock.clone();
        async move {
            clock.sleep(Duration::from_millis(step["delay_ms"].as_u64().unwrap_or(0))).await;
            answer(&step, request.uri().path())
        }
    };
    rt.daemon("server", async move {
        server.serve(service, std::future::pending::<()>(), Duration::ZERO).await;
    });
    address
}

fn answer(step: &Value, path: &str) -> Response<Body> {
    const ELSEWHERE: &str = "/elsewhere";
    if step["redirect"] == true && path != ELSEWHERE {
        let redirect = Response::builder().status(302).header("location", ELSEWHERE);
        return redirect.body(Body::Empty).expect("a response");
    }
    let status = step["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
    let body = Body::from(text(step, "body").to_owned());
    Response::builder().status(status).body(body).expect("a response")
}

fn metrics(metrics: &Metrics) -> Value {
    json!({
        "active_models": *metrics.active_models,
        "waiting_models": *metrics.waiting_models,
        "max_active_models": metrics.max_active_models,
        "running_requests_size": metrics.running_requests_size,
        "waiting_queue_size": metrics.waiting_queue_size,
        "kv_cache_usage_percent": float(metrics.kv_cache_usage_percent),
        "cache_block_size": metrics.cache_block_size,
        "cache_num_blocks": metrics.cache_num_blocks,
    })
}

fn attributes(endpoint: &Endpoint) -> Value {
    let mut all = Map::new();
    for key in endpoint.attributes.keys() {
        let value = if let Some(ScalarMetricValue(value)) = endpoint.attributes.get(key) {
            float(*value)
        } else if let Some(Models(models)) = endpoint.attributes.get(key) {
            models.iter().map(|model| json!({ "id": model.id, "parent": model.parent })).collect()
        } else {
            json!("a value of another type")
        };
        all.insert(key.to_string(), value);
    }
    all.into()
}

/// Returns the recorded answer without the attributes that were written and read as absent: with us a key that
/// reads as absent is not there. One that is there stays, and so is a difference.
fn without_absent(then: &Value, answer: &Value) -> Value {
    let mut then = then.clone();
    let steps = then.get_mut("steps").and_then(Value::as_array_mut);
    for (index, step) in steps.into_iter().flatten().enumerate() {
        if let Some(attributes) = step.get_mut("attributes").and_then(Value::as_object_mut) {
            let ours = &answer["steps"][index]["attributes"];
            attributes.retain(|key, value| value["absent"] != true || ours.get(key).is_some());
        }
    }
    then
}
