use std::cell::RefCell;

use bytes::Bytes;
use executor::Sim;
use serde_json::json;

use super::*;
use crate::admission::LegacyAdmission;
use crate::candidates::Candidate;
use crate::config::assembly::Assembly;
use crate::config::loader::{Options, load};
use crate::endpoint::{EndpointId, EndpointMetadata, Metrics};
use crate::plugin::{Handle, Instance, Roles};
use crate::request::ParserRegistry;
use crate::request_control::{
    Admitter, DataProducer, PreRequest, RequestHeaderProcessor, ResponseBodyProcessor, ResponseRecord,
    Screener, Usage,
};
use crate::support::Registry;

/// A plugin with every role around a decision: it notes its calls and does as it is told.
#[derive(Clone, Default)]
struct Probe {
    name: &'static str,
    calls: Rc<RefCell<Vec<String>>>,
    attributes: Vec<(&'static str, &'static str)>,
    keeps: Option<Vec<u32>>,
    produces: Option<PluginError>,
    sleeps: Option<(Rt, Duration)>,
    admits: Option<PluginError>,
    prepares: Option<PluginError>,
    body: Option<(&'static str, Value)>,
}

impl Probe {
    fn note(&self, hook: &str) {
        self.calls.borrow_mut().push(format!("{hook} {}", self.name));
    }

    fn instance(self) -> Instance {
        let name = self.name;
        let probe = Rc::new(self);
        let roles = Roles {
            request_header: Some(probe.clone()),
            screener: Some(probe.clone()),
            producer: Some(probe.clone()),
            admitter: Some(probe.clone()),
            pre_request: Some(probe.clone()),
            response_body: Some(probe),
            ..Roles::default()
        };
        Instance::new("probe", name, roles)
    }
}

fn outcome(error: &Option<PluginError>) -> Result<(), PluginError> {
    error.clone().map_or(Ok(()), Err)
}

impl RequestHeaderProcessor for Probe {
    fn process(&self, request: &mut InferenceRequest) -> Result<(), PluginError> {
        self.note("header");
        for (key, value) in &self.attributes {
            request.attributes.put(*key, (*value).to_owned());
        }
        Ok(())
    }
}

impl Screener for Probe {
    fn screen(&self, _request: &InferenceRequest, candidates: &Candidates) -> Vec<Candidate> {
        self.note("screen");
        match &self.keeps {
            Some(kept) => kept.iter().copied().map(Candidate).collect(),
            None => candidates.all().collect(),
        }
    }
}

impl DataProducer for Probe {
    fn produce<'a>(
        &'a self,
        _request: &'a mut InferenceRequest,
        _candidates: &'a mut Candidates,
    ) -> Produced<'a> {
        self.note("produce");
        match &self.sleeps {
            None => Produced::Ready(outcome(&self.produces)),
            Some((rt, time)) => Produced::Pending(Box::pin(async move {
                rt.sleep(*time).await;
                self.note("produced");
                Ok(())
            })),
        }
    }
}

impl Admitter for Probe {
    fn admit(&self, _request: &InferenceRequest, _candidates: &Candidates) -> Result<(), PluginError> {
        self.note("admit");
        outcome(&self.admits)
    }
}

impl PreRequest for Probe {
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        _result: &SchedulingResult,
        _candidates: &Candidates,
    ) -> Result<(), PluginError> {
        self.note("prepare");
        if let (Some((key, value)), Some(ParsedBody { payload: Payload::Json(fields), .. })) =
            (&self.body, &mut request.body)
        {
            fields.insert((*key).to_owned(), value.clone());
        }
        outcome(&self.prepares)
    }
}

impl ResponseBodyProcessor for Probe {
    fn response_body(
        &self,
        _request: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        _target: Option<&Rc<EndpointMetadata>>,
    ) {
        let ResponseRecord { start_of_stream, end_of_stream, usage, .. } = response;
        self.note(&format!("response {start_of_stream} {end_of_stream} {}", usage.total_tokens));
    }
}

/// Endpoints `a`, idle, and `b`, busy; both full for the saturation detector, whose metrics are missing.
struct TwoEndpoints {
    endpoints: Rc<Vec<Rc<Endpoint>>>,
    rewrites: ModelRewrites,
}

impl Pool for TwoEndpoints {
    fn endpoints(&self) -> Rc<Vec<Rc<Endpoint>>> {
        Rc::clone(&self.endpoints)
    }

    fn priority(&self, objective: &str) -> Option<i64> {
        (objective == "sheddable").then_some(-1)
    }

