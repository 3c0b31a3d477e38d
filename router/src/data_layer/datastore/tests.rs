use executor::http::{Body, Endpoint as Address, SendError};
use executor::{Real, Sim};
use http::{Request, Response};

use super::*;
use crate::data_layer::core_metrics_extractor::{self, CoreMetricsExtractor};
use crate::data_layer::engine_gauges::{AcceptGauges, EngineGauges};
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

/// When requests came. Unit: milliseconds.
type Times = Rc<RefCell<Vec<u64>>>;

fn millis(rt: &Rt) -> u64 {
    rt.now().as_nanos() / 1_000_000
}

/// An engine on port 1 whose every answer is what `answer` makes of its number.
fn serve<F>(rt: &Rt, answer: impl Fn(Rt, usize) -> F + 'static) -> Times
where
    F: Future<Output = Result<Response<Body>, SendError>> + 'static,
{
    let times = Times::default();
    let (rt2, seen) = (rt.clone(), Rc::clone(&times));
    let service = move |_: Request<Body>| {
        let number = seen.borrow().len();
        seen.borrow_mut().push(millis(&rt2));
        answer(rt2.clone(), number)
    };
    let address = Address::new("127.0.0.1", 1).expect("an address");
    rt.simulation().expect("a simulation").listen(address, service).expect("a free port");
    times
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
    Sim::new(1)
        .run(|rt| async move {
            let times = serve(&rt, |_, number| async move {
                match number {
                    1 => Ok(Response::builder().status(500).body(Body::Empty).expect("a response")),
                    2 => Err(SendError::reset()),
                    _ => Ok(waiting(number)),
                }
            });
            let registry = Registry::default();
            let store = Datastore::new(&rt, plan(&rt, 1), &registry);
            let id = EndpointId::new("ns", "a");
            rt.sleep(Duration::from_millis(7)).await;
            store.upsert(metadata("a", 1));
            rt.sleep(Duration::from_millis(210)).await;
            assert_eq!(*times.borrow(), [57, 107, 157, 207]);
            let metrics = store.endpoints().get(&id).expect("the endpoint").metrics.clone();
            assert_eq!(metrics.waiting_queue_size, 3);
            assert_eq!(metrics.update_time, Some(executor::Instant::from_nanos(207_000_000)));
            let polls = registry.metric("llm_d_epp_datalayer_poll_errors_total");
            assert_eq!(polls.value(&["metrics-data-source"]), Some(2.0));
            let extractions = registry.metric("llm_d_epp_datalayer_extract_errors_total");
            let partly = extractions.value(&["metrics-data-source", "core-metrics-extractor"]);
            assert_eq!(partly, Some(2.0), "of two scrapes, each without running requests and the like");
            store.delete(&id);
            rt.sleep(Duration::from_millis(200)).await;
            assert_eq!(times.borrow().len(), 4, "no poll after the end");
            store.upsert(metadata("a", 1));
            rt.sleep(Duration::from_millis(60)).await;
            assert_eq!(times.borrow().last(), Some(&467), "a new endpoint counts from its own beginning");
        })
        .unwrap();
}

#[test]
fn a_period_fires_on_the_first_tick_and_then_on_every_so_many() {
    Sim::new(1)
        .run(|rt| async move {
            let times = serve(&rt, |_, number| async move { Ok(waiting(number)) });
            let store = Datastore::new(&rt, plan(&rt, 3), &Registry::default());
            store.upsert(metadata("a", 1));
            rt.sleep(Duration::from_millis(360)).await;
            assert_eq!(*times.borrow(), [50, 200, 350]);
        })
        .unwrap();
}

#[test]
fn of_the_ticks_during_a_slow_poll_one_is_kept() {
    Sim::new(1)
        .run(|rt| async move {
            let times = serve(&rt, |rt, number| async move {
                rt.sleep(Duration::from_millis(if number == 0 { 120 } else { 0 })).await;
                Ok(waiting(number))
            });
            let store = Datastore::new(&rt, plan(&rt, 1), &Registry::default());
            store.upsert(metadata("a", 1));
            rt.sleep(Duration::from_millis(260)).await;
            assert_eq!(*times.borrow(), [50, 170, 200, 250]);
        })
        .unwrap();
}

#[test]
fn a_poll_has_one_second() {
    Sim::new(1)
        .run(|rt| async move {
            let times = serve(&rt, |rt, _| async move {
                rt.sleep(Duration::from_millis(1001)).await;
                Ok(waiting(1))
            });
            let registry = Registry::default();
            let store = Datastore::new(&rt, plan(&rt, 1), &registry);
            store.upsert(metadata("a", 1));
            rt.sleep(Duration::from_millis(1060)).await;
            assert_eq!(*times.borrow(), [50, 1050]);
            let polls = registry.metric("llm_d_epp_datalayer_poll_errors_total");
            assert_eq!(polls.value(&["metrics-data-source"]), Some(1.0));
        })
        .unwrap();
}

#[test]
fn an_engine_in_this_process_may_answer_with_its_gauges() {
    Sim::new(1)
        .run(|rt| async move {
            let address = Address::new("127.0.0.1", 1).expect("an address");
            let service = |request: Request<Body>| async move {
                let mut response = waiting(1);
                if request.extensions().get::<AcceptGauges>().is_some() {
                    let gauges = EngineGauges { waiting: 7, running: 3, ..EngineGauges::default() };
                    response.extensions_mut().insert(gauges);
                }
                Ok(response)
            };
            rt.simulation().expect("a simulation").listen(address, service).expect("a free port");
            let store = Datastore::new(&rt, plan(&rt, 1), &Registry::default());
            let mut labelled = metadata("b", 1);
            labelled.labels.insert("llm-d.ai/engine-type".into(), "sglang".into());
            store.upsert(metadata("a", 1));
            store.upsert(labelled);
            rt.sleep(Duration::from_millis(60)).await;
            let loads = store.endpoints().snapshot();
            let loads = loads.iter().map(|e| (e.metrics.waiting_queue_size, e.metrics.running_requests_size));
            // What the second one reads is not among the gauges, and not in the text either.
            assert_eq!(loads.collect::<Vec<_>>(), [(7, 3), (0, 0)]);
        })
        .unwrap();
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
