//! The HTTP surface of a vLLM server before simulated engines (model-server spec 1).
//!
//! [`ModelServer::handle`] is one function from request to answer. On tokio a socket's server calls it, under the
//! simulation it is the service at an endpoint; it waits through the engine's handle only.
//!
//! | file | idea |
//! | --- | --- |
//! | `options` | what a server is started with |
//! | `routes` | paths and methods; what the web framework says to others |
//! | `in_process` | the short way for a client in the same process: no JSON |
//! | `completions`, `chat`, `generate`, `render`, `tokens`, `models`, `adapters` | a family of endpoints each |
//! | `fields`, `prompts`, `lax` | what requests have in common, and how leniently they are read |
//! | `choices`, `events`, `usage`, `logprobs` | what answers have in common |
//! | `exposition` | `/metrics` |
//! | `operators` | pause, sleep, reset, for who runs the server |
//! | `release` | which releases of vLLM answer otherwise |
//! | `error`, `reply` | answers that fail, answers that are whole |

mod adapters;
mod chat;
mod choices;
mod completions;
mod error;
mod events;
mod exposition;
mod fields;
mod generate;
mod in_process;
mod lax;
mod logprobs;
mod models;
mod operators;
mod options;
mod prompts;
mod release;
mod render;
mod reply;
mod routes;
mod tokens;
mod usage;

use std::fmt::Write as _;
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use executor::http::Body;
use executor::{Rt, Stream, WallTime};
use futures::future;
use http::{HeaderValue, Request, Response};
use twox_hash::XxHash64;

use self::adapters::Adapters;
use self::error::ApiError;
pub use self::in_process::{InProcessCall, Receipt};
use self::operators::Rest;
pub use self::options::{Adapter, ServerOptions};
use self::release::Release;
use super::generation::EngineHandle;
use super::tokenizer::Tokenizer;
use crate::engine::PauseMode;

/// A vLLM server before one engine, or before one for each data-parallel rank. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ModelServer(Arc<Inner>);

/// What the endpoints share.
#[derive(Debug)]
struct Inner {
    rt: Rt,
    engines: Vec<EngineHandle>,
    options: ServerOptions,
    release: Release,
    rest: Mutex<Rest>,
    adapters: Mutex<Adapters>,
    tokenizer: Tokenizer,
    fingerprint: String,
    /// The first served model name, for who takes it as a value.
    model_name: Arc<str>,
    started: WallTime,
    /// Draws request ids.
    ids: Mutex<Stream>,
    /// Requests being served, where they are counted.
    load: Arc<AtomicU64>,
}

/// What a request's head says to the endpoints.
struct Asked<'a> {
    /// `X-Request-Id`.
    request_id: Option<&'a str>,
    /// `X-data-parallel-rank`, where it is an integer.
    rank: Option<i64>,
    ticket: Ticket,
}

