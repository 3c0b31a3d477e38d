//! The test plugins of `director.jsonl` and `headers.jsonl`: each records that it was called, then does what its
//! parameters say.

use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use executor::{Instant, Rt};
use router::attributes::PrefixCacheMatchInfo;
use router::candidates::{Candidate, Candidates};
use router::data_key::{DataKey, resolve, well_known};
use router::endpoint::EndpointMetadata;
use router::error::{ErrorCode, InferenceError, PluginError};
use router::plugin::{DataFlow, Factory, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use router::request::{InferenceRequest, Payload};
use router::request_control::{
    Admitter, DataProducer, PreRequest, Produced, RequestHeaderProcessor, ResponseBodyProcessor,
    ResponseHeaderProcessor, ResponseRecord, Screener,
};
use router::scheduling::{Filter, SchedulingContext, SchedulingResult};
use router::support::{Area, PluginType, Registry, Stability};
use serde_json::{Map, Value, json};

/// What the test plugins of a run have seen, in order.
#[derive(Debug, Default)]
pub(super) struct Recorder(Mutex<(Instant, Vec<Value>)>);

impl Recorder {
    /// Forgets what was seen; times count from `start`.
    pub(super) fn start(&self, start: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (start, Vec::new());
    }

    pub(super) fn calls(&self) -> Vec<Value> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    fn add(&self, call: Value) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.push(call);
    }

    fn at_ms(&self, now: Instant) -> u64 {
        let start = self.0.lock().unwrap_or_else(PoisonError::into_inner).0;
        now.since(start).as_millis() as u64
    }
}

const TYPES: &[(&str, Area, Factory)] = &[
    ("vec-request-header", Area::RequestControl, |n, p, h| {
        build(n, p, h, |plugin| Roles { request_header: Some(plugin), ..Roles::default() })
    }),
    ("vec-screener", Area::RequestControl, |n, p, h| {
        build(n, p, h, |plugin| Roles { screener: Some(plugin), ..Roles::default() })
    }),
    ("vec-producer", Area::Producer, producer),
    ("vec-admitter", Area::RequestControl, |n, p, h| {
        build(n, p, h, |plugin| Roles { admitter: Some(plugin), ..Roles::default() })
    }),
    ("vec-pre-request", Area::RequestControl, |n, p, h| {
        build(n, p, h, |plugin| Roles { pre_request: Some(plugin), ..Roles::default() })
    }),
    ("vec-response-header", Area::RequestControl, |n, p, h| {
        build(n, p, h, |plugin| Roles { response_header: Some(plugin), ..Roles::default() })
    }),
    ("vec-response-body", Area::RequestControl, |n, p, h| {
        build(n, p, h, |plugin| Roles { response_body: Some(plugin), ..Roles::default() })
    }),
    ("vec-filter", Area::Filter, |n, p, h| {
        build(n, p, h, |plugin| Roles { filter: Some(plugin), ..Roles::default() })
    }),
];

/// Returns the types of the release with the test plugins.
pub(super) fn registry() -> Registry {
    let mut registry = Registry::default();
    for (name, area, factory) in TYPES {
        registry.register(PluginType::new(*area, name, Stability::Stable), *factory);
    }
    registry
}

fn build(
    name: &str,
    parameters: &Parameters,
    handle: &Handle,
    roles: fn(Rc<Plugin>) -> Roles,
) -> Result<Instance, FactoryError> {
    let parameters = parameters.value().cloned().unwrap_or_default();
    let plugin = Plugin { name: name.to_owned(), parameters, rt: handle.rt().clone() };
    Ok(Instance::new("vec", name, roles(Rc::new(plugin))))
}

fn producer(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let given = parameters.value().cloned().unwrap_or_default();
    let keys = |name: &str| {
        let key = |key: &Value| {
            let (data_type, producer) = key.as_str()?.split_once('/')?;
            // A key may say of what type its value is.
            Some(match producer.strip_suffix(":int") {
                Some(producer) => TypedKey::of::<i64>(&DataKey::new(data_type, producer)),
                None => TypedKey::of::<String>(&DataKey::new(data_type, producer)),
            })
        };
        given[name].as_array().into_iter().flatten().filter_map(key).collect()
    };
    let data = DataFlow {
        produces: keys("produces"),
        requires: keys("requires"),
        optional: keys("optional"),
        declares: true,
    };
    let built =
        build(name, parameters, handle, |plugin| Roles { producer: Some(plugin), ..Roles::default() });
    Ok(built?.with_data(data))
}

