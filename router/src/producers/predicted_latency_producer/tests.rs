use std::cell::Cell;

use executor::Sim;
use futures::future::LocalBoxFuture;

use super::*;
use crate::candidates::{Candidate, Candidates};
use crate::endpoint::{Endpoint, EndpointId};
use crate::latency_predictor::{Prediction, PredictionError, PredictionRow, TrainingEntry};
use crate::plugin::run_periodic;
use crate::request::InferenceRequest;
use crate::request_control::{Produced, ResponseRecord};
use crate::scheduling::{ProfileRunResult, SchedulingResult, Target};

/// Predicts the same for every endpoint, and keeps what it is taught.
#[derive(Default)]
struct Scripted {
    prediction: Cell<Prediction>,
    learned: RefCell<Vec<TrainingEntry>>,
}

impl LatencyPredictor for Scripted {
    fn predict(
        &self,
        rows: Vec<PredictionRow>,
    ) -> LocalBoxFuture<'static, Result<Vec<Prediction>, PredictionError>> {
        let predictions = vec![self.prediction.get(); rows.len()];
        Box::pin(async move { Ok(predictions) })
    }

    fn learn(&self, entry: TrainingEntry) {
        self.learned.borrow_mut().push(entry);
    }
}

struct Bench {
    rt: Rt,
    predictor: Rc<Scripted>,
    instance: Instance,
    endpoint: Rc<Endpoint>,
    handle: Handle,
}

impl Bench {
    fn new(rt: &Rt, parameters: Value) -> Self {
        let (predictor, handle) = (Rc::new(Scripted::default()), Handle::new(rt.clone()));
        let parameters = Parameters::new(parameters);
        let instance = build_with_predictor(TYPE, &parameters, &handle, predictor.clone()).expect("builds");
        let metadata = EndpointMetadata { id: EndpointId::new("ns", "a"), ..EndpointMetadata::default() };
        let endpoint = Rc::new(Endpoint { metadata: Rc::new(metadata), ..Endpoint::default() });
        Bench { rt: rt.clone(), predictor, instance, endpoint, handle }
    }

    /// Lets a request be seen, predicted to take `ttft` and `tpot`, and returns what is attached.
    async fn seen(&self, id: &str, slo: (&str, &str), ttft: f64, tpot: f64) -> LatencyPredictionInfo {
        self.predictor.prediction.set(Prediction { ttft_ms: ttft, tpot_ms: tpot });
        let mut request = self.request(id, slo);
        let mut candidates = Candidates::new(Rc::new(vec![Rc::clone(&self.endpoint)]));
        let producer = self.instance.roles.producer.as_ref().expect("a producer");
        match producer.produce(&mut request, &mut candidates) {
            Produced::Ready(outcome) => outcome,
            Produced::Pending(pending) => pending.await,
        }
        .expect("never fails");
        let key = &self.instance.data.produces[0].key;
        candidates.read::<LatencyPredictionInfo>(key).get(Candidate(0)).cloned().expect("a prediction")
    }

    fn request(&self, id: &str, (ttft, tpot): (&str, &str)) -> InferenceRequest {
        let headers = [("x-llm-d-slo-ttft-ms", ttft), ("x-llm-d-slo-tpot-ms", tpot)].into_iter().collect();
        InferenceRequest { request_id: id.to_owned(), headers, ..InferenceRequest::default() }
    }

    fn sent(&self, id: &str) {
        let target = Target { endpoint: Rc::clone(&self.endpoint), scored: None };
        let run = ProfileRunResult { targets: vec![target], scored: Vec::new() };
        let mut result = SchedulingResult { primary: "decode".into(), ..SchedulingResult::default() };
        result.profiles.insert("decode".into(), Some(run));
        let hook = self.instance.roles.pre_request.as_ref().expect("a PreRequest plugin");
        let mut request = self.request(id, ("", ""));
        hook.pre_request(&mut request, &result, &Candidates::default()).expect("never fails");
    }

