//! A simulated server as the recorded ones were started, and clients that read its streams.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use engines::engine::latency::Latency;
use engines::engine::{EngineConfig, Profile};
use engines::model_server::{Driver, ModelServer, ServerOptions};
use executor::http::Body;
use executor::{Class, Rt};
use http_body_util::BodyExt;
use serde_json::{Value, json};

/// How long a step takes: any time will do.
pub(super) const STEP: Duration = Duration::from_millis(1);

/// How often a stream that starts behind another one looks whether it may.
const LOOK: Duration = Duration::from_micros(100);

/// The longest sequence of the recorded servers that name none.
const MAX_MODEL_LEN: u32 = 4096;

/// The options of an engine of `version` with so many KV blocks of 32 tokens.
pub(super) fn config(version: &str, blocks: u32, max_model_len: Option<u32>) -> Result<EngineConfig, String> {
    let release = version.rsplit_once('.').map_or(version, |(release, _)| release);
    let profile = Profile::named(&format!("vllm-{release}"));
    let profile = profile.ok_or_else(|| format!("no profile for {version}"))?;
    Ok(EngineConfig {
        block_size: 32,
        // The recorded engines ran on the CPU, which schedules synchronously.
        async_scheduling: false,
        ..EngineConfig::new(profile, blocks, max_model_len.unwrap_or(MAX_MODEL_LEN))
    })
}

/// Starts a server of the model `tiny` before one engine.
pub(super) fn start(rt: &Rt, version: &str, config: EngineConfig) -> Result<ModelServer, String> {
    let options = ServerOptions {
        served_model_names: vec!["tiny".to_owned()],
        version: version.to_owned(),
        ..ServerOptions::new("<model path>", config.max_model_len)
    };
    let step = Latency::Fixed(STEP.as_micros() as u64);
    let (driver, handle) = Driver::new(rt, config, step).map_err(|error| error.to_string())?;
    let world = rt.simulation().expect("a simulation hosts this");
    drop(world.daemon_in(Class::Engine, "engine", driver.run()));
    Ok(ModelServer::new(rt, "recorded", vec![handle], options))
}

/// What has come of each stream so far.
pub(super) type Progress = Rc<RefCell<BTreeMap<String, Stream>>>;

/// What has come of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// Events but the last, `[DONE]`.
    pub(super) events: u64,
    pub(super) tokens: u64,
    pub(super) finish: Vec<Value>,
    pub(super) usage: Value,
}

/// The client of one stream; goes away after `cut` tokens.
pub(super) async fn client(rt: Rt, server: ModelServer, given: Value, cut: Option<u64>, progress: Progress) {
    let name = given["name"].as_str().unwrap_or_default().to_owned();
    if let (Some(other), Some(events)) = (given["after"][0].as_str(), given["after"][1].as_u64()) {
        while progress.borrow().get(other).is_none_or(|stream| stream.events < events) {
            rt.sleep(LOOK).await;
        }
    }
    let mut body = given["body"].clone();
    body["stream"] = json!(true);
    let request = ::http::Request::post(given["path"].as_str().unwrap_or_default())
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .expect("a recorded path is one");
    let mut answer = server.handle(request).await.into_body();
    while let Some(Ok(frame)) = answer.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        let mut streams = progress.borrow_mut();
        let stream = streams.entry(name.clone()).or_default();
        for event in String::from_utf8_lossy(&data).split_terminator("\n\n") {
            stream.take(event.strip_prefix("data: ").unwrap_or_default());
        }
        if cut.is_some_and(|cut| stream.tokens >= cut) {
            return;
        }
    }
}

impl Stream {
    fn take(&mut self, data: &str) {
        let Ok(event) = serde_json::from_str::<Value>(data) else { return };
        self.events += 1;
        for choice in event["choices"].as_array().into_iter().flatten() {
            self.tokens += choice["token_ids"].as_array().map_or(0, Vec::len) as u64;
            if !choice["finish_reason"].is_null() {
                self.finish.push(choice["finish_reason"].clone());
            }
        }
        if event["usage"].is_object() {
            self.usage = event["usage"].clone();
        }
    }
}