    fn rewrite_rule(&self, model: &str) -> Option<Rc<RewriteRule>> {
        self.rewrites.rule(model).map(|(_, rule)| rule)
    }
}

fn endpoint(name: &str, address: &str, waiting: i64) -> Rc<Endpoint> {
    let metadata = EndpointMetadata {
        id: EndpointId::new("", name),
        address: address.to_owned(),
        port: "8000".to_owned(),
        ..EndpointMetadata::default()
    };
    let metrics = Metrics { waiting_queue_size: waiting, ..Metrics::default() };
    Rc::new(Endpoint { metadata: Rc::new(metadata), metrics, ..Endpoint::default() })
}

/// What a test varies.
#[derive(Default)]
struct Case {
    /// Empty = the built-in one.
    config: &'static str,
    probes: Vec<Probe>,
    empty_pool: bool,
    rewrites: ModelRewrites,
    headers: Vec<(&'static str, &'static str)>,
    body: Option<&'static str>,
}

fn director(rt: &Rt, case: &mut Case) -> Director {
    let handle = Handle::new(rt.clone());
    let assembly = load("", case.config, &Registry::default(), &handle, &Options::default());
    let Assembly { scheduler, detector, .. } = assembly.expect("the configuration loads");
    let endpoints = [endpoint("a", "10.0.0.1", 0), endpoint("b", "fd00::2", 9)];
    let endpoints = if case.empty_pool { Vec::new() } else { endpoints.to_vec() };
    let rewrites = std::mem::take(&mut case.rewrites);
    let pool = Rc::new(TwoEndpoints { endpoints: Rc::new(endpoints), rewrites });
    let instances: Vec<Instance> = case.probes.drain(..).map(Probe::instance).collect();
    let admission = LegacyAdmission::new(detector.plugin);
    let hooks = Hooks::new(&instances, &instances);
    Director::new(rt.clone(), pool, scheduler, admission, hooks, DirectorOptions::default())
}

async fn route(rt: &Rt, mut case: Case) -> Result<Routed, PluginError> {
    let director = director(rt, &mut case);
    let mut headers: Headers = case.headers.iter().copied().collect();
    headers.insert(":path", "/v1/completions");
    let body = case.body.unwrap_or(r#"{"model":"m","prompt":"p"}"#);
    let parsers = ParserRegistry::default();
    let parsed = parsers.parse(&headers, Bytes::from_static(body.as_bytes()));
    let body = parsed.expect("the body parses").0;
    let input = RequestInput { headers, body, size_bytes: 1, ..RequestInput::default() };
    director.handle_request(input).await.map_err(|refused| refused.error)
}

fn simulate<T: 'static>(test: impl AsyncFnOnce(Rt) -> T + 'static) -> T {
    Sim::new(1).run(move |rt| async move { test(rt).await }).unwrap()
}

fn inference(code: ErrorCode, message: &str) -> PluginError {
    InferenceError::new(code, message).into()
}

#[test]
fn hooks_run_in_the_order_of_a_request() {
    let calls = Rc::default();
    let probe = |name| Probe { name, calls: Rc::clone(&calls), ..Probe::default() };
    let probes = vec![probe("x"), probe("y")];
    let seen = Rc::clone(&calls);
    let calls = simulate(async move |rt| {
        let mut routed = route(&rt, Case { probes, ..Case::default() }).await.expect("routed");
        assert_eq!(routed.destinations, ["10.0.0.1:8000"]);
        let usage = Usage { total_tokens: 3, ..Usage::default() };
        routed.response.chunk(Some(usage));
        routed.response.end(None);
        seen.take()
    });
    let hooks =
        ["header", "screen", "produce", "admit", "prepare", "response true false 3", "response false true 3"];
    let expected: Vec<String> =
        hooks.iter().flat_map(|hook| ["x", "y"].map(|name| format!("{hook} {name}"))).collect();
    assert_eq!(calls, expected);
}