struct Plugin {
    name: String,
    parameters: Value,
    rt: Rt,
}

impl Plugin {
    fn record(&self, hook: &str, mut call: Value) {
        call["hook"] = hook.into();
        call["plugin"] = self.name.as_str().into();
        self.rt.local::<Recorder>().add(call);
    }

    fn at_ms(&self) -> u64 {
        self.rt.local::<Recorder>().at_ms(self.rt.now())
    }

    /// Fails as the parameters say.
    fn error(&self) -> Result<(), PluginError> {
        let Some(text) = self.parameters["error"].as_str() else { return Ok(()) };
        let (wrapped, name) = match text.strip_prefix("wrapped:") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let Some(code) = code(name) else { return Err(PluginError::other(text)) };
        let source = InferenceError::new(code, "refused");
        Err(match wrapped {
            true => PluginError::Wrapped { message: format!("wrapped: {source}"), source },
            false => source.with_header("x-vec", name).into(),
        })
    }

    fn strings(&self, name: &str) -> Vec<(&str, &str)> {
        let entries = self.parameters[name].as_object().into_iter().flatten();
        entries.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect()
    }

    fn keeps(&self, id: &str) -> bool {
        let kept = self.parameters["keep"].as_array();
        self.parameters["keep_none"] != true && kept.is_none_or(|kept| kept.iter().any(|k| k == id))
    }
}

fn code(name: &str) -> Option<ErrorCode> {
    let codes = [
        ErrorCode::BadRequest,
        ErrorCode::Unauthorized,
        ErrorCode::Forbidden,
        ErrorCode::NotFound,
        ErrorCode::PreconditionFailed,
        ErrorCode::ResourceExhausted,
        ErrorCode::Internal,
        ErrorCode::ServiceUnavailable,
        ErrorCode::Unknown,
        ErrorCode::ModelServerError,
    ];
    codes.into_iter().find(|code| code.to_string() == name)
}

fn ids(candidates: &Candidates) -> Vec<String> {
    let mut ids: Vec<String> = candidates.endpoints().iter().map(|e| e.metadata.id.to_string()).collect();
    ids.sort();
    ids
}

/// What a hook sees of a request.
fn seen(request: &InferenceRequest) -> Value {
    json!({
        "request_id": request.request_id,
        "target_model": request.target_model,
        "fairness_id": request.fairness_id,
        "priority": request.priority,
        "size_bytes": request.size_bytes,
    })
}

impl RequestHeaderProcessor for Plugin {
    fn process(&self, request: &mut InferenceRequest) -> Result<(), PluginError> {
        self.record("request_header", seen(request));
        self.error()?;
        for (name, value) in self.strings("set_headers") {
            request.headers.insert(name, value);
        }
        for (name, value) in self.strings("set_attributes") {
            request.attributes.put(name, value.to_owned());
        }
        Ok(())
    }
}

impl Screener for Plugin {
    fn screen(&self, request: &InferenceRequest, candidates: &Candidates) -> Vec<Candidate> {
        self.record("screener", json!({"candidates": ids(candidates), "fairness_id": request.fairness_id}));
        let kept = candidates.all().filter(|c| self.keeps(&candidates.endpoint(*c).metadata.id.to_string()));
        let kept: Vec<Candidate> = kept.collect();
        match self.parameters["duplicate"] == true {
            true => [kept.clone(), kept, vec![Candidate(u32::MAX)]].concat(),
            false => kept,
        }
    }
}

impl DataProducer for Plugin {
    fn produce<'a>(&'a self, _: &'a mut InferenceRequest, candidates: &'a mut Candidates) -> Produced<'a> {
        self.record("producer", json!({"candidates": ids(candidates), "at_ms": self.at_ms()}));
        match self.parameters["sleep_ms"].as_u64() {
            None => Produced::Ready(self.found(candidates)),
            Some(ms) => Produced::Pending(Box::pin(async move {
                self.rt.sleep(Duration::from_millis(ms)).await;
                self.found(candidates)
            })),
        }
    }

    fn timeout(&self) -> Option<Duration> {
        self.parameters["declared_timeout_ms"].as_u64().map(Duration::from_millis)
    }
}

