//! A director over a pool, and requests for it.

use std::error::Error;
use std::rc::Rc;

use bytes::Bytes;
use executor::Rt;
use router::admission::LegacyAdmission;
use router::config::loader::{Options, load};
use router::data_layer::EndpointEvent;
use router::director::{Director, DirectorOptions, Pool, RequestInput, RewriteRule};
use router::endpoint::{Endpoint, EndpointId, EndpointMetadata, Metrics};
use router::headers::Headers;
use router::plugin::Handle;
use router::request::{ParsedBody, ParserRegistry};
use router::support::Registry;
use serde_json::json;

/// A configuration under measurement.
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    /// An `EndpointPickerConfig`; empty = the built-in one.
    config: &'static str,
}

/// The index of the precise profile knows what was routed where, as it does between a decision and its events.
pub(crate) const PROFILES: &[Profile] = &[
    Profile { name: "default", config: "" },
    Profile { name: "precise", config: include_str!("precise.yaml") },
    Profile { name: "pd", config: include_str!("pd.yaml") },
];

/// Returns the director of a configuration over `endpoints` endpoints, half of them for prefill, all differently
/// loaded.
pub(crate) fn director(rt: &Rt, profile: &Profile, endpoints: usize) -> Result<Director, Box<dyn Error>> {
    let handle = Handle::new(rt.clone());
    let assembly = load(profile.name, profile.config, &Registry::default(), &handle, &Options::default())?;
    let endpoint = |n: usize| {
        let mut endpoint = endpoint(n, rt);
        let event = EndpointEvent::AddOrUpdate(Rc::clone(&endpoint.metadata));
        for listener in assembly.data_layer.all_endpoint_listeners() {
            listener.plugin.on_event(&event, Some(&mut endpoint));
        }
        Rc::new(endpoint)
    };
    let pool = Rc::new(Fixed(Rc::new((0..endpoints).map(endpoint).collect())));
    let admission = LegacyAdmission::new(assembly.detector.plugin);
    let options = DirectorOptions::default();
    Ok(Director::new(rt.clone(), pool, assembly.scheduler, admission, assembly.hooks, options))
}

fn endpoint(n: usize, rt: &Rt) -> Endpoint {
    let name = format!("vllm-{n:04}");
    let role = if n.is_multiple_of(2) { "decode" } else { "prefill" };
    let metadata = EndpointMetadata {
        id: EndpointId::new("default", &name),
        name,
        address: format!("10.0.{}.{}", n / 256, n % 256),
        port: "8000".to_owned(),
        labels: [("llm-d.ai/role".to_owned(), role.to_owned())].into(),
        ..EndpointMetadata::default()
    };
    let metrics = Metrics {
        waiting_queue_size: (n * 7 % 13) as i64,
        running_requests_size: (n * 5 % 31) as i64,
        kv_cache_usage_percent: (n * 37 % 101) as f64 / 101.0,
        cache_block_size: 64,
        cache_num_blocks: 8_000,
        update_time: Some(rt.now()),
        ..Metrics::default()
    };
    Endpoint { metadata: Rc::new(metadata), metrics, ..Endpoint::default() }
}

/// A pool that does not change.
struct Fixed(Rc<Vec<Rc<Endpoint>>>);

impl Pool for Fixed {
    fn endpoints(&self) -> Rc<Vec<Rc<Endpoint>>> {
        Rc::clone(&self.0)
    }

    fn priority(&self, _: &str) -> Option<i64> {
        None
    }

    fn rewrite_rule(&self, _: &str) -> Option<Rc<RewriteRule>> {
        None
    }
}

/// System prompts that requests share.
const SYSTEM_PROMPTS: usize = 16;

/// Chat requests: one of the system prompts in turn, then as much text that no other request has.
pub(crate) struct Requests {
    parsers: ParserRegistry,
    made: usize,
    /// Length of a whole prompt. Unit: bytes.
    prompt: usize,
}

impl Requests {
    pub(crate) fn new(prompt: usize) -> Self {
        Requests { parsers: ParserRegistry::default(), made: 0, prompt }
    }

    /// Returns the next request, its body parsed.
    pub(crate) fn next(&mut self) -> Result<RequestInput, Box<dyn Error>> {
        self.made += 1;
        let n = self.made;
        let system = format!("system prompt {:02} ", n % SYSTEM_PROMPTS).repeat(self.prompt / 2 / 17);
        let user = format!("question {n:08} ").repeat(self.prompt / 2 / 18);
        let body = json!({
            "model": "qwen3-14b",
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            "max_tokens": 200,
            "stream": true,
        });
        let request_id = format!("request-{n:08}");
        let headers: Headers = [
            (":method", "POST"),
            (":path", "/v1/chat/completions"),
            (":authority", "inference.example.com"),
            ("content-type", "application/json"),
            ("user-agent", "bench"),
            ("x-request-id", &request_id),
        ]
        .into_iter()
        .collect();
        let bytes = Bytes::from(body.to_string());
        let size_bytes = bytes.len();
        let body: ParsedBody = self.parsers.parse(&headers, bytes)?.0;
        Ok(RequestInput { headers, body, size_bytes, ..RequestInput::default() })
    }
}