#[test]
fn a_failed_or_late_producer_stops_those_behind_it_and_not_the_request() {
    for (takes_ms, expected) in
        [(399, vec!["produce x", "produced x", "produce y"]), (401, vec!["produce x"])]
    {
        let produced = simulate(async move |rt| {
            let calls: Rc<RefCell<Vec<String>>> = Rc::default();
            let probe = |name| Probe { name, calls: Rc::clone(&calls), ..Probe::default() };
            let slow = Probe { sleeps: Some((rt.clone(), Duration::from_millis(takes_ms))), ..probe("x") };
            let routed = route(&rt, Case { probes: vec![slow, probe("y")], ..Case::default() }).await;
            assert!(routed.is_ok());
            calls.take().into_iter().filter(|call| call.starts_with("produce")).collect::<Vec<_>>()
        });
        assert_eq!(produced, expected, "{takes_ms} ms");
    }
    let calls = simulate(async |rt| {
        let calls: Rc<RefCell<Vec<String>>> = Rc::default();
        let probe = |name| Probe { name, calls: Rc::clone(&calls), ..Probe::default() };
        let broken = Probe { produces: Some(PluginError::other("broken")), ..probe("x") };
        let routed = route(&rt, Case { probes: vec![broken, probe("y")], ..Case::default() }).await;
        assert!(routed.is_ok());
        calls.take()
    });
    assert!(calls.contains(&"produce x".to_owned()) && !calls.contains(&"produce y".to_owned()));
}

/// A pool of prefill workers only, by the labels that its endpoints lack.
const NO_DECODE_WORKER: &str = "
plugins:
- type: disagg-profile-handler
- {type: label-selector-filter, parameters: {matchLabels: {llm-d.ai/role: decode}}}
schedulingProfiles:
- {name: decode, plugins: [{pluginRef: label-selector-filter}]}
- {name: prefill}
";