impl Plugin {
    fn found(&self, candidates: &mut Candidates) -> Result<(), PluginError> {
        if let Some(blocks) = self.parameters["put_prefix_match_blocks"].as_object() {
            let producer = self.parameters["prefix_producer"].as_str().unwrap_or_default();
            let info = |candidate| {
                let blocks = blocks.get(&candidates.endpoint(candidate).metadata.id.to_string())?.as_i64()?;
                Some(PrefixCacheMatchInfo::new(blocks, 4, 16))
            };
            let column: Vec<_> = candidates.all().map(info).collect();
            candidates.put(resolve(well_known::PREFIX_CACHE_MATCH_INFO, producer), column);
        }
        self.error()
    }
}

impl Admitter for Plugin {
    fn admit(&self, request: &InferenceRequest, candidates: &Candidates) -> Result<(), PluginError> {
        let (candidates, priority) = (ids(candidates), request.priority);
        self.record(
            "admitter",
            json!({"candidates": candidates, "priority": priority, "at_ms": self.at_ms()}),
        );
        self.error()
    }
}

impl PreRequest for Plugin {
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        _: &Candidates,
    ) -> Result<(), PluginError> {
        let mut call = seen(request);
        call["primary"] = (*result.primary).into();
        let profile = |name: &Rc<str>| {
            let targets = result.profile_targets(name).iter();
            let ids: Vec<String> = targets.map(|target| target.endpoint.metadata.id.to_string()).collect();
            (name.to_string(), json!(ids))
        };
        call["targets"] = result.profiles.keys().map(profile).collect::<Map<_, _>>().into();
        self.record("pre_request", call);
        self.error()?;
        for (name, value) in self.strings("set_headers") {
            request.headers.insert(name, value);
        }
        if let Some(Payload::Json(fields)) = request.body.as_mut().map(|body| &mut body.payload) {
            for (name, value) in self.parameters["set_body"].as_object().into_iter().flatten() {
                fields.insert(name.clone(), value.clone());
            }
        }
        Ok(())
    }
}

impl ResponseHeaderProcessor for Plugin {
    fn response_header(
        &self,
        _: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        target: Option<&Rc<EndpointMetadata>>,
    ) {
        let headers: Map<String, Value> =
            response.headers.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let metadata = (!response.metadata.is_empty()).then(|| json!(response.metadata));
        self.record(
            "response_header",
            json!({
                "headers": headers,
                "metadata": metadata,
                "request_id": response.request_id,
                "target": target.map(|target| target.id.to_string()),
            }),
        );
        for (name, value) in self.strings("set_headers") {
            response.headers.insert(name, value);
        }
    }
}

impl ResponseBodyProcessor for Plugin {
    fn response_body(
        &self,
        _: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        target: Option<&Rc<EndpointMetadata>>,
    ) {
        let usage = &response.usage;
        self.record(
            "response_body",
            json!({
                "request_id": response.request_id,
                "start_of_stream": response.start_of_stream,
                "end_of_stream": response.end_of_stream,
                "target": target.map(|target| target.id.to_string()),
                "usage": {
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                    "total_tokens": usage.total_tokens,
                    "cached_tokens": usage.cached_tokens,
                },
            }),
        );
        if self.parameters["only_at_end"] == true && !response.end_of_stream {
            return;
        }
        for (namespace, fields) in self.parameters["set_metadata"].as_object().into_iter().flatten() {
            let fields = fields.as_object().cloned().unwrap_or_default();
            response.dynamic_metadata.insert(namespace.clone(), fields);
        }
    }
}

impl Filter for Plugin {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        let mut ids: Vec<String> =
            survivors.iter().map(|c| cx.candidates.endpoint(*c).metadata.id.to_string()).collect();
        ids.sort();
        self.record("filter", json!({"candidates": ids, "at_ms": self.at_ms()}));
        survivors.retain(|c| self.keeps(&cx.candidates.endpoint(*c).metadata.id.to_string()));
    }
}
