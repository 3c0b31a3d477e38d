use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use executor::http::Body;
use executor::{Real, Server};
use http::{Request, Response};

use super::*;
use crate::data_layer::core_metrics_extractor::{self, CoreMetricsExtractor};
use crate::data_layer::metrics_data_source;
use crate::plugin::{Handle, Parameters};

/// Writes down what it sees, and whether the endpoint was a candidate at that time.
#[derive(Default)]
struct Recorder {
    seen: RefCell<Vec<String>>,
    endpoints: RefCell<Option<Endpoints>>,
}

impl EndpointListener for Recorder {
    fn on_event(&self, event: &EndpointEvent, endpoint: Option<&mut Endpoint>) {
        let listed = |id| self.endpoints.borrow().as_ref().is_some_and(|list| list.get(id).is_some());
        self.seen.borrow_mut().push(match event {
            EndpointEvent::AddOrUpdate(metadata) => {
                let port = &endpoint.expect("the endpoint comes with the event").metadata.port;
                format!("{} port {port} listed {}", metadata.id, listed(&metadata.id))
            }
            EndpointEvent::Delete(metadata) => format!("{} gone", metadata.id),
        });
    }
}

fn metadata(name: &str, port: u16) -> EndpointMetadata {
    EndpointMetadata {
        id: EndpointId::new("ns", name),
        port: port.to_string(),
        metrics_host: format!("127.0.0.1:{port}"),
        ..EndpointMetadata::default()
    }
}

fn real() -> Real {
    Real::builder().current_thread().build().expect("a runtime")
}

#[test]
fn listeners_see_an_endpoint_before_it_is_listed() {
    real().run(|rt| async move {
        let recorder = Rc::new(Recorder::default());
        let plan = Plan { listeners: vec![Rc::clone(&recorder) as _], ..Plan::default() };
        let store = Datastore::new(&rt, plan, &Registry::default());
        *recorder.endpoints.borrow_mut() = Some(store.endpoints().clone());
        let id = EndpointId::new("ns", "a");
        store.upsert(metadata("a", 1));
        store.upsert(metadata("a", 1));
        store.upsert(metadata("a", 2));
        store.delete(&id);
        store.delete(&id);
        let expected = ["ns/a port 1 listed false", "ns/a port 2 listed true", "ns/a gone"];
        assert_eq!(*recorder.seen.borrow(), expected);
        assert!(store.endpoints().is_empty());
    });
}

#[test]
fn an_update_keeps_what_is_known_of_the_endpoint() {
    real().run(|rt| async move {
        let store = Datastore::new(&rt, Plan::default(), &Registry::default());
        let id = EndpointId::new("ns", "a");
        store.upsert(metadata("a", 1));
        store.endpoints().update(&id, |endpoint| endpoint.metrics.waiting_queue_size = 5);
        store.upsert(metadata("a", 2));
        let endpoint = store.endpoints().get(&id).expect("the endpoint");
        assert_eq!((endpoint.metadata.port.as_str(), endpoint.metrics.waiting_queue_size), ("2", 5));
    });
}

/// A server whose every answer is what `answer` makes of its number.
async fn serve(rt: &Rt, answer: fn(usize) -> Response<Body>) -> (SocketAddr, Arc<AtomicUsize>) {
    let server = Server::bind("127.0.0.1:0".parse().expect("an address"), 16).await.expect("a free port");
    let (address, count) = (server.local_addr(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&count);
    let service = move |_: Request<Body>| {
        let number = counter.fetch_add(1, Ordering::SeqCst);
        async move { answer(number) }
    };
    rt.daemon("server", async move {
        server.serve(service, std::future::pending::<()>(), Duration::ZERO).await;
    });
    (address, count)
}

fn plan(rt: &Rt, period: u32) -> Plan {
    let handle = Handle::new(rt.clone());
    let source = metrics_data_source::factory("s", &Parameters::absent(), &handle).expect("defaults");
    let extractor = Rc::new(CoreMetricsExtractor::new(&Default::default()).expect("defaults"));
    Plan {
        sources: vec![BoundSource {
            source_type: metrics_data_source::TYPE.into(),
            source: source.roles.polling_source.expect("a source"),
            extractors: vec![(core_metrics_extractor::TYPE.into(), extractor)],
            period,
        }],
        base: Duration::from_millis(50),
        ..Plan::default()
    }
}

fn waiting(number: usize) -> Response<Body> {
    Response::new(Body::from(format!(
        "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting {number}\n"
    )))
}

#[test]
fn an_endpoint_is_polled_from_one_tick_after_it_came_until_it_goes() {
    real().run(|rt| async move {
        let (address, count) = serve(&rt, |number| match number {
            1 => Response::builder().status(500).body(Body::Empty).expect("a response"),
            _ => waiting(number),
        })
        .await;
        let registry = Registry::default();
        let store = Datastore::new(&rt, plan(&rt, 1), &registry);
        let id = EndpointId::new("ns", "a");
        store.upsert(metadata("a", address.port()));
        rt.sleep(Duration::from_millis(25)).await;
        assert_eq!(count.load(Ordering::SeqCst), 0, "no poll before the first tick");
        while count.load(Ordering::SeqCst) < 4 {
            rt.sleep(Duration::from_millis(10)).await;
        }
        let metrics = store.endpoints().get(&id).expect("the endpoint").metrics.clone();
        assert!(metrics.waiting_queue_size >= 2 && metrics.update_time.is_some(), "{metrics:?}");
        let failed = registry.metric("llm_d_epp_datalayer_poll_errors_total");
        assert_eq!(failed.value(&["metrics-data-source"]), Some(1.0));
        let partly = registry.metric("llm_d_epp_datalayer_extract_errors_total");
        assert!(partly.value(&["metrics-data-source", "core-metrics-extractor"]) >= Some(2.0));
        store.delete(&id);
        // One that has just been sent may still arrive.
        rt.sleep(Duration::from_millis(20)).await;
        let polls = count.load(Ordering::SeqCst);
        rt.sleep(Duration::from_millis(150)).await;
        assert_eq!(count.load(Ordering::SeqCst), polls, "no poll after the end");
    });
}

#[test]
fn gauges_are_asked_for_where_they_have_all_that_is_read() {
    real().run(|rt| async move {
        let source = plan(&rt, 1).sources.remove(0);
        let mut endpoint = metadata("a", 1);
        assert!(source.gauges_suffice(&endpoint));
        endpoint.labels.insert("llm-d.ai/engine-type".into(), "sglang".into());
        assert!(!source.gauges_suffice(&endpoint), "sglang's families are not vLLM's");
    });
}