    fn chunk(&self, id: &str, end: bool) {
        let request = self.request(id, ("", ""));
        let mut response = ResponseRecord { end_of_stream: end, ..ResponseRecord::default() };
        let hook = self.instance.roles.response_body.as_ref().expect("it sees bodies");
        hook.response_body(Some(&request), &mut response, Some(&self.endpoint.metadata));
    }

    fn running(&self) -> Value {
        self.instance.roles.state_dumper.as_ref().expect("a dumper").dump_state()["running"].clone()
    }
}

/// Request-control spec 8.5, given and then.
#[test]
fn predictions_are_held_against_objectives() {
    let run = Sim::new(1).run(|rt| async move {
        let bench = Bench::new(&rt, json!({ "streamingMode": true }));
        let info = bench.seen("r", ("100", "30"), 50.0, 20.0).await;
        assert!(info.ttft_valid && info.tpot_valid);
        assert_eq!((info.ttft_headroom, info.tpot_headroom), (50.0, 10.0));
        bench.seen("s", ("100", "20"), 50.0, 20.0).await;
        bench.sent("s");
        let info = bench.seen("t", ("100", "30"), 50.0, 25.0).await;
        assert!(!info.tpot_valid, "what runs there is promised less");
        assert_eq!((info.tpot_headroom, info.dispatched_request_count), (-5.0, 1));
        let info = bench.seen("u", ("", ""), 1.0, 1.0).await;
        assert!(!info.ttft_valid && !info.tpot_valid, "without an objective nothing is met");
    });
    run.unwrap();
}

#[test]
fn measured_latencies_are_taught_and_counted() {
    let run = Sim::new(1).run(|rt| async move {
        let bench = Bench::new(&rt, json!({ "streamingMode": true }));
        bench.seen("r", ("40", "30"), 50.0, 20.0).await;
        bench.sent("r");
        for (wait, end) in [(50, false), (20, false), (30, true)] {
            bench.rt.sleep(Duration::from_millis(wait)).await;
            bench.chunk("r", end);
        }
        let learned = bench.predictor.learned.borrow();
        let latencies: Vec<_> = learned.iter().map(|e| (e.actual_ttft_ms, e.actual_tpot_ms)).collect();
        assert_eq!(latencies, [(50.0, 0.0), (0.0, 25.0)]);
        assert_eq!(bench.running(), json!({}));
        let violated = |kind| {
            let labels = [TYPE, TYPE, "", "", kind];
            bench.handle.metrics().metric("llm_d_epp_request_slo_violation_total").value(&labels)
        };
        assert_eq!((violated("ttft"), violated("tpot")), (Some(1.0), None));
    });
    run.unwrap();
}

#[test]
fn a_request_that_nobody_mentions_is_forgotten() {
    let run = Sim::new(1).run(|rt| async move {
        let bench = Bench::new(&rt, json!({ "contextTTL": 5_000_000_000_i64 }));
        run_periodic(&rt, std::slice::from_ref(&bench.instance));
        bench.seen("r", ("", "30"), 1.0, 1.0).await;
        bench.sent("r");
        rt.sleep(Duration::from_secs(5)).await;
        let info = bench.seen("s", ("", ""), 1.0, 1.0).await;
        assert_eq!(info.dispatched_request_count, 1, "at the end of its time it is still there");
        rt.sleep(Duration::from_nanos(1)).await;
        assert_eq!(bench.seen("t", ("", ""), 1.0, 1.0).await.dispatched_request_count, 0);
        rt.sleep(Duration::from_secs(120)).await;
        let state = bench.instance.roles.state_dumper.as_ref().expect("a dumper").dump_state();
        assert_eq!(state["requests"], 0, "also where nobody asks");
    });
    run.unwrap();
}

#[test]
fn a_factor_that_is_not_above_zero_is_refused() {
    for factor in [0.0, -1.0] {
        let parameters = Parameters::new(json!({ "sloBufferFactor": factor }));
        let error = factory(TYPE, &parameters, &crate::scheduling::testing::handle()).expect_err("refused");
        assert!(error.to_string().contains("sloBufferFactor must be > 0"), "{error}");
    }
}