/// Counts a request as being served until it is dropped.
#[derive(Debug)]
struct Ticket(Option<Arc<AtomicU64>>);

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(load) = &self.0 {
            load.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl ModelServer {
    /// Returns the server of `engines`, rank 0 first.
    ///
    /// Request ids are drawn from a stream of `rt` that is named after the server: two servers of one runtime need two
    /// names.
    ///
    /// # Panics
    /// Without an engine.
    #[must_use]
    pub fn new(rt: &Rt, name: &str, engines: Vec<EngineHandle>, options: ServerOptions) -> Self {
        assert!(!engines.is_empty(), "a model server stands before at least one engine");
        let mut described = String::new();
        write!(described, "{options:?}").expect("writing to a String cannot fail");
        let fingerprint =
            format!("vllm-{}-{:08x}", options.version, XxHash64::oneshot(0, described.as_bytes()) >> 32);
        Self(Arc::new(Inner {
            rt: rt.clone(),
            engines,
            model_name: options.served_model_names.first().unwrap_or(&options.model_path).as_str().into(),
            adapters: Mutex::new(Adapters::new(&options.lora_modules)),
            release: Release::of(&options.version),
            rest: Mutex::default(),
            options,
            tokenizer: Tokenizer::new(),
            fingerprint,
            started: rt.wall(),
            ids: Mutex::new(rt.stream(&format!("model-server {name}"))),
            load: Arc::new(AtomicU64::new(0)),
        }))
    }

    /// Answers a request. Dropping the future, or the answer's body before its end, aborts what was asked for.
    ///
    /// A request with the extension `Arc<`[`InProcessCall`]`>` is a call for tokens whatever its path; one with
    /// [`AcceptGauges`](router::data_layer::engine_gauges::AcceptGauges) gets the gauges as an extension instead of text.
    pub async fn handle(&self, request: Request<Body>) -> Response<Body> {
        if let Some(call) = request.extensions().get::<Arc<InProcessCall>>() {
            return in_process::answer(self.0.least_loaded(), Arc::clone(call));
        }
        routes::answer(&self.0, request).await
    }

    /// Ends all requests with `finish_reason` "abort", as vLLM does when it is told to end (model-server spec 7);
    /// later ones wait for ever.
    pub async fn abort_all(&self) {
        let engines = self.0.engines.iter();
        future::join_all(engines.map(|engine| engine.pause(PauseMode::Abort, false))).await;
    }

    /// Returns the options it was started with.
    #[must_use]
    pub fn options(&self) -> &ServerOptions {
        &self.0.options
    }
}

impl Inner {
    /// The adapter that `model` names, `None` for the base model.
    fn adapter(&self, model: Option<&str>, adapters: bool) -> Result<Option<Adapter>, ApiError> {
        let name = model.unwrap_or_default();
        if name.is_empty() || self.options.served_model_names.iter().any(|served| served == name) {
            return Ok(None);
        }
        let loaded = self.adapters.lock().unwrap_or_else(PoisonError::into_inner);
        let adapter = loaded.loaded.iter().find(|adapter| adapters && adapter.name == name);
        adapter.cloned().map(Some).ok_or_else(|| ApiError::unknown_model(name))
    }

    /// The name that answers carry: the adapter's, else the first served one, whatever alias was asked for.
    fn answering_model(&self, adapter: Option<&Adapter>) -> String {
        adapter.map_or_else(|| self.model().to_owned(), |adapter| adapter.name.clone())
    }

    /// The first served model name.
    fn model(&self) -> &str {
        &self.model_name
    }

    /// The engine of a rank; without one, the least loaded.
    fn engine(&self, rank: Option<i64>) -> Result<&EngineHandle, ApiError> {
        let Some(rank) = rank else { return Ok(self.least_loaded()) };
        let engine = usize::try_from(rank).ok().and_then(|rank| self.engines.get(rank));
        let last = self.engines.len() - 1;
        engine.ok_or_else(|| ApiError::raised(format!("there is no rank {rank}; ranks are 0 to {last}")))
    }

    /// The engine with the least 4 x waiting + running (model-server spec 6.3), the first of several.
    fn least_loaded(&self) -> &EngineHandle {
        let [engine] = self.engines.as_slice() else {
            let load = |engine: &&EngineHandle| {
                let published = engine.published().lock();
                4 * published.waiting() + published.gauges.running as u64
            };
            return self.engines.iter().min_by_key(load).expect("a server has at least one engine");
        };
        engine
    }

    /// The id of a request: its header, else its body's, else a new one.
    fn request_id(&self, header: Option<&str>, body: Option<&str>) -> String {
        header.or(body).map_or_else(|| self.hex16(), str::to_owned)
    }

    /// A member that is null in the answers of some releases, and left out in those of others.
    fn null(&self, releases: impl RangeBounds<Release>) -> Option<()> {
        releases.contains(&self.release).then_some(())
    }

    /// 16 random hex digits.
    fn hex16(&self) -> String {
        format!("{:016x}", self.ids.lock().unwrap_or_else(PoisonError::into_inner).u64())
    }

    fn ticket(&self) -> Ticket {
        Ticket(self.options.server_load_tracking.then(|| {
            self.load.fetch_add(1, Ordering::Relaxed);
            Arc::clone(&self.load)
        }))
    }

    /// The header that tells a client the load, in the format it asked for.
    fn load_report(&self, format: &str) -> Option<HeaderValue> {
        let published = self.engines[0].published().lock();
        let (waiting, usage) = (published.waiting() as f64, published.gauges.usage);
        drop(published);
        let report = match format {
            "TEXT" => format!(
                "TEXT named_metrics.num_requests_waiting={waiting:?}, named_metrics.kv_cache_usage_perc={usage:?}"
            ),
            "JSON" => format!(
                "JSON {{\"named_metrics\": {{\"num_requests_waiting\": {waiting:?}, \"kv_cache_usage_perc\": {usage:?}}}}}"
            ),
            _ => return None,
        };
        report.try_into().ok()
    }
}

#[cfg(test)]
mod tests;