/// Scheduling spec 3.5 and request-control spec 1.1, the tables.
#[test]
fn every_failure_has_its_code_and_text() {
    let typed = || Some(inference(ErrorCode::NotFound, "typed"));
    let probe = || Probe { name: "x", ..Probe::default() };
    let one = |probe: Probe| Case { probes: vec![probe], ..Case::default() };
    type Row = (Box<dyn Fn() -> Case>, ErrorCode, &'static str);
    let rows: Vec<Row> = vec![
        (
            Box::new(|| Case { empty_pool: true, ..Case::default() }),
            ErrorCode::ServiceUnavailable,
            "failed to find endpoint candidates for serving the request",
        ),
        (
            Box::new(move || one(Probe { keeps: Some(vec![]), ..probe() })),
            ErrorCode::ServiceUnavailable,
            "screeners eliminated all endpoint candidates",
        ),
        (
            Box::new(move || one(Probe { admits: typed(), ..probe() })),
            ErrorCode::Internal,
            "request cannot be admitted: inference error: NotFound - typed",
        ),
        // All candidates filtered out is no capacity, and so is a missing decode worker.
        (
            Box::new(|| Case { config: "plugins: [{type: header-based-testing-filter}]", ..Case::default() }),
            ErrorCode::ResourceExhausted,
            "failed to find target endpoint: failed to run scheduler profile 'default'",
        ),
        (
            Box::new(|| Case { config: NO_DECODE_WORKER, ..Case::default() }),
            ErrorCode::ResourceExhausted,
            "failed to find target endpoint: failed to find available decode workers",
        ),
        (
            Box::new(|| Case { headers: vec![("prefer", "if-available")], ..Case::default() }),
            ErrorCode::PreconditionFailed,
            "no decode worker has the requested KV cache",
        ),
        (
            Box::new(|| Case { headers: vec![(headers::OBJECTIVE[0], "sheddable")], ..Case::default() }),
            ErrorCode::ResourceExhausted,
            "system saturated, sheddable request dropped",
        ),
        (
            Box::new(|| Case { body: Some(r#"{"prompt":"p"}"#), ..Case::default() }),
            ErrorCode::BadRequest,
            "model not found in request body",
        ),
        (Box::new(move || one(Probe { prepares: typed(), ..probe() })), ErrorCode::NotFound, "typed"),
        (
            Box::new(move || one(Probe { prepares: Some(PluginError::other("plain")), ..probe() })),
            ErrorCode::Internal,
            "PreRequest \"x/probe\" failed: plain",
        ),
        (
            Box::new(move || Case {
                probes: vec![
                    Probe { prepares: typed(), ..probe() },
                    Probe { name: "y", prepares: typed(), ..Probe::default() },
                ],
                ..Case::default()
            }),
            ErrorCode::Internal,
            "PreRequest \"x/probe\" failed: inference error: NotFound - typed\n\
             PreRequest \"y/probe\" failed: inference error: NotFound - typed",
        ),
    ];
    for (case, code, message) in rows {
        let error = simulate(async move |rt| route(&rt, case()).await.map(|_| ()));
        match error {
            Err(PluginError::Inference(error)) => {
                assert_eq!((error.code, error.message.as_str()), (code, message))
            }
            other => panic!("{message}: {other:?}"),
        }
    }
}

#[test]
fn what_hooks_took_is_given_back_exactly_once() {
    let ends = |fails: bool, finish: fn(Routed)| {
        simulate(async move |rt| {
            let calls: Rc<RefCell<Vec<String>>> = Rc::default();
            let prepares = fails.then(|| PluginError::other("broken"));
            let probe = Probe { name: "x", calls: Rc::clone(&calls), prepares, ..Probe::default() };
            if let Ok(routed) = route(&rt, Case { probes: vec![probe], ..Case::default() }).await {
                finish(routed);
            }
            calls.take().into_iter().filter(|call| call.starts_with("response")).collect::<Vec<_>>()
        })
    };
    let dropped = ["response true true 0 x"];
    assert_eq!(ends(false, drop), dropped, "a client that goes away");
    assert_eq!(ends(true, drop), dropped, "a plugin that fails after the decision");
    assert_eq!(ends(false, |routed| drop(routed.response.end(None))), dropped, "a response that ends");
    let cut = ends(false, |mut routed| routed.response.chunk(None));
    assert_eq!(cut, ["response true false 0 x", "response false true 0 x"], "a response that is cut off");
}

#[test]
fn the_fairness_id_is_the_clients_else_the_agents() {
    let agent =
        || Probe { name: "x", attributes: vec![("agent-identity", "session-abc")], ..Probe::default() };
    let explicit = || vec![(headers::FAIRNESS_ID[1], "explicit-id")];
    type Row = (Box<dyn Fn() -> Case>, &'static str);
    let rows: Vec<Row> = vec![
        (Box::new(Case::default), "default-flow"),
        (Box::new(move || Case { probes: vec![agent()], ..Case::default() }), "session-abc"),
        (
            Box::new(move || Case { probes: vec![agent()], headers: explicit(), ..Case::default() }),
            "explicit-id",
        ),
    ];
    for (case, expected) in rows {
        let id = simulate(async move |rt| {
            let routed = route(&rt, case()).await.expect("routed");
            routed.request().fairness_id.clone()
        });
        assert_eq!(id, expected);
    }
}

#[test]
fn the_forwarded_body_has_the_target_model_and_what_plugins_wrote() {
    let mut rewrites = ModelRewrites::default();
    let targets = vec![RewriteTarget { model: "target".to_owned(), weight: None }];
    rewrites.set("r", 1, vec![RewriteRule { matches: vec![Some("m".to_owned())], targets }]);
    let probe = Probe { name: "x", body: Some(("new_key", json!(1))), ..Probe::default() };
    simulate(async move |rt| {
        let headers =
            vec![(headers::MODEL_REWRITE[0], "asked"), ("x-other", "kept"), ("content-length", "9")];
        let case = Case { probes: vec![probe], rewrites, headers, ..Case::default() };
        let routed = route(&rt, case).await.expect("routed");
        assert_eq!((routed.incoming_model.as_str(), routed.request().target_model.as_str()), ("m", "target"));
        let names: Vec<&str> = routed.headers().map(|(name, _)| name).collect();
        assert_eq!(names, ["x-other", ":path", "x-request-id"]);
        let ForwardedBody::Bytes(bytes) = &routed.body else { panic!("bytes") };
        assert_eq!(bytes, r#"{"model":"target","new_key":1,"prompt":"p"}"#);
        assert_eq!(routed.request().size_bytes, bytes.len());
    });
}

#[test]
fn generated_request_ids_are_uuids_of_version_4() {
    let id = simulate(async |rt| {
        let routed = route(&rt, Case::default()).await.expect("routed");
        routed.request().request_id.clone()
    });
    let parts: Vec<&str> = id.split('-').collect();
    assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
}

#[test]
fn screeners_intersect_and_bodyless_requests_pass_them() {
    simulate(async |rt| {
        let probe = |name, keeps| Probe { name, keeps: Some(keeps), ..Probe::default() };
        // One keeps `b` twice and a candidate that does not exist.
        let probes = vec![probe("x", vec![1, 1, 7]), probe("y", vec![0, 1])];
        let routed = route(&rt, Case { probes, ..Case::default() }).await.expect("routed");
        assert_eq!(routed.destinations, ["[fd00::2]:8000"]);
    });
    let address = simulate(async |rt| {
        let director = director(&rt, &mut Case::default());
        let mut headers = Headers::new();
        let (address, tracker) = director.handle_bodyless(&mut headers).expect("an endpoint");
        assert!(tracker.target().is_none() && headers.get("x-request-id").is_some());
        address
    });
    assert!(["10.0.0.1:8000", "fd00::2:8000"].contains(&address.as_str()), "{address}");
}
